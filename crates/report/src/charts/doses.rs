//! Drop against dose, one panel for each encoder and channel.

use svg::node::element::{Group, Polyline};

use super::{Chart, Figure, circle, drawing, fitted, label, line, scale::Scale, short};
use crate::{
    Report,
    format::{percent, points},
    noise_view::Pages,
    profile::{DoseCurve, EncoderProfile},
};

const WIDTH: f64 = 560.0;
const PANELS: usize = 4;
const LEFT: f64 = 34.0;
const GAP: f64 = 14.0;
/// Space for half of the last label.
const RIGHT: f64 = 14.0;
const PLOT: f64 = 74.0;
const PANEL: f64 = PLOT + 46.0;
const HEAD: f64 = 28.0;

pub(super) const CHART: Chart = Chart {
    id: "doses",
    title: "Drop by dose of noise.",
    shows: "Points lost at each dose of each channel, the isotonic curve, and the dose at half of the effect with its 95 % interval.",
    first: true,
    figures,
};

/// The chart with its caption; none without noise.
fn figures(pages: &Pages<'_>) -> Vec<Figure> {
    let figure = || {
        Figure {
        title: CHART.title.to_owned(),
        caption: "Dots: points lost at each dose. Line: the isotonic curve. Bar: the dose at half of the effect, with its 95 % interval \
                  over items."
            .to_owned(),
        marks: &[],
        wide: false,
        svg: doses(pages.full),
    }
    };
    let has_noise = !pages.full.profile.doses().is_empty();
    has_noise.then(figure).into_iter().collect()
}

/// One panel for each encoder and channel, all on the same scale. Dots are the drops, the line is
/// the isotonic curve, and the bar is the interval of the dose at half of the effect. Doses are
/// evenly spaced.
fn doses(report: &Report) -> String {
    let encoders: Vec<&EncoderProfile> = report
        .profile
        .encoders
        .iter()
        .filter(|one| !one.doses.is_empty())
        .collect();
    let doses = report.profile.doses();
    let panels = |encoder: &EncoderProfile| encoder.doses.len().div_ceil(PANELS) as f64 * PANEL;
    let height = encoders.iter().map(|encoder| HEAD + panels(encoder)).sum::<f64>() + 6.0;
    let curves = || encoders.iter().flat_map(|encoder| &encoder.doses);
    let drops = curves().flat_map(|curve| &curve.points).map(|point| point.drop);
    let drops: Vec<f64> = drops.chain([0.0]).collect();
    let mut chart = drawing(
        CHART.id,
        WIDTH,
        height,
        "Drop against dose of noise",
        &description(&encoders),
    );
    let mut top = 0.0;
    for encoder in &encoders {
        chart = chart.add(label(0.0, top + 17.0, "name", fitted(&encoder.encoder, 60)));
        top += HEAD;
        let width = (WIDTH - LEFT - RIGHT - GAP * (PANELS - 1) as f64) / PANELS as f64;
        for (at, curve) in encoder.doses.iter().enumerate() {
            let left = LEFT + (at % PANELS) as f64 * (width + GAP);
            let above = top + (at / PANELS) as f64 * PANEL;
            let across = Scale::between(0.0, doses.len() as f64, 1.0, left, left + width);
            let scale = Scale::new(&drops, above + 18.0 + PLOT, above + 18.0);
            chart = chart.add(panel(curve, &doses, &across, &scale, at % PANELS == 0));
        }
        top += panels(encoder);
    }
    chart.to_string()
}

/// The position of a dose on the axis: the first is at 1, and positions between two doses are
/// linear.
fn place(doses: &[f64], dose: f64) -> f64 {
    let above = doses.iter().position(|own| *own >= dose).unwrap_or(doses.len() - 1);
    let low = above.checked_sub(1).map_or(0.0, |below| doses[below]);
    let part = ((dose - low) / (doses[above] - low)).min(1.0);
    above as f64 + part
}

/// A panel, with labels of the drops if it is the first of a row.
fn panel(curve: &DoseCurve, doses: &[f64], across: &Scale, scale: &Scale, first: bool) -> Group {
    let (from, to) = (across.at(0.0), across.at(doses.len() as f64));
    let ticks = scale.ticks();
    let at = |tick: Option<&f64>| scale.at(tick.copied().unwrap_or(0.0));
    let (bottom, top) = (at(ticks.first()), at(ticks.last()));
    let mut panel = Group::new().add(label(from, top - 6.0, "row", curve.channel.replace('_', " ")));
    for tick in ticks {
        let y = scale.at(tick);
        panel = panel.add(line(from, y, to, y, if tick == 0.0 { "zero" } else { "grid" }));
        if first {
            panel = panel.add(label(from - 6.0, y + 4.0, "tick end", scale.tick(tick)));
        }
    }
    let x = |dose: f64| across.at(place(doses, dose));
    for (at, dose) in doses.iter().enumerate() {
        if at % 2 == 1 || doses.len() < 4 {
            let shown = percent(*dose).replace(' ', "");
            panel = panel.add(label(x(*dose), bottom + 15.0, "tick middle", shown));
        }
    }
    let point = |dose: f64, drop: f64| format!("{},{}", short(x(dose)), short(scale.at(drop)));
    let knots = curve.points.iter().map(|knot| point(knot.dose, knot.fitted));
    let path: Vec<String> = std::iter::once(point(0.0, 0.0)).chain(knots).collect();
    let mut marks = Group::new()
        .set("class", "flow loss")
        .add(Polyline::new().set("points", path.join(" ")));
    if let Some(half) = &curve.half {
        let highest = doses.last().copied().unwrap_or(half.dose);
        // Without an upper end, the interval extends beyond the highest dose.
        let high = half
            .high
            .unwrap_or(if half.low.is_some() { highest } else { half.dose });
        let y = bottom - 4.0;
        marks = marks
            .add(line(x(half.low.unwrap_or(half.dose)), y, x(high), y, "sure"))
            .add(line(x(half.dose), y - 4.0, x(half.dose), y + 4.0, "sure"));
    }
    for knot in &curve.points {
        marks = marks.add(circle(x(knot.dose), scale.at(knot.drop), 3.0, "now"));
    }
    panel.add(marks)
}

fn description(encoders: &[&EncoderProfile]) -> String {
    let of_curve = |curve: &DoseCurve| {
        let drops = curve
            .points
            .iter()
            .map(|point| format!("{} at {}", points(point.drop), percent(point.dose)));
        format!("{}: {}", curve.channel, drops.collect::<Vec<_>>().join(", "))
    };
    let of_encoder = |encoder: &&EncoderProfile| {
        let curves: Vec<String> = encoder.doses.iter().map(of_curve).collect();
        format!("{}: {}.", encoder.encoder, curves.join("; "))
    };
    encoders.iter().map(of_encoder).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn doses_are_evenly_spaced_and_linear_between() {
        let doses = [0.1, 0.2, 0.4];
        let at = |dose| place(&doses, dose);
        let near = |dose, x: f64| assert!((at(dose) - x).abs() < 1e-9, "{dose} at {}", at(dose));
        near(0.0, 0.0);
        near(0.05, 0.5);
        near(0.1, 1.0);
        near(0.3, 2.5);
        near(0.4, 3.0);
        near(0.9, 3.0);
    }
}
