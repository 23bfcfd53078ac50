//! The pair tasks: vectors of the first and second texts, and one label a pair.

use rayon::prelude::*;

use super::{Profile, ScoreError, Scores, TaskType};
use crate::metric::{MatrixError, Similarity, matrix::VectorView, pair_classification, sts};

/// Scores semantic textual similarity. `gold` holds one score a pair.
///
/// # Errors
/// Vectors and scores that do not match; gold scores that are constant or not finite; fewer than two pairs; vectors that
/// are all equally similar.
pub fn score_sts(
    first: VectorView<'_>,
    second: VectorView<'_>,
    gold: &[f64],
    own: Similarity,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    let main_key = checked(TaskType::Sts, profile, first, second, gold.len())?;
    if gold.windows(2).all(|w| w[0] == w[1]) {
        let reason = format!("all {} gold scores are equal", gold.len());
        return Err(ScoreError::Undefined {
            metric: main_key,
            reason,
        });
    }
    let all = sts::score(pairs(first, second), gold, own).map_err(|e| ScoreError::undefined(main_key, &e))?;
    Scores::new(main_key, all, gold.len())
}

/// Scores pair classification. `labels` holds one label a pair, true for a positive.
///
/// # Errors
/// Vectors and labels that do not match; labels of one class only.
pub fn score_pair_classification(
    first: VectorView<'_>,
    second: VectorView<'_>,
    labels: &[bool],
    own: Similarity,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    let main_key = checked(TaskType::PairClassification, profile, first, second, labels.len())?;
    if labels.windows(2).all(|w| w[0] == w[1]) {
        let reason = format!("all {} labels are of one class", labels.len());
        return Err(ScoreError::Undefined {
            metric: main_key,
            reason,
        });
    }
    Scores::new(
        main_key,
        pair_classification::score(pairs(first, second), labels, own),
        labels.len(),
    )
}

/// The key of the main score, where vectors and labels match.
fn checked(
    task: TaskType,
    profile: Profile,
    first: VectorView<'_>,
    second: VectorView<'_>,
    labels: usize,
) -> Result<&'static str, ScoreError> {
    let main_key = task
        .main_score(profile)
        .ok_or(ScoreError::NotServed { task, profile })?;
    for (what, matrix) in [("first vectors", first), ("second vectors", second)] {
        if matrix.rows() != labels {
            return Err(ScoreError::Rows {
                what,
                expected: labels,
                found: matrix.rows(),
            });
        }
    }
    if first.cols() != second.cols() {
        let source = MatrixError::Width {
            left: first.cols(),
            right: second.cols(),
        };
        return Err(ScoreError::Matrix {
            what: "second vectors",
            source,
        });
    }
    Ok(main_key)
}

fn pairs<'a>(
    first: VectorView<'a>,
    second: VectorView<'a>,
) -> impl IndexedParallelIterator<Item = (&'a [f32], &'a [f32])> + Clone {
    let width = first.cols();
    first
        .data()
        .par_chunks_exact(width)
        .zip(second.data().par_chunks_exact(width))
}
