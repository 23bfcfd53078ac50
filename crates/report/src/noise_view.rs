//! The section on noise in reports: for each encoder and channel the drop at each dose, and the
//! dose at half of the effect.

use std::{borrow::Cow, collections::BTreeSet};

use minijinja::{Value, context};

use super::{
    Report,
    format::{fine, percent, points, share},
};
use crate::profile::{Axis, DoseCurve, EncoderProfile};

/// The dose used in the finding.
const COMMON: f64 = 0.05;
/// An explanation of the numbers.
pub(super) const LEGEND: &str = "A dose is the expected share of letters, words or gaps with an error. The drop is original less \
                                 noisy score, in points. Half of the effect: the dose at which the isotonic curve has half of the drop \
                                 of the highest dose, with its 95 % interval over items. An encoder is robust if the drops are small; \
                                 of two encoders with equal drops, the one with the higher dose at half of the effect bears light \
                                 noise better.";

/// The report as its pages show it together with the section on noise: without a row or column for
/// each dose. Rows of texts to which the noise does not apply are kept.
pub(super) fn without_doses(report: &Report) -> Cow<'_, Report> {
    let noises = report
        .suite
        .transformations
        .iter()
        .filter(|one| one.axis == Axis::Noise);
    let noises: BTreeSet<String> = noises.map(|one| one.label.clone()).collect();
    if noises.is_empty() {
        return Cow::Borrowed(report);
    }
    let keep = |label: &str| !noises.contains(label);
    let mut shown = report.clone();
    shown.suite.transformations.retain(|one| keep(&one.label));
    for encoder in &mut shown.profile.encoders {
        encoder.transformations.retain(|one| keep(&one.transformation));
        for dataset in &mut encoder.datasets {
            dataset.transformations.retain(|one| keep(&one.transformation));
        }
    }
    shown.profile.shifts.retain(|one| keep(&one.transformation));
    for scope in &mut shown.profile.scopes {
        scope.shifts.retain(|one| keep(&one.transformation));
        scope.rank_stability.retain(|one| keep(&one.quantity.name));
        scope.reliability.retain(|one| keep(&one.quantity.name));
        scope.friedman.retain(|one| keep(&one.quantity.name));
    }
    shown
        .checks
        .retain(|row| row.ok < row.texts || keep(&row.transformation));
    shown.error_rates.retain(|rates| keep(&rates.transformation));
    for subset in &mut shown.subsets {
        subset.rows.retain(|row| keep(&row.of) && row.of != Axis::Noise.name());
    }
    shown.subsets.retain(|subset| !subset.rows.is_empty());
    Cow::Owned(shown)
}

/// A report as its pages show it.
pub(super) struct Pages<'a> {
    /// With every transformation.
    pub full: &'a Report,
    /// Without a row or column for each dose of noise: [`without_doses`].
    pub brief: Cow<'a, Report>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(full: &'a Report) -> Self {
        Self {
            full,
            brief: without_doses(full),
        }
    }
}

/// The head of the table.
pub(super) fn head(doses: &[f64]) -> Vec<String> {
    let columns = ["Encoder", "Channel"].map(str::to_owned).into_iter();
    let doses = doses.iter().map(|dose| percent(*dose));
    columns.chain(doses).chain(["Half of the effect".to_owned()]).collect()
}

/// A row for each encoder and channel.
pub(super) fn rows<'a>(report: &'a Report, doses: &'a [f64]) -> impl Iterator<Item = Vec<String>> + 'a {
    let encoders = report.profile.encoders.iter();
    let curves = encoders.flat_map(|encoder| encoder.doses.iter().map(move |curve| (encoder, curve)));
    curves.map(|(encoder, curve)| row(encoder, curve, doses))
}

fn row(encoder: &EncoderProfile, curve: &DoseCurve, doses: &[f64]) -> Vec<String> {
    let drop = |dose: &f64| {
        let found = curve.points.iter().find(|point| point.dose == *dose);
        found.map_or("–".to_owned(), |point| fine(point.drop))
    };
    let mut cells = vec![encoder.encoder.clone(), curve.channel.clone()];
    cells.extend(doses.iter().map(drop));
    cells.push(half(curve));
    cells
}

/// The dose at half of the effect with its interval, or the reason why there is none.
fn half(curve: &DoseCurve) -> String {
    let Some(half) = &curve.half else {
        return curve.no_half.clone().unwrap_or_else(|| "–".to_owned());
    };
    match (half.low, half.high) {
        (Some(low), Some(high)) => format!("{} [{}, {}]", share(half.dose), share(low), share(high)),
        (Some(low), None) => format!("{} [{}, above the highest dose]", share(half.dose), share(low)),
        _ => share(half.dose),
    }
}

/// The values of the template; `None` without noise.
pub(super) fn view(report: &Report) -> Option<Value> {
    let doses = report.profile.doses();
    if doses.is_empty() {
        return None;
    }
    Some(context! {
        legend => LEGEND,
        head => head(&doses),
        rows => rows(report, &doses).collect::<Vec<_>>(),
    })
}

/// The finding on an encoder: its worst channel at the common dose.
pub(super) fn finding(encoder: &EncoderProfile) -> Option<String> {
    let worst = encoder.doses.iter().filter_map(|curve| {
        let point = curve.points.iter().find(|point| (point.dose - COMMON).abs() < 1e-9)?;
        Some((curve, point))
    });
    let (curve, point) = worst.max_by(|one, other| one.1.drop.total_cmp(&other.1.drop))?;
    Some(format!(
        "At a dose of {} of noise, {} loses most under {}: {} points.",
        percent(COMMON),
        encoder.encoder,
        curve.channel,
        points(point.drop)
    ))
}
