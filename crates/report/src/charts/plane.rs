//! Robustness and sensitivity on one plane: the drop of the total against separation.

use super::{
    Chart, Figure, circle, drawing, fitted, label,
    labels::{Frame, LabelAnchor, positions},
    line, rectangle,
    scale::Scale,
};
use crate::{
    Report,
    format::{percent, signed},
    noise_view::Pages,
};

const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 520.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 312.0;
const FRAME: Frame = Frame {
    left: LEFT,
    top: TOP,
    right: RIGHT,
    bottom: BOTTOM,
};
/// Separation by pure chance.
const CHANCE: f64 = 0.5;

struct Dot<'a> {
    encoder: &'a str,
    drop: f64,
    separation: f64,
    low: f64,
    high: f64,
}

pub(super) const CHART: Chart = Chart {
    id: "plane",
    title: "Robust, or blind?",
    shows: "Drop of the total against separation, one dot for each encoder.",
    first: true,
    figures,
};

/// The chart with its caption; none where separation was not measured.
fn figures(pages: &Pages<'_>) -> Vec<Figure> {
    let figure = |svg| {
        Figure {
        title: CHART.title.to_owned(),
        caption: "Drop of the total against separation, with its 95 % interval over texts. Encoders further left are more robust, encoders \
                  further up see more changes of meaning; in the shaded half an encoder is not better than chance."
            .to_owned(),
        marks: &[],
        wide: false,
        svg,
    }
    };
    plane(pages.full).map(figure).into_iter().collect()
}

/// One dot per encoder: robust encoders are on the left, sensitive ones at the top. Below the line
/// of chance an encoder is blind, however robust it looks. `None` if no encoder has both values.
fn plane(report: &Report) -> Option<String> {
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
        CHART.id,
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
            .add(label(LEFT - 7.0, y + 4.0, "tick end", percent(tick)));
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
    let spots: Vec<LabelAnchor> = dots
        .iter()
        .map(|dot| LabelAnchor {
            x: across.at(dot.drop),
            y: up.at(dot.separation),
            range: [up.at(dot.high), up.at(dot.low)],
        })
        .collect();
    let names: Vec<String> = dots.iter().map(|dot| fitted(dot.encoder, 36)).collect();
    let positions = positions(FRAME, &spots, &names);
    for (((dot, spot), name), place) in dots.iter().zip(&spots).zip(names).zip(positions) {
        let class = if dot.high <= CHANCE {
            "bell loss"
        } else if dot.low > CHANCE {
            "bell gain"
        } else {
            "bell same"
        };
        let mut group = svg::node::element::Group::new().set("class", class);
        if place.leads {
            group = group.add(line(spot.x, spot.y, place.x, place.y - 4.5, "leader"));
        }
        let group = group
            .add(line(spot.x, spot.range[0], spot.x, spot.range[1], "range"))
            .add(circle(spot.x, spot.y, 5.5, "now"));
        let class = if place.end { "row end" } else { "row" };
        chart = chart.add(group).add(label(place.x, place.y, class, name));
    }
    Some(chart.to_string())
}

fn description(dots: &[Dot<'_>]) -> String {
    let descriptions = dots.iter().map(|dot| {
        format!(
            "{}: drop {}, separation {} ({} to {})",
            dot.encoder,
            signed(dot.drop),
            percent(dot.separation),
            percent(dot.low),
            percent(dot.high)
        )
    });
    descriptions.collect::<Vec<_>>().join("; ")
}
