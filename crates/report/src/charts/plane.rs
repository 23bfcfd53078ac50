//! Robustness and sensitivity on one plane: the drop of the total against separation.

use super::{circle, drawing, fitted, label, line, rectangle, scale::Scale};
use crate::{
    Report,
    format::{fine, signed},
};

const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 520.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 312.0;
/// Separation by pure chance.
const CHANCE: f64 = 0.5;

struct Dot<'a> {
    encoder: &'a str,
    drop: f64,
    separation: f64,
    low: f64,
    high: f64,
}

/// One dot per encoder: robust encoders are on the left, sensitive ones at the top. Below the line
/// of chance an encoder is blind, however robust it looks. `None` if no encoder has both values.
pub(crate) fn plane(report: &Report) -> Option<String> {
    let dots = report.profile.encoders.iter().filter_map(|encoder| {
        let total = encoder.total.as_ref()?;
        let row = &report.separation_of(&encoder.encoder)?.overall;
        let separation = row.separation?;
        total.delta.is_finite().then_some(Dot {
            encoder: &encoder.encoder,
            drop: -total.delta,
            separation,
            low: row.low.unwrap_or(separation),
            high: row.high.unwrap_or(separation),
        })
    });
    let dots: Vec<Dot<'_>> = dots.collect();
    if dots.is_empty() {
        return None;
    }
    let drops: Vec<f64> = dots.iter().map(|dot| dot.drop).chain([0.0]).collect();
    let across = Scale::new(&drops, LEFT, RIGHT);
    let up = Scale::between(0.0, 1.0, 0.25, BOTTOM, TOP);
    let mut chart = drawing(
        "plane",
        WIDTH,
        HEIGHT,
        "Drop of the total against separation",
        &description(&dots),
    )
    .add(rectangle(
        LEFT,
        up.at(CHANCE),
        RIGHT - LEFT,
        BOTTOM - up.at(CHANCE),
        "box",
    ))
    .add(label(LEFT, TOP - 9.0, "tick", "separation"))
    .add(label(RIGHT, HEIGHT - 8.0, "tick end", "drop of the total, in points"));
    for tick in up.ticks() {
        let y = up.at(tick);
        let class = if (tick - CHANCE).abs() < 1e-9 { "zero" } else { "grid" };
        chart = chart
            .add(line(LEFT, y, RIGHT, y, class))
            .add(label(LEFT - 7.0, y + 4.0, "tick end", fine(tick)));
    }
    for tick in across.ticks() {
        let x = across.at(tick);
        let class = if tick.abs() < 1e-9 { "zero" } else { "grid" };
        chart =
            chart
                .add(line(x, TOP, x, BOTTOM, class))
                .add(label(x, BOTTOM + 17.0, "tick middle", across.tick(tick)));
    }
    chart = chart.add(label(
        RIGHT - 6.0,
        up.at(CHANCE) + 15.0,
        "tick end",
        "chance and below: blind",
    ));
    let mut taken: Vec<f64> = Vec::new();
    for dot in &dots {
        let (x, y) = (across.at(dot.drop), up.at(dot.separation));
        let class = if dot.high <= CHANCE {
            "bell loss"
        } else if dot.low > CHANCE {
            "bell gain"
        } else {
            "bell same"
        };
        let group = svg::node::element::Group::new()
            .set("class", class)
            .add(line(x, up.at(dot.low), x, up.at(dot.high), "range"))
            .add(circle(x, y, 5.5, "now"));
        // A name is placed next to its dot, away from the nearer edge, and one line lower if
        // another name is already there.
        let mut at = y + 4.5;
        while taken.iter().any(|other| (other - at).abs() < 14.0) {
            at += 14.0;
        }
        taken.push(at);
        let name = if x > (LEFT + RIGHT) / 2.0 {
            label(x - 10.0, at, "row end", fitted(dot.encoder, 36))
        } else {
            label(x + 10.0, at, "row", fitted(dot.encoder, 36))
        };
        chart = chart.add(group).add(name);
    }
    Some(chart.to_string())
}

/// A description of the chart.
fn description(dots: &[Dot<'_>]) -> String {
    let told = dots.iter().map(|dot| {
        format!(
            "{}: drop {}, separation {} ({} to {})",
            dot.encoder,
            signed(dot.drop),
            fine(dot.separation),
            fine(dot.low),
            fine(dot.high)
        )
    });
    told.collect::<Vec<_>>().join("; ")
}
