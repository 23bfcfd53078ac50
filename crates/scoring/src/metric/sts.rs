//! Semantic textual similarity: correlation of similarities with gold scores.
//!
//! Source: mteb 2.20.0 `abstasks/sts.py` and `_evaluators/any_sts_evaluator.py`. mteb first maps
//! gold scores to [0, 1] linearly, which changes neither correlation.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::similarity;
use crate::stats::{StatsError, pearson, spearman};

/// Every score that mteb reports for the task: `{cosine,manhattan,euclidean}_{pearson,spearman}`,
/// and `pearson`, `spearman` of the encoder's own similarity. Distances are negated first. A
/// correlation is undefined if all similarities of one kind are equal. It is then left out, except
/// for cosine, whose error is returned.
///
/// `cosine` and `own` are the similarities of the pairs: by [`similarity::cosine`] and by the
/// encoder's own similarity.
///
/// # Errors
/// If gold scores or cosines do not vary, or there are fewer than two pairs.
pub fn score<'a>(
    pairs: impl IndexedParallelIterator<Item = (&'a [f32], &'a [f32])> + Clone,
    gold: &[f64],
    cosine: &[f64],
    own: &[f64],
) -> Result<BTreeMap<String, f64>, StatsError> {
    let measure = |f: &(dyn Fn(&[f32], &[f32]) -> f32 + Sync)| -> Vec<f64> {
        pairs.clone().map(|(x, y)| f64::from(f(x, y))).collect()
    };
    let mut scores = BTreeMap::from([
        ("cosine_pearson".to_owned(), pearson(gold, cosine)?),
        ("cosine_spearman".to_owned(), spearman(gold, cosine)?),
    ]);
    let distances = [
        measure(&|x, y| -similarity::manhattan(x, y)),
        measure(&|x, y| -similarity::euclidean(x, y)),
    ];
    let [manhattan, euclidean] = &distances;
    let others: [(&str, &[f64]); 3] = [("manhattan_", manhattan), ("euclidean_", euclidean), ("", own)];
    for (prefix, values) in others {
        for (name, correlation) in [("pearson", pearson(gold, values)), ("spearman", spearman(gold, values))] {
            match correlation {
                Ok(value) => {
                    scores.insert(format!("{prefix}{name}"), value);
                }
                Err(StatsError::Constant) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(scores)
}
