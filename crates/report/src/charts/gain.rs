//! Gain by augmentation against its cost.

use svg::node::element::{Group, Polyline};

use super::{
    circle, drawing, fitted, label,
    labels::{Frame, LabelAnchor, positions},
    line,
    scale::Scale,
    short,
};
use crate::format::{fine, signed};

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 340.0;
const FRAME: Frame = Frame {
    left: 52.0,
    top: 26.0,
    right: 604.0,
    bottom: 290.0,
};

/// A setting of an encoder.
pub(crate) struct GainDot {
    pub(crate) setting: String,
    pub(crate) cost: f64,
    /// In points, with its interval.
    pub(crate) gain: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether no setting has at least the score for at most the cost.
    pub(crate) is_front: bool,
}

/// A dot for each setting; a line joins those of the front. `cost` is the unit of the costs.
pub(crate) fn gain(dots: &[GainDot], cost: &str, id: &str) -> String {
    let costs: Vec<f64> = dots.iter().map(|dot| dot.cost).chain([0.0]).collect();
    let heights: Vec<f64> = dots.iter().flat_map(|dot| [dot.low, dot.high]).chain([0.0]).collect();
    let across = Scale::from_zero(&costs, FRAME.left, FRAME.right);
    let up = Scale::new(&heights, FRAME.bottom, FRAME.top);
    let title = format!("Gain in points against {}", cost);
    let mut chart = drawing(id, WIDTH, HEIGHT, &title, &description(dots, cost))
        .add(label(FRAME.left, FRAME.top - 10.0, "tick", "gain in points"))
        .add(label(FRAME.right, HEIGHT - 10.0, "tick end", cost));
    for tick in up.ticks() {
        let y = up.at(tick);
        let class = if tick.abs() < 1e-9 { "zero" } else { "grid" };
        chart = chart.add(line(FRAME.left, y, FRAME.right, y, class)).add(label(
            FRAME.left - 7.0,
            y + 4.0,
            "tick end",
            up.tick(tick),
        ));
    }
    for tick in across.ticks() {
        let x = across.at(tick);
        chart = chart.add(line(x, FRAME.top, x, FRAME.bottom, "grid")).add(label(
            x,
            FRAME.bottom + 17.0,
            "tick middle",
            across.tick(tick),
        ));
    }
    let mut front: Vec<&GainDot> = dots.iter().filter(|dot| dot.is_front).collect();
    front.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let path: Vec<String> = front
        .iter()
        .map(|dot| format!("{},{}", short(across.at(dot.cost)), short(up.at(dot.gain))))
        .collect();
    if path.len() > 1 {
        let path = Polyline::new().set("points", path.join(" "));
        chart = chart.add(Group::new().set("class", "flow").add(path));
    }
    let spots: Vec<LabelAnchor> = dots
        .iter()
        .map(|dot| LabelAnchor {
            x: across.at(dot.cost),
            y: up.at(dot.gain),
            range: [up.at(dot.high), up.at(dot.low)],
        })
        .collect();
    let names: Vec<String> = dots.iter().map(|dot| fitted(&dot.setting, 40)).collect();
    let positions = positions(FRAME, &spots, &names);
    for (((dot, spot), name), place) in dots.iter().zip(&spots).zip(names).zip(positions) {
        let class = match (dot.low > 0.0, dot.high < 0.0) {
            (true, _) => "bell gain",
            (_, true) => "bell loss",
            _ => "bell same",
        };
        let mut group = Group::new().set("class", class);
        if place.leads {
            group = group.add(line(spot.x, spot.y, place.x, place.y - 4.5, "leader"));
        }
        let group = group
            .add(line(spot.x, spot.range[0], spot.x, spot.range[1], "range"))
            .add(circle(spot.x, spot.y, 5.5, "now"));
        let class = if place.end { "row end" } else { "row" };
        chart = chart.add(group).add(label(place.x, place.y, class, name));
    }
    chart.to_string()
}

fn description(dots: &[GainDot], cost: &str) -> String {
    let parts = dots.iter().map(|dot| {
        format!(
            "{}: {} points ({} to {}) for {} {}",
            dot.setting,
            signed(dot.gain),
            signed(dot.low),
            signed(dot.high),
            fine(dot.cost),
            cost
        )
    });
    parts.collect::<Vec<_>>().join("; ")
}
