//! Scores of one release after another.

use svg::node::element::{Group, Polyline};

use super::{circle, drawing, fitted, label, line, scale::Scale, short};
use crate::{
    GateVerdict,
    format::points,
    releases::{History, Release},
};

const LEFT: f64 = 46.0;
const RIGHT: f64 = 150.0;
/// Width of a label of the axis.
const LABEL: f64 = 76.0;
/// Least and greatest width of the plot.
const LEAST: f64 = 440.0;
const GREATEST: f64 = 912.0;
/// Width of a character of a label; estimated, since fonts differ.
const CHARACTER: f64 = 6.4;
/// Least distance between the names of the two lines.
const APART: f64 = 16.0;
const TOP: f64 = 16.0;
const PLOT: f64 = 230.0;
const FOOT: f64 = 50.0;

/// One column per release, one line for the original texts and one for the transformed ones. The
/// dots of a release have the colour of its verdict.
pub(crate) fn releases(history: &History, id: &str) -> String {
    let all = &history.releases;
    let count = all.len().max(1) as f64;
    let column = LABEL.min(GREATEST / count).max(LEAST / count);
    let every = (LABEL / column).ceil().max(1.0) as usize;
    let width = LEFT + all.len() as f64 * column + RIGHT;
    let height = TOP + PLOT + FOOT;
    let values: Vec<f64> = all
        .iter()
        .flat_map(|one| [Some(one.original), one.transformed])
        .flatten()
        .collect();
    let scale = Scale::new(&values, TOP + PLOT, TOP);
    let x = |place: usize| LEFT + (place as f64 + 0.5) * column;
    let title = format!("Releases of {}", history.encoder);
    let mut chart = drawing(id, width, height, &title, &description(all));
    for tick in scale.ticks() {
        let y = scale.at(tick);
        let end = width - RIGHT;
        chart = chart
            .add(line(LEFT, y, end, y, "grid"))
            .add(label(LEFT - 8.0, y + 4.0, "tick end", scale.tick(tick)));
    }
    let most = (column * every as f64 / CHARACTER) as usize - 1;
    for (place, one) in all.iter().enumerate().filter(|(place, _)| place % every == 0) {
        let day: String = one.finished.to_string().chars().take(10).collect();
        let (name, foot) = (fitted(&one.name, most), height - FOOT);
        chart = chart.add(label(x(place), foot + 18.0, "row middle", name)).add(label(
            x(place),
            foot + 34.0,
            "tick middle",
            day,
        ));
    }
    let series: [(&str, &dyn Fn(&Release) -> Option<f64>); 2] = [
        ("original texts", &|one| Some(one.original)),
        ("transformed texts", &|one| one.transformed),
    ];
    let mut ends: Vec<(&str, f64)> = Vec::new();
    for (name, value) in series {
        let dots: Vec<(f64, f64, &Release)> = all
            .iter()
            .enumerate()
            .filter_map(|(place, one)| Some((x(place), scale.at(value(one)?), one)))
            .collect();
        let Some((_, last, _)) = dots.last().copied() else {
            continue;
        };
        let path: Vec<String> = dots
            .iter()
            .map(|(x, y, _)| format!("{},{}", short(*x), short(*y)))
            .collect();
        let mut group = Group::new()
            .set("class", "flow")
            .add(Polyline::new().set("points", path.join(" ")));
        for (x, y, one) in dots {
            group = group.add(
                Group::new()
                    .set("class", format!("flow {}", trend(one)))
                    .add(circle(x, y, 5.0, "now")),
            );
        }
        chart = chart.add(group);
        ends.push((name, last));
    }
    // Names of lines that end near each other are moved apart, the upper one up.
    if let [(_, first), (_, second)] = ends.as_mut_slice() {
        let missing = (APART - (*first - *second).abs()).max(0.0) / 2.0;
        let side = if *first <= *second { -1.0 } else { 1.0 };
        (*first, *second) = (*first + side * missing, *second - side * missing);
    }
    for (name, y) in ends {
        chart = chart.add(label(width - RIGHT + 8.0, y + 4.0, "row", name));
    }
    chart.to_string()
}

/// The class of a verdict's colour.
fn trend(one: &Release) -> &'static str {
    match one.test.as_ref().map(|test| test.verdict) {
        Some(GateVerdict::Pass) => "gain",
        Some(GateVerdict::Fail) => "loss",
        _ => "same",
    }
}

fn description(all: &[Release]) -> String {
    let descriptions = all.iter().map(|one| {
        let transformed = one.transformed.map_or_else(|| "none".to_owned(), points);
        format!(
            "{} of {}: original {}, transformed {transformed}",
            one.name,
            one.finished,
            points(one.original)
        )
    });
    descriptions.collect::<Vec<_>>().join("; ")
}
