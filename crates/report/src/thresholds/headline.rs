//! The findings in sentences.

use super::model::{Rate, TargetMet, ThresholdRow, ThresholdSet, ThresholdTarget, Thresholds};
use crate::format::{fine3, share};

pub(super) fn sentences(all: &Thresholds) -> Vec<String> {
    let mut next_sentences: Vec<String> = all
        .sets
        .iter()
        .flat_map(|set| of_set(set, all.options.target))
        .collect();
    for map in &all.maps {
        next_sentences.push(format!(
            "Scores of {} map to those of {} with an error of {} (root mean square, cross-validated); without a map it is {}.",
            map.from.encoder,
            all.encoder.encoder,
            fine3(map.cross_validated.rmse),
            fine3(map.of_no_map.rmse)
        ));
    }
    next_sentences
}

/// The target in words.
pub(crate) fn target(target: ThresholdTarget) -> String {
    match target {
        ThresholdTarget::Precision { at } => format!("precision of at least {at}"),
        ThresholdTarget::Fpr { at } => format!("false-positive rate of at most {at}"),
        ThresholdTarget::F1 => "highest F1".to_owned(),
    }
}

/// The rate that a target limits.
fn rate(row: &ThresholdRow, of: ThresholdTarget) -> Option<(&'static str, &Rate)> {
    let rates = row.held_out.as_ref().unwrap_or(&row.rates);
    match of {
        ThresholdTarget::Precision { .. } => Some(("precision", &rates.precision)),
        ThresholdTarget::Fpr { .. } => Some(("false-positive rate", rates.fpr.as_ref()?)),
        ThresholdTarget::F1 => None,
    }
}

fn of_set(set: &ThresholdSet, of: ThresholdTarget) -> Vec<String> {
    let mut next_sentences = Vec::new();
    if let Some(original) = set.rows.first() {
        next_sentences.push(format!(
            "{}: at {} (for the {}) precision is {} and recall {} on the original texts{}.",
            set.name,
            fine3(set.threshold),
            target(of),
            shown(&original.rates.precision),
            shown(&original.rates.recall),
            held(original, of)
        ));
    }
    let missed = set.rows.iter().skip(1).filter(|row| row.target == TargetMet::Missed);
    let missed: Vec<String> = missed
        .filter_map(|row| {
            let (name, rate) = rate(row, of)?;
            Some(format!(
                "{} ({name} {})",
                row.transformation.as_deref().unwrap_or("original"),
                shown(rate)
            ))
        })
        .collect();
    if !missed.is_empty() {
        next_sentences.push(format!(
            "{}: the target is missed under {}.",
            set.name,
            missed.join(", ")
        ));
    }
    let recall = |row: &&ThresholdRow| row.rates.recall.value;
    let least = set.rows.iter().skip(1).filter(|row| recall(row).is_some());
    if let Some(row) = least.min_by(|a, b| {
        a.rates
            .recall
            .value
            .unwrap_or(1.0)
            .total_cmp(&b.rates.recall.value.unwrap_or(1.0))
    }) {
        next_sentences.push(format!(
            "{}: recall is lowest under {}, {}.",
            set.name,
            row.transformation.as_deref().unwrap_or("original"),
            shown(&row.rates.recall)
        ));
    }
    next_sentences.extend(set.notes.iter().map(|note| format!("{}: {note}.", set.name)));
    next_sentences
}

fn held(row: &ThresholdRow, of: ThresholdTarget) -> String {
    let verdict = match row.target {
        TargetMet::Met => "the target is met",
        TargetMet::Missed => "the target is missed",
        TargetMet::NotShown => "whether the target is met is not shown",
        TargetMet::NoNumber => return String::new(),
    };
    match (&row.held_out, rate(row, of)) {
        (Some(_), Some((name, rate))) => {
            format!(
                "; on items that it was not chosen on, {name} is {}, and {verdict}",
                shown(rate)
            )
        }
        _ => format!("; {verdict}"),
    }
}

/// A share with its interval.
pub(super) fn shown(rate: &Rate) -> String {
    match (rate.value, rate.low, rate.high) {
        (Some(value), Some(low), Some(high)) => format!("{} [{}, {}]", share(value), share(low), share(high)),
        (Some(value), ..) => share(value),
        _ => "–".to_owned(),
    }
}
