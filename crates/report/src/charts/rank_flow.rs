//! Ranks of the encoders: on the original texts, on each axis, in total.

use svg::node::element::{Circle, Group, Polyline};

use super::{Chart, Figure, drawing, fitted, label, short, wrapped};
use crate::{
    format::place,
    noise_view::Pages,
    profile::{Axis, Level, Quantity, RankShift, ScopeProfile},
};

const LEFT: f64 = 226.0;
const COLUMN: f64 = 112.0;
const RIGHT: f64 = 220.0;
const ROW: f64 = 30.0;
const TOP: f64 = 44.0;
/// Maximum number of characters in a line of an encoder's name.
const NAME: usize = 29;

pub(super) const CHART: Chart = Chart {
    id: "flow",
    title: "Changes of rank.",
    shows: "Ranks of the encoders on the original texts, per axis and in total.",
    first: false,
    figures,
};

/// The chart with its caption; none with fewer than two encoders.
fn figures(pages: &Pages<'_>) -> Vec<Figure> {
    let figure = |svg| Figure {
        title: CHART.title.to_owned(),
        caption: "Ranks of the encoders by mean score, on the original texts, per axis and in total.".to_owned(),
        marks: &[],
        wide: true,
        svg,
    };
    let first = pages.full.profile.scopes.first();
    first
        .and_then(|scope| rank_flow(scope, CHART.id))
        .map(figure)
        .into_iter()
        .collect()
}

/// One line per encoder, one column per ranking; the best is at the top. Empty with fewer than two
/// encoders.
fn rank_flow(scope: &ScopeProfile, id: &str) -> Option<String> {
    let first = scope.rank_shifts.first()?;
    // Controls are the last axes, and the total comes at the end.
    let columns: Vec<&Quantity> = first
        .under
        .iter()
        .map(|one| &one.quantity)
        .filter(|quantity| quantity.level != Level::Transformation)
        .collect();
    let n = scope.rank_shifts.len();
    let width = LEFT + columns.len() as f64 * COLUMN + RIGHT;
    let height = TOP + n as f64 * ROW + 4.0;
    let x = |column: usize| LEFT + column as f64 * COLUMN;
    let y = |rank: f64| TOP + (rank - 0.5) * ROW;
    let mut chart = drawing(
        id,
        width,
        height,
        "Places on original and transformed texts",
        &description(scope),
    );
    chart = chart.add(label(x(0), 14.0, "tick middle", "Original"));
    for (c, quantity) in columns.iter().enumerate() {
        for (i, part) in wrapped(&heading(quantity), 17).into_iter().enumerate() {
            chart = chart.add(label(x(c + 1), 14.0 + i as f64 * 13.0, "tick middle", part));
        }
    }
    // Encoders that changed rank are drawn over the others.
    let mut order: Vec<&RankShift> = scope.rank_shifts.iter().collect();
    let gain = |one: &RankShift| columns.last().map_or(0.0, |last| under(one, last).1);
    order.sort_by(|a, b| gain(a).abs().total_cmp(&gain(b).abs()));
    for one in order {
        let ranks: Vec<f64> = std::iter::once(one.original)
            .chain(columns.iter().map(|quantity| under(one, quantity).0))
            .collect();
        let trend = match gain(one) {
            up if up > 0.0 => "gain",
            down if down < 0.0 => "loss",
            _ => "same",
        };
        let points: Vec<String> = ranks
            .iter()
            .enumerate()
            .map(|(c, rank)| format!("{},{}", short(x(c)), short(y(*rank))))
            .collect();
        let mut group = Group::new()
            .set("class", format!("flow {trend}"))
            .add(Polyline::new().set("points", points.join(" ")));
        for (c, rank) in ranks.iter().enumerate() {
            let (x, y) = (x(c), y(*rank));
            let mark = Circle::new().set("cx", short(x)).set("cy", short(y)).set("r", "10");
            group = group.add(mark).add(label(x, y + 4.0, "place middle", place(*rank)));
        }
        let ends = [
            (x(0) - 18.0, None, "row end"),
            (x(columns.len()) + 18.0, columns.last().copied(), "row"),
        ];
        for (x, quantity, class) in ends {
            // Two lines fit a row.
            let lines = wrapped(&fitted(&one.encoder, 2 * NAME - 4), NAME);
            let first = beside(scope, one, quantity, &y) - (lines.len() - 1) as f64 * 6.5;
            for (i, part) in lines.into_iter().enumerate() {
                group = group.add(label(x, first + i as f64 * 13.0, class, part));
            }
        }
        chart = chart.add(group);
    }
    Some(chart.to_string())
}

