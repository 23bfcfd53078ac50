//! One card for each encoder at the top of the page, worst verdict first: the verdict, the score
//! beside the baseline's, and where the encoder is weakest.

use std::cmp::Reverse;

use minijinja::{Value, context};

use super::{
    EncoderInfo, EncoderVerdict, Example, Report, charts,
    format::{ends, signed},
    reference,
};
use crate::profile::{Axis, DatasetProfile, EncoderProfile};

/// Maximum number of characters of a text on a card.
const LETTERS: usize = 90;

/// An encoder with its profile and its verdict.
struct Entry<'a> {
    info: &'a EncoderInfo,
    own: &'a EncoderProfile,
    verdict: Option<&'a EncoderVerdict>,
}

/// The cards. Variants of encoders have one only if rules judge them.
pub(super) fn view(report: &Report) -> Vec<Value> {
    let judged = report.gate.iter().flat_map(|gate| &gate.encoders);
    let both = report.encoders.iter().zip(&report.profile.encoders);
    let entries = both.map(|(info, own)| Entry {
        info,
        own,
        verdict: judged.clone().find(|one| one.encoder == info.id),
    });
    let mut entries: Vec<Entry<'_>> = entries
        .filter(|one| one.info.variant.is_none() || one.verdict.is_some())
        .collect();
    // Encoders without a verdict, as the baseline, come last.
    entries.sort_by_key(|one| Reverse(one.verdict.map(|own| own.verdict)));
    let mut all = report.encoders.iter().zip(&report.profile.encoders);
    let baseline = all.find(|(info, _)| info.baseline).map(|(_, own)| own);
    let known = reference::known(report);
    let card = |(at, entry): (usize, &Entry<'_>)| card(report, entry, baseline, known, at);
    entries.iter().enumerate().map(card).collect()
}

fn card(
    report: &Report,
    entry: &Entry<'_>,
    baseline: Option<&EncoderProfile>,
    known: &[(&'static str, f64)],
    at: usize,
) -> Value {
    let own = entry.own;
    let other = baseline.filter(|other| other.encoder != own.encoder);
    // Without a total, a single axis stands for it.
    let only = || match own.axes.as_slice() {
        [axis] => Some(&axis.moved),
        _ => None,
    };
    let total = own.total.as_ref().or_else(only);
    let against = |score: f64, other: Option<f64>| other.map(|other| score - other);
    let strip = charts::strip(
        &charts::Scores {
            original: own.original,
            transformed: total.map(|total| total.mean),
            baseline: other.map(|other| other.original),
            known,
        },
        &format!("strip-{at}"),
    );
    context! {
        name => own.encoder.clone(),
        baseline => entry.info.baseline,
        verdict => entry.verdict.map(|own| own.verdict.name()),
        mark => entry.verdict.map(|own| own.verdict.mark()),
        original => own.original,
        original_against => against(own.original, other.map(|other| other.original)),
        total => total.map(|total| total.mean),
        total_against => total.and_then(|total| against(total.mean, other?.total.as_ref().map(|other| other.mean))),
        change => total.map(|total| total.delta),
        interval => total.and_then(|total| total.intervals.items.as_ref()).map(ends),
        strip => Value::from_safe_string(strip),
        place => reference::place(known, own.original),
        weakest => weakest(report, own),
        text => weakest_text(report, &own.encoder).map(|(example, drift)| context! {
            original => brief(&example.original),
            transformed => brief(&example.transformed),
            of => format!("{}, {}", example.transformation, example.dataset),
            drift,
        }),
    }
}

/// Whether an encoder should keep its scores under a transformation of this axis.
fn counts(axis: Axis) -> bool {
    axis.in_total() || axis == Axis::Noise
}

/// The data set and transformation under which an encoder loses most, in words; `None` if it loses
/// nowhere.
pub(super) fn weakest(report: &Report, own: &EncoderProfile) -> Option<String> {
    let all = own.datasets.iter();
    let each = all.filter_map(|dataset| Some((&dataset.dataset, weakest_of(report, dataset)?)));
    let (dataset, (label, delta)) = each.min_by(|one, other| one.1.1.total_cmp(&other.1.1))?;
    Some(format!("{label} on {dataset}, {}", signed(delta)))
}

/// The transformation under which an encoder loses most on a data set, with the change; `None` if
/// it loses nowhere.
pub(super) fn weakest_of<'a>(report: &Report, dataset: &'a DatasetProfile) -> Option<(&'a str, f64)> {
    let all = dataset
        .transformations
        .iter()
        .map(|one| (one.transformation.as_str(), one.moved.delta));
    let losses = all.filter(|(label, delta)| *delta < 0.0 && axis(report, label).is_some_and(counts));
    losses.min_by(|one, other| one.1.total_cmp(&other.1))
}

/// The axis of a transformation of the suite.
fn axis(report: &Report, label: &str) -> Option<Axis> {
    let mut all = report.suite.transformations.iter();
    all.find(|one| one.label == label).map(|one| one.axis)
}

/// The example that moved furthest in an encoder's space, with its drift.
fn weakest_text<'a>(report: &'a Report, encoder: &str) -> Option<(&'a Example, f64)> {
    let examples = report
        .examples
        .iter()
        .filter(|one| axis(report, &one.transformation).is_some_and(counts));
    let drifts = examples.filter_map(|one| Some((one, *one.drift_by_encoder.get(encoder)?)));
    drifts.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// The beginning of a text, on one line.
fn brief(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    charts::fitted(&line, LETTERS)
}
