//! Original against transformed, axis by axis.

use svg::node::element::Group;

use super::{Chart, Figure, circle, drawing, fitted, label, line, scale::Scale};
use crate::{
    Report,
    evidence::interval::DeltaInterval,
    format::{ends, points, signed},
    noise_view::Pages,
    profile::{EncoderProfile, Moved},
};

const WIDTH: f64 = 560.0;
const LEFT: f64 = 178.0;
const RIGHT: f64 = 490.0;
const ROW: f64 = 27.0;
const HEAD: f64 = 30.0;
const TOP: f64 = 12.0;
const FOOT: f64 = 30.0;

/// The interval to draw: that of the change for other items of these data sets.
fn sure(moved: &Moved) -> Option<&DeltaInterval> {
    moved.intervals.items.as_ref()
}

pub(super) const CHART: Chart = Chart {
    id: "dumbbell",
    title: "Before and after.",
    shows: "The mean score of each encoder on the original texts (ring) and on the rewrites of each axis (disc), with the 95 % interval of the change.",
    first: true,
    figures,
};

/// The chart with its caption.
fn figures(pages: &Pages<'_>) -> Vec<Figure> {
    let report = pages.full;
    let counted = report.profile.counted();
    let interval = match has_intervals(report) {
        true => " Thin line: 95 % interval of the change, with other items of these data sets.",
        false => "",
    };
    vec![Figure {
        title: CHART.title.to_owned(),
        caption: format!("Mean over {counted}, score × 100.{interval} As HTEB, figures 4 and 5."),
        marks: &[("ring", "original"), ("disc", "transformed")],
        wide: false,
        svg: dumbbell(report),
    }]
}

/// Whether any axis or total has an interval to draw.
fn has_intervals(report: &Report) -> bool {
    let mut all = report.profile.encoders.iter().flat_map(rows);
    all.any(|(_, moved, _)| sure(moved).is_some())
}

/// One block per encoder, one row per axis, the total first. A ring is the original, a disc the
/// transformed score, a thin line the interval of the change.
fn dumbbell(report: &Report) -> String {
    let blocks: Vec<(&EncoderProfile, Vec<(&str, &Moved, bool)>)> = report
        .profile
        .encoders
        .iter()
        .map(|encoder| (encoder, rows(encoder)))
        .collect();
    let rows: usize = blocks.iter().map(|(_, rows)| rows.len()).sum();
    let height = TOP + blocks.len() as f64 * HEAD + rows as f64 * ROW + FOOT;
    let values: Vec<f64> = blocks
        .iter()
        .flat_map(|(encoder, rows)| {
            let ends = |moved: &Moved| {
                let found = sure(moved).map(|found| [encoder.original + found.low, encoder.original + found.high]);
                found.into_iter().flatten().chain([moved.mean]).collect::<Vec<f64>>()
            };
            rows.iter()
                .flat_map(move |(_, moved, _)| ends(moved))
                .chain([encoder.original])
        })
        .collect();
    let scale = Scale::new(&values, LEFT, RIGHT);

    let mut chart = drawing(
        CHART.id,
        WIDTH,
        height,
        "Original and transformed score per axis",
        &description(report),
    );
    for tick in scale.ticks() {
        let x = scale.at(tick);
        chart = chart.add(line(x, TOP, x, height - FOOT, "grid")).add(label(
            x,
            height - FOOT + 17.0,
            "tick middle",
            scale.tick(tick),
        ));
    }
    let mut y = TOP;
    for (encoder, rows) in blocks {
        chart = chart.add(label(0.0, y + 17.0, "name", fitted(&encoder.encoder, 60)));
        y += HEAD;
        for (name, moved, is_total) in rows {
            chart = chart.add(bell(
                &scale,
                y + ROW / 2.0 - 4.0,
                name,
                encoder.original,
                moved,
                is_total,
            ));
            y += ROW;
        }
    }
    chart.to_string()
}

fn rows(encoder: &EncoderProfile) -> Vec<(&'static str, &Moved, bool)> {
    let total = encoder.total.iter().map(|total| ("Total", total, true));
    total
        .chain(encoder.axes.iter().map(|axis| (axis.axis.title(), &axis.moved, false)))
        .collect()
}

fn bell(scale: &Scale, y: f64, name: &str, original: f64, moved: &Moved, is_total: bool) -> Group {
    let (from, to) = (scale.at(original), scale.at(moved.mean));
    let trend = if moved.delta < -0.05 {
        "loss"
    } else if moved.delta > 0.05 {
        "gain"
    } else {
        "same"
    };
    let radius = if is_total { 6.5 } else { 5.0 };
    let mut group = Group::new().set(
        "class",
        if is_total {
            format!("bell {trend} total")
        } else {
            format!("bell {trend}")
        },
    );
    group = group
        .add(label(LEFT - 12.0, y + 4.5, "row end", name))
        .add(line(from, y, to, y, "bar"));
    if let Some(found) = sure(moved) {
        let (low, high) = (scale.at(original + found.low), scale.at(original + found.high));
        group = group
            .add(line(low, y, high, y, "sure"))
            .add(line(low, y - 4.5, low, y + 4.5, "sure"))
            .add(line(high, y - 4.5, high, y + 4.5, "sure"));
    }
    group
        .add(circle(from, y, radius, "was"))
        .add(circle(to, y, radius, "now"))
        .add(label(WIDTH - 2.0, y + 4.5, "delta end", signed(moved.delta)))
}

fn description(report: &Report) -> String {
    let encoders = report.profile.encoders.iter().map(|encoder| {
        let axes: Vec<String> = rows(encoder)
            .into_iter()
            .map(|(name, moved, _)| {
                format!(
                    "{} {} ({}{})",
                    name.to_lowercase(),
                    points(moved.mean),
                    signed(moved.delta),
                    sure(moved)
                        .map(|found| format!(", {}", ends(found)))
                        .unwrap_or_default()
                )
            })
            .collect();
        format!(
            "{}: original {}, {}.",
            encoder.encoder,
            points(encoder.original),
            axes.join(", ")
        )
    });
    encoders.collect::<Vec<_>>().join(" ")
}