/// The rank, and the number of ranks gained.
fn under(one: &RankShift, quantity: &Quantity) -> (f64, f64) {
    let found = one.under.iter().find(|under| under.quantity == *quantity);
    found.map_or((one.original, 0.0), |under| (under.rank, under.gained))
}

/// Height of a name. Encoders with equal rank are placed below each other around it.
fn beside(scope: &ScopeProfile, one: &RankShift, quantity: Option<&Quantity>, y: &dyn Fn(f64) -> f64) -> f64 {
    let rank = |one: &RankShift| quantity.map_or(one.original, |quantity| under(one, quantity).0);
    let tied: Vec<&str> = scope
        .rank_shifts
        .iter()
        .filter(|other| rank(other) == rank(one))
        .map(|other| other.encoder.as_str())
        .collect();
    let position = tied.iter().position(|name| *name == one.encoder).unwrap_or_default() as f64;
    y(rank(one)) + 4.5 + (position - (tied.len() - 1) as f64 / 2.0) * 15.0
}

fn heading(quantity: &Quantity) -> String {
    match quantity.level {
        Level::Total => "Total".to_owned(),
        _ => Axis::SCORED
            .into_iter()
            .find(|axis| axis.name() == quantity.name)
            .map_or_else(|| quantity.name.clone(), |axis| axis.title().to_owned()),
    }
}

fn description(scope: &ScopeProfile) -> String {
    let all = scope.rank_shifts.iter().map(|one| {
        let under: Vec<String> = one
            .under
            .iter()
            .filter(|under| under.quantity.level != Level::Transformation)
            .map(|under| format!("{} {}", heading(&under.quantity).to_lowercase(), place(under.rank)))
            .collect();
        format!(
            "{}: original {}, {}.",
            one.encoder,
            place(one.original),
            under.join(", ")
        )
    });
    all.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(name: &str, original: f64, total: f64) -> RankShift {
        RankShift {
            encoder: name.to_owned(),
            original,
            under: vec![crate::profile::RankUnder {
                quantity: Quantity {
                    level: Level::Total,
                    name: "total".to_owned(),
                },
                rank: total,
                gained: original - total,
            }],
        }
    }

    #[test]
    fn who_shares_a_place_has_a_line_of_its_own_for_the_name() {
        let scope = ScopeProfile {
            scope: crate::profile::Scope::All,
            datasets: Vec::new(),
            groups: Vec::new(),
            shifts: Vec::new(),
            axis_changes: Vec::new(),
            rank_stability: Vec::new(),
            rank_shifts: vec![encoder("one", 1.5, 1.0), encoder("two", 1.5, 2.0)],
            reliability: Vec::new(),
            friedman: Vec::new(),
            not_computed: Vec::new(),
        };
        let y = |rank: f64| 100.0 * rank;
        let at = |i: usize| beside(&scope, &scope.rank_shifts[i], None, &y);
        assert_eq!(at(1) - at(0), 15.0);
        let svg = rank_flow(&scope, "flow").unwrap_or_default();
        assert!(svg.contains("flow gain") && svg.contains("flow loss"), "{svg}");
        assert!(svg.contains("one: original 1.5, total 1."));
    }
}
