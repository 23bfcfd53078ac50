//! Shift of every transformation with its interval, over all encoders (HTEB, figure 7).

use svg::node::element::{Group, SVG};

use super::{Chart, Figure, circle, drawing, label, line, scale::Scale, wrapped};
use crate::{
    format::{fine, p_value, signed, signed_fine},
    noise_view::Pages,
    profile::{Scope, ScopeProfile, ShiftInterval, TransformationShift},
};

const WIDTH: f64 = 582.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 386.0;
const ROW: f64 = 25.0;
const HEAD: f64 = 30.0;
const TOP: f64 = 26.0;
const FOOT: f64 = 30.0;
/// Shifts whose adjusted p-value reaches this are drawn pale.
const ALPHA: f64 = 0.05;

/// Height of each further line of a name.
const LINE: f64 = 14.0;
/// Maximum number of characters in a line of a name.
const MOST: usize = 25;

/// A transformation's name in lines.
fn names(one: &TransformationShift) -> Vec<String> {
    wrapped(&one.transformation, MOST)
}

/// Height of a row.
fn tall(one: &TransformationShift) -> f64 {
    ROW + (names(one).len() - 1) as f64 * LINE
}

pub(super) const CHART: Chart = Chart {
    id: "forest",
    title: "Shifts with intervals",
    shows: "The Hodges–Lehmann shift of each transformation with its 95 % interval, for each group of languages.",
    first: false,
    figures,
};

/// A chart with its caption for each language group if there are two, else a single one.
fn figures(pages: &Pages<'_>) -> Vec<Figure> {
    let scopes = &pages.brief.profile.scopes;
    let shown = |scope: &&ScopeProfile| scopes.len() == 1 || scope.scope != Scope::All;
    let shown: Vec<&ScopeProfile> = scopes
        .iter()
        .filter(shown)
        .filter(|scope| !scope.shifts.is_empty())
        .collect();
    let several = shown.len() > 1;
    let figure = |(i, scope): (usize, &&ScopeProfile)| {
        let mut shifts = scope.shifts.iter().map(|one| &one.shift);
        let rough = match shifts.any(|one| one.signed_rank_interval.is_none() && one.interval.is_some()) {
            true => " (dashed: percentile bootstrap, because there are too few data sets for a signed-rank interval)",
            false => "",
        };
        let group = if several {
            format!(": {}", scope.scope.title())
        } else {
            String::new()
        };
        Figure {
            title: format!("{}{group}.", CHART.title),
            caption: format!(
                "Hodges–Lehmann shift over encoders, one pair a data set (n = {}), with its 95 % interval{rough}; grey where the adjusted p \
                 does not fall below 0.05. As HTEB, figure 7.",
                scope.n()
            ),
            marks: &[],
            wide: false,
            svg: forest(scope, &format!("{}-{i}", CHART.id)),
        }
    };
    shown.iter().enumerate().map(figure).collect()
}

/// One block per axis, one row per transformation: the dot is the Hodges–Lehmann shift, the line
/// its interval.
fn forest(scope: &ScopeProfile, id: &str) -> String {
    let axes: Vec<_> = scope.axis_changes.iter().map(|change| change.axis).collect();
    let height = TOP + axes.len() as f64 * HEAD + scope.shifts.iter().map(tall).sum::<f64>() + FOOT;
    let values: Vec<f64> = scope
        .shifts
        .iter()
        .flat_map(|one| {
            let ends = interval(one).map_or([one.shift.hodges_lehmann; 2], |found| [found.low, found.high]);
            [one.shift.hodges_lehmann, ends[0], ends[1], 0.0]
        })
        .collect();
    let scale = Scale::new(&values, LEFT, RIGHT);
    let title = format!("Shift per transformation, {}", scope.scope.title());
    let mut chart = drawing(id, WIDTH, height, &title, &description(scope));
    for (x, class, heading) in [
        (RIGHT + 62.0, "tick end", "shift"),
        (RIGHT + 126.0, "tick end", "p (Holm)"),
        (WIDTH - 2.0, "tick end", "|Δ| median"),
    ] {
        chart = chart.add(label(x, TOP - 10.0, class, heading));
    }
    chart = grid(chart, &scale, height);
    let mut y = TOP;
    for change in &scope.axis_changes {
        chart = chart.add(label(0.0, y + 19.0, "name", change.axis.title())).add(label(
            WIDTH - 2.0,
            y + 19.0,
            "name end",
            fine(change.median_absolute_difference),
        ));
        y += HEAD;
        for one in scope.shifts.iter().filter(|one| one.axis == change.axis) {
            chart = chart.add(row(&scale, y + ROW / 2.0 - 4.0, one));
            y += tall(one);
        }
    }
    chart.to_string()
}

/// The signed-rank interval; the bootstrap interval if there are too few data sets for the former.
fn interval(one: &TransformationShift) -> Option<&ShiftInterval> {
    one.shift.signed_rank_interval.as_ref().or(one.shift.interval.as_ref())
}

fn grid(mut chart: SVG, scale: &Scale, height: f64) -> SVG {
    for tick in scale.ticks() {
        let x = scale.at(tick);
        let class = if tick.abs() < 1e-9 { "zero" } else { "grid" };
        let text = label(x, height - FOOT + 17.0, "tick middle", scale.tick(tick));
        chart = chart.add(line(x, TOP, x, height - FOOT, class)).add(text);
    }
    chart
}

fn row(scale: &Scale, y: f64, one: &TransformationShift) -> Group {
    let shift = &one.shift;
    let sure = shift.p_holm.is_some_and(|p| p < ALPHA);
    let trend = if shift.hodges_lehmann < 0.0 { "loss" } else { "gain" };
    let class = if sure {
        format!("bell {trend}")
    } else {
        "bell same".to_owned()
    };
    let mut group = Group::new().set("class", class);
    for (i, part) in names(one).into_iter().enumerate() {
        group = group.add(label(LEFT - 14.0, y + 4.5 + i as f64 * LINE, "row end", part));
    }
    if let Some(found) = interval(one) {
        let exact = shift.signed_rank_interval.is_some();
        group = group.add(line(
            scale.at(found.low),
            y,
            scale.at(found.high),
            y,
            if exact { "range" } else { "range rough" },
        ));
    }
    let dot = circle(scale.at(shift.hodges_lehmann), y, 5.0, "now");
    let p = shift.p_holm.map_or("–".to_owned(), p_value);
    group
        .add(dot)
        .add(label(
            RIGHT + 62.0,
            y + 4.5,
            "delta end",
            signed_fine(shift.hodges_lehmann),
        ))
        .add(label(RIGHT + 126.0, y + 4.5, "row end", p))
        .add(label(
            WIDTH - 2.0,
            y + 4.5,
            "row end",
            fine(shift.median_absolute_difference),
        ))
}

fn description(scope: &ScopeProfile) -> String {
    let all = scope.shifts.iter().map(|one| {
        let range = interval(one).map_or("no interval".to_owned(), |found| {
            format!("{} to {}", signed(found.low), signed(found.high))
        });
        format!("{} {} ({range})", one.transformation, signed(one.shift.hodges_lehmann))
    });
    all.collect::<Vec<_>>().join("; ")
}
