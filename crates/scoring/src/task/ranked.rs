//! The parts that retrieval and reranking share: mteb's scores from ranked lists and their
//! judgements.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::{
    evidence::MTEB_DECIMALS,
    metric::{abstention, rounding::round_decimals},
};

/// Means over queries under mteb's keys, with `accuracy`.
pub(super) fn means(series: &BTreeMap<String, Vec<f64>>) -> BTreeMap<String, f64> {
    let mut scores: BTreeMap<String, f64> = series
        .iter()
        .filter_map(|(key, values)| {
            // Summed from the left, like Python's `sum`.
            let value = values.iter().sum::<f64>() / values.len() as f64;
            let value = match decimals(key) {
                Some(decimals) => round_decimals(value, usize::from(decimals)),
                None => value,
            };
            value.is_finite().then(|| (key.clone(), value))
        })
        .collect();
    if let Some(recall) = scores.get("recall_at_1").copied() {
        scores.insert("accuracy".to_owned(), recall);
    }
    scores
}

/// Number of decimals to which mteb rounds a mean over queries. MRR is not rounded.
pub(super) fn decimals(key: &str) -> Option<u8> {
    (!key.starts_with("mrr")).then_some(MTEB_DECIMALS)
}

/// `nauc_<metric>_{max,std,diff1}` from each query's retrieved scores. mteb computes none for the
/// hit rate; undefined areas are left out.
pub(super) fn abstention_areas(retrieved: &[Vec<f64>], series: &BTreeMap<String, Vec<f64>>) -> BTreeMap<String, f64> {
    let confidences: Vec<abstention::Confidence> = retrieved
        .par_iter()
        .map(|scores| abstention::confidence(scores))
        .collect();
    let by = |f: fn(&abstention::Confidence) -> f64| confidences.iter().map(f).collect::<Vec<_>>();
    let kinds = [
        ("max", by(|c| c.max)),
        ("std", by(|c| c.std)),
        ("diff1", by(|c| c.diff1)),
    ];
    let mut areas = BTreeMap::new();
    for (key, metric) in series.iter().filter(|(key, _)| !key.starts_with("hit_rate")) {
        for (kind, confidence) in &kinds {
            if let Some(area) = abstention::nauc(confidence, metric) {
                areas.insert(format!("nauc_{key}_{kind}"), area);
            }
        }
    }
    areas
}
