//! Change per encoder and transformation.

use svg::node::element::Group;

use super::{Chart, Figure, drawing, label, longest, rectangle, short, wrapped};
use crate::{Report, format::signed, noise_view::Pages};

const CELL: f64 = 74.0;
const ROW: f64 = 34.0;
/// Width of a character, and height of a line; estimated, since fonts differ.
const CHARACTER: f64 = 7.2;
const LINE: f64 = 15.0;
/// Maximum number of characters in a line of an encoder's and of a transformation's name.
const ENCODER: usize = 28;
const TRANSFORMATION: usize = 30;
/// Slope of the transformations' names, in degrees.
const SLANT: f64 = 38.0;
const GAP: f64 = 3.0;
/// Changes below this never get the strongest colour, so that a map of small changes looks like
/// one.
const LEAST_FULL: f64 = 5.0;
/// Number of colour steps on either side of zero.
const STEPS: f64 = 4.0;

pub(super) const CHART: Chart = Chart {
    id: "heat",
    title: "Change per transformation.",
    shows: "The change of each encoder under each transformation, in points.",
    first: false,
    figures,
};

/// The chart with its caption; none without transformations.
fn figures(pages: &Pages<'_>) -> Vec<Figure> {
    let figure = || Figure {
        title: CHART.title.to_owned(),
        caption: "In points, per encoder; mean over data sets and seeds. As HTEB, figure 6.".to_owned(),
        marks: &[],
        wide: false,
        svg: heat_map(&pages.brief),
    };
    let any = !pages.brief.suite.transformations.is_empty();
    any.then(figure).into_iter().collect()
}

/// Rows are encoders and columns transformations, with their axis above. A cell is the change in
/// points.
fn heat_map(report: &Report) -> String {
    let columns = &report.suite.transformations;
    let heads: Vec<Vec<String>> = columns
        .iter()
        .map(|column| wrapped(&column.label, TRANSFORMATION))
        .collect();
    let names: Vec<Vec<String>> = report
        .profile
        .encoders
        .iter()
        .map(|encoder| wrapped(&encoder.encoder, ENCODER))
        .collect();
    let left = 24.0 + longest(names.iter().flatten()) * CHARACTER;
    // Names are slanted: their height, including the lines above the last, and their overhang to
    // the right.
    let (sine, cosine) = SLANT.to_radians().sin_cos();
    let reach = longest(heads.iter().flatten()) * CHARACTER;
    let lines = heads.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let head = 26.0 + reach * sine + (lines - 1.0) * LINE * cosine;
    let width = left + columns.len() as f64 * CELL + (reach * cosine - CELL / 2.0).max(0.0) + 8.0;
    let row = ROW.max(names.iter().map(Vec::len).max().unwrap_or(1) as f64 * LINE + 6.0);
    let height = head + report.profile.encoders.len() as f64 * row + 6.0;
    let full = largest_change(report);
    let mut chart = drawing(
        CHART.id,
        width,
        height,
        "Change per encoder and transformation, in points",
        &description(report),
    );
    for (c, lines) in heads.into_iter().enumerate() {
        let x = left + c as f64 * CELL + CELL / 2.0 - 8.0;
        let turned = format!("rotate(-{} {} {})", short(SLANT), short(x), short(head - 8.0));
        let last = lines.len() - 1;
        for (i, part) in lines.into_iter().enumerate() {
            let y = head - 8.0 - (last - i) as f64 * LINE;
            chart = chart.add(label(x, y, "row", part).set("transform", turned.clone()));
        }
    }
    for (r, (encoder, lines)) in report.profile.encoders.iter().zip(names).enumerate() {
        let y = head + r as f64 * row;
        let first = y + row / 2.0 + 3.0 - (lines.len() - 1) as f64 * LINE / 2.0;
        for (i, part) in lines.into_iter().enumerate() {
            chart = chart.add(label(left - 10.0, first + i as f64 * LINE, "row end", part));
        }
        for (c, one) in encoder.transformations.iter().enumerate() {
            let x = left + c as f64 * CELL;
            let class = heat_class(one.moved.delta, full);
            chart = chart.add(
                Group::new()
                    .set("class", format!("cell {class}"))
                    .add(rectangle(x, y, CELL - GAP, row - GAP, "box").set("rx", "4"))
                    .add(label(
                        x + (CELL - GAP) / 2.0,
                        y + row / 2.0 + 3.0,
                        "value middle",
                        signed(one.moved.delta),
                    )),
            );
        }
    }
    chart.to_string()
}

/// The change that gets the strongest colour.
pub(crate) fn largest_change(report: &Report) -> f64 {
    let changes = report
        .profile
        .encoders
        .iter()
        .flat_map(|encoder| &encoder.transformations)
        .map(|t| t.moved.delta.abs());
    changes.filter(|change| change.is_finite()).fold(LEAST_FULL, f64::max)
}

/// Colour class of a change: `l1`…`l4` for losses, `g1`…`g4` for gains, `n` for none.
pub(crate) fn heat_class(delta: f64, full: f64) -> &'static str {
    let step = (delta.abs() / full * STEPS).ceil().clamp(0.0, STEPS) as usize;
    let quiet = delta.abs() < 0.05 || !delta.is_finite();
    match (quiet, delta < 0.0) {
        (true, _) => "n",
        (false, true) => ["n", "l1", "l2", "l3", "l4"][step],
        (false, false) => ["n", "g1", "g2", "g3", "g4"][step],
    }
}

fn description(report: &Report) -> String {
    let encoders = report.profile.encoders.iter().map(|encoder| {
        let cells: Vec<String> = encoder
            .transformations
            .iter()
            .map(|t| format!("{} {}", t.transformation, signed(t.moved.delta)))
            .collect();
        format!("{}: {}.", encoder.encoder, cells.join(", "))
    });
    encoders.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_are_pale_and_signs_have_their_own_colours() {
        assert_eq!(heat_class(-0.01, 5.0), "n");
        assert_eq!(heat_class(-0.5, 5.0), "l1");
        assert_eq!(heat_class(-5.0, 5.0), "l4");
        assert_eq!(heat_class(2.0, 5.0), "g2");
        assert_eq!(heat_class(f64::NAN, 5.0), "n");
    }
}
