//! The pair tasks: vectors of the first and second texts, and one label per pair (bitext: none).

use std::collections::BTreeMap;

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::{Profile, ScoreError, Scores, TaskType};
use crate::{
    evidence::Evidence,
    metric::{
        Similarity,
        matrix::Rows,
        nearest, pair_classification,
        search::{self, Ties},
        similarity, sts,
    },
};

/// Scores semantic textual similarity. `gold` contains one score per pair.
///
/// # Errors
/// If vectors and scores do not match, gold scores are constant or not finite, there are fewer than
/// two pairs, or all pairs are equally similar.
pub fn score_sts(
    first: ArrayView2<'_, f32>,
    second: ArrayView2<'_, f32>,
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
    let (first, second) = (Rows::new(first), Rows::new(second));
    let (cosine, of_encoder) = similarities(&first, &second, own);
    let all = sts::score(pairs(&first, &second), gold, &cosine, &of_encoder)
        .map_err(|e| ScoreError::undefined(main_key, &e))?;
    let evidence = Evidence::Spearman {
        gold: gold.to_vec(),
        predicted: cosine.iter().map(|value| *value as f32).collect(),
        points: Vec::new(),
    };
    let items = BTreeMap::from([
        ("cosine".to_owned(), cosine),
        ("similarity".to_owned(), of_encoder),
        ("gold".to_owned(), gold.to_vec()),
    ]);
    Ok(Scores::new(main_key, all, gold.len())?
        .with_items(items)
        .with_evidence(evidence))
}

/// Scores pair classification. `labels` contains one label per pair, true for a positive.
///
/// # Errors
/// If vectors and labels do not match, there are labels of only one class, or a similarity is not a
/// number.
pub fn score_pair_classification(
    first: ArrayView2<'_, f32>,
    second: ArrayView2<'_, f32>,
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
    let (first, second) = (Rows::new(first), Rows::new(second));
    let (cosine, of_encoder) = similarities(&first, &second, own);
    if let Some(index) = cosine
        .iter()
        .zip(&of_encoder)
        .position(|(c, own)| c.is_nan() || own.is_nan())
    {
        return Err(not_a_number(index));
    }
    let all = pair_classification::score(pairs(&first, &second), labels, own);
    let items = BTreeMap::from([
        ("cosine".to_owned(), cosine),
        ("similarity".to_owned(), of_encoder),
        (
            "label".to_owned(),
            labels.iter().map(|l| f64::from(u8::from(*l))).collect(),
        ),
    ]);
    let of = |f: &(dyn Fn(&[f32], &[f32]) -> f32 + Sync)| -> Vec<f32> {
        pairs(&first, &second).map(|(x, y)| f(x, y)).collect()
    };
    let mut similarities = vec![of(&similarity::cosine)];
    if main_key == "max_ap" {
        similarities.extend([
            of(&|x, y| own.of(x, y)),
            of(&|x, y| -similarity::manhattan(x, y)),
            of(&|x, y| -similarity::euclidean(x, y)),
            of(&similarity::dot),
        ]);
    }
    let evidence = Evidence::AveragePrecision {
        labels: labels.to_vec(),
        similarities,
    };
    Ok(Scores::new(main_key, all, labels.len())?
        .with_items(items)
        .with_evidence(evidence))
}

/// Scores bitext mining: for each first text, the nearest second text by the encoder's own
/// similarity, or the first one if several tie. Row i of one side is the translation of row i of
/// the other. As in mteb, only one direction is scored.
///
/// # Errors
/// If the sides have different sizes or widths, there are no pairs, or no similarity of a first
/// text is a number.
pub fn score_bitext(
    first: ArrayView2<'_, f32>,
    second: ArrayView2<'_, f32>,
    own: Similarity,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    let main_key = checked(TaskType::Bitext, profile, first, second, first.nrows())?;
    if first.nrows() == 0 {
        return Err(ScoreError::Undefined {
            metric: main_key,
            reason: "there are no pairs".to_owned(),
        });
    }
    // Ids break no ties here, so their order does not matter.
    let hits = search::top_k(first, second, &[], own, 1, Ties::CorpusOrder);
    let mut predictions = Vec::with_capacity(hits.len());
    for (index, hits) in hits.iter().enumerate() {
        predictions.push(hits.first().ok_or_else(|| not_a_number(index))?.document);
    }
    let correct = predictions
        .iter()
        .enumerate()
        .map(|(row, p)| f64::from(u8::from(row == *p)));
    let items = BTreeMap::from([
        ("correct".to_owned(), correct.collect()),
        ("nearest".to_owned(), predictions.iter().map(|p| *p as f64).collect()),
    ]);
    let evidence = Evidence::Nearest {
        nearest: predictions
            .iter()
            .map(|p| u32::try_from(*p).unwrap_or(u32::MAX))
            .collect(),
    };
    Ok(Scores::new(main_key, nearest::score(&predictions), first.nrows())?
        .with_items(items)
        .with_evidence(evidence))
}

fn not_a_number(index: usize) -> ScoreError {
    ScoreError::Item {
        what: "pairs",
        index,
        problem: "the similarity is not a number".to_owned(),
    }
}

/// Cosine and the encoder's own similarity of each pair.
fn similarities(first: &Rows<'_>, second: &Rows<'_>, own: Similarity) -> (Vec<f64>, Vec<f64>) {
    pairs(first, second)
        .map(|(x, y)| (f64::from(similarity::cosine(x, y)), f64::from(own.of(x, y))))
        .unzip()
}

/// The key of the main score, after checking that vectors and labels match.
fn checked(
    task: TaskType,
    profile: Profile,
    first: ArrayView2<'_, f32>,
    second: ArrayView2<'_, f32>,
    labels: usize,
) -> Result<&'static str, ScoreError> {
    let main_key = task
        .main_score(profile)
        .ok_or(ScoreError::NotServed { task, profile })?;
    for (what, matrix) in [("first vectors", first), ("second vectors", second)] {
        if matrix.nrows() != labels {
            return Err(ScoreError::Rows {
                what,
                expected: labels,
                found: matrix.nrows(),
            });
        }
    }
    ScoreError::widths("second vectors", first, second)?;
    Ok(main_key)
}

fn pairs<'a>(
    first: &'a Rows<'_>,
    second: &'a Rows<'_>,
) -> impl IndexedParallelIterator<Item = (&'a [f32], &'a [f32])> + Clone {
    first.par_iter().zip(second.par_iter())
}
