//! Drift against ratings of every encoder and transformation, with its interval (as HTEB, figure
//! 3).

use svg::node::element::Group;

use super::{Chart, Figure, circle, drawing, fitted, label, line, scale::Scale as Ruler, wrapped};
use crate::{DriftRating, JudgedScale, format::signed_fine, noise_view::Pages};

const WIDTH: f64 = 570.0;
const LEFT: f64 = 198.0;
const RIGHT: f64 = 444.0;
const ROW: f64 = 25.0;
const HEAD: f64 = 30.0;
const TOP: f64 = 26.0;
const FOOT: f64 = 30.0;

/// Height of each further line of a name.
const LINE: f64 = 14.0;
/// Maximum number of characters in a line of a name.
const MOST: usize = 25;

/// A transformation's name in lines.
fn names(one: &DriftRating) -> Vec<String> {
    wrapped(&one.transformation, MOST)
}

/// Height of a row.
fn tall(one: &DriftRating) -> f64 {
    ROW + (names(one).len() - 1) as f64 * LINE
}

pub(super) const CHART: Chart = Chart {
    id: "judged",
    title: "Does drift follow quality?",
    shows: "Spearman’s ρ of drift with the judge’s rating under each transformation, for each scale of the judge.",
    first: false,
    figures,
};

/// A chart with its caption for each scale of the judge.
fn figures(pages: &Pages<'_>) -> Vec<Figure> {
    let Some(judge) = &pages.full.judge else {
        return Vec::new();
    };
    let figure = |(i, own): (usize, &JudgedScale)| {
        let rows = judge
            .drift
            .iter()
            .filter(|row| row.scale == own.scale && row.dataset.is_none());
        let svg = drift_against_ratings(&rows.collect::<Vec<_>>(), &format!("{}-{i}", CHART.id))?;
        Some(Figure {
            title: CHART.title.to_owned(),
            caption: format!(
                "Spearman’s ρ of drift with the judge’s rating ({}) over texts, with its 95 % bootstrap interval; grey where the interval \
                 contains 0. Below 0: texts rated lower moved further. As HTEB, figure 3.",
                own.scale.title()
            ),
            marks: &[],
            wide: false,
            svg,
        })
    };
    judge.scales.iter().enumerate().filter_map(figure).collect()
}

/// One block per encoder, one row per transformation, over all data sets: the dot is Spearman's
/// rho, the line its interval. Empty if no correlation is defined. All rows are of one scale.
pub(crate) fn drift_against_ratings(rows: &[&DriftRating], id: &str) -> Option<String> {
    let scale = rows.iter().find(|row| row.spearman.is_some())?.scale;
    let mut blocks: Vec<(&str, Vec<&DriftRating>)> = Vec::new();
    for row in rows {
        match blocks.last_mut() {
            Some((encoder, own)) if *encoder == row.encoder => own.push(row),
            _ => blocks.push((&row.encoder, vec![row])),
        }
    }
    let height = TOP + blocks.len() as f64 * HEAD + rows.iter().map(|one| tall(one)).sum::<f64>() + FOOT;
    let ruler = Ruler::between(-1.0, 1.0, 0.5, LEFT, RIGHT);
    let title = format!("Drift against ratings, {}", scale.title());
    let mut chart = drawing(id, WIDTH, height, &title, &description(rows))
        .add(label(RIGHT + 62.0, TOP - 10.0, "tick end", "ρ"))
        .add(label(WIDTH - 2.0, TOP - 10.0, "tick end", "texts"));
    for tick in ruler.ticks() {
        let x = ruler.at(tick);
        let class = if tick.abs() < 1e-9 { "zero" } else { "grid" };
        let text = label(x, height - FOOT + 17.0, "tick middle", ruler.tick(tick));
        chart = chart.add(line(x, TOP, x, height - FOOT, class)).add(text);
    }
    let mut y = TOP;
    for (encoder, own) in blocks {
        chart = chart.add(label(0.0, y + 19.0, "name", fitted(encoder, 60)));
        y += HEAD;
        for one in own {
            chart = chart.add(row(&ruler, y + ROW / 2.0 - 4.0, one));
            y += tall(one);
        }
    }
    Some(chart.to_string())
}

fn row(ruler: &Ruler, y: f64, one: &DriftRating) -> Group {
    let trend = match (one.low, one.high) {
        (_, Some(high)) if high < 0.0 => "loss",
        (Some(low), _) if low > 0.0 => "gain",
        _ => "same",
    };
    let mut group = Group::new().set("class", format!("bell {trend}"));
    for (i, part) in names(one).into_iter().enumerate() {
        group = group.add(label(LEFT - 14.0, y + 4.5 + i as f64 * LINE, "row end", part));
    }
    if let (Some(low), Some(high)) = (one.low, one.high) {
        group = group.add(line(ruler.at(low), y, ruler.at(high), y, "range"));
    }
    if let Some(rho) = one.spearman {
        group = group.add(circle(ruler.at(rho), y, 5.0, "now"));
    }
    let rho = one.spearman.map_or("–".to_owned(), signed_fine);
    group.add(label(RIGHT + 62.0, y + 4.5, "delta end", rho)).add(label(
        WIDTH - 2.0,
        y + 4.5,
        "row end",
        one.texts.to_string(),
    ))
}

fn description(rows: &[&DriftRating]) -> String {
    let all = rows.iter().map(|one| {
        let correlation = match (one.spearman, one.low, one.high) {
            (Some(rho), Some(low), Some(high)) => {
                format!("{} ({} to {})", signed_fine(rho), signed_fine(low), signed_fine(high))
            }
            (Some(rho), _, _) => signed_fine(rho),
            (None, _, _) => "no correlation".to_owned(),
        };
        format!("{}, {}: {correlation}", one.encoder, one.transformation)
    });
    all.collect::<Vec<_>>().join("; ")
}
