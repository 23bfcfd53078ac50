//! Evidence of a score in messages, columns of its items by which they can be divided, and the
//! interval of a difference between two scores.

use std::collections::BTreeMap;

use isomer_proto::eval::v1::{DeltaInterval, ItemEvidence};
use isomer_service_kit::Fault;
use unicode_segmentation::UnicodeSegmentation;

use crate::{dataset::Dataset, evidence::Evidence, item_clusters::clusters_of, profile, task::Scores};

/// Level of the interval.
const LEVEL: f64 = 0.95;

/// The item-level evidence of a score on this data set.
///
/// # Errors
/// When it cannot be serialised, which is an internal error.
pub(super) fn evidence(dataset: &Dataset, scores: &Scores) -> Result<Option<ItemEvidence>, Fault> {
    let Some(evidence) = &scores.evidence else {
        return Ok(None);
    };
    let json = serde_json::to_vec(evidence).map_err(|error| Fault::internal(format!("evidence: {error}")))?;
    Ok(Some(ItemEvidence {
        json,
        clusters: clusters_of(dataset),
    }))
}

/// Properties of each item that do not depend on its labels: `words`, the mean number of words of
/// its texts, and in retrieval `gap`, the similarity of the best document minus that of the second.
/// Empty if the items of the score are not those of the data set (mteb's clustering).
pub(super) fn columns(dataset: &Dataset, scores: &Scores) -> BTreeMap<String, Vec<f64>> {
    let items = dataset.item_texts();
    let mut columns = BTreeMap::new();
    if items.len() as u64 != scores.items {
        return columns;
    }
    let words = |own: &Vec<u32>| {
        let counts = own
            .iter()
            .filter_map(|text| dataset.texts().get(*text as usize))
            .map(|text| text.text.unicode_words().count() as f64);
        counts.sum::<f64>() / own.len() as f64
    };
    columns.insert("words".to_owned(), items.iter().map(words).collect());
    if let Some(lists) = &scores.lists {
        let gap = |found: &Vec<f32>| match found.as_slice() {
            [best, second, ..] => f64::from(*best) - f64::from(*second),
            _ => f64::NAN,
        };
        columns.insert("gap".to_owned(), lists.similarities.iter().map(gap).collect());
    }
    columns
}

/// Interval of the score minus the plain score.
///
/// # Errors
/// If the plain evidence cannot be read, or is of other items.
pub(super) fn delta(dataset: &Dataset, plain: &ItemEvidence, scores: &Scores) -> Result<Option<DeltaInterval>, Fault> {
    let field = "dataset.augmentation.plain";
    let wrong = |problem: String| {
        Fault::invalid(field, problem).hint("send back `evidence` as the same request without augmentation answered it")
    };
    let before: Evidence = serde_json::from_slice(&plain.json)
        .map_err(|error| wrong(format!("json is not the evidence of a score: {error}")))?;
    let Some(after) = &scores.evidence else {
        return Ok(None);
    };
    if before.items() != after.items() || plain.clusters != clusters_of(dataset) {
        return Err(wrong(format!(
            "covers {} items that are not the {} items of this data set",
            before.items(),
            after.items()
        )));
    }
    let found = profile::difference(&before, after, &plain.clusters, dataset.name(), LEVEL);
    Ok(found.map(|own| DeltaInterval {
        low: own.low / 100.0,
        high: own.high / 100.0,
        level: own.level,
        standard_error: own.standard_error / 100.0,
        clusters: own.units as u64,
        method: own.method,
        note: own.note.unwrap_or_default(),
    }))
}
