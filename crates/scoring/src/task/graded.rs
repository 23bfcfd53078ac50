//! Graded ranking: candidates of decreasing closeness to an anchor, best first (partial
//! paraphrases).
//!
//! Source: the PARTIAL paper, section 5.1: R-Precision and Spearman's rho of each group, averaged
//! over groups. The same groups also form a classification, in which the best candidate is a
//! paraphrase and the others are not.

use std::collections::{BTreeMap, HashSet};

use ndarray::ArrayView2;

use super::{Profile, ScoreError, Scores, TaskType};
use crate::{
    evidence::correlations_within,
    metric::{Similarity, matrix::Rows},
    stats::{mean, spearman},
};

/// Scores of the pairs of one group, best candidate first, from any scorer of pairs.
pub type PairScores = Vec<f64>;

/// Scores graded ranking with vectors: `anchors` contains one per group, `candidates` those of all
/// groups, best first, and `counts` the number per group.
///
/// * `r_precision`: one candidate of a group is the paraphrase, so R is 1. The score is the
///   fraction of groups whose best candidate scores strictly highest. A tie is a failure.
/// * `spearman`: the correlation of the scores with the degrees, averaged over the
///   `spearman_groups` groups whose scores are not all equal.
///
/// # Errors
/// If vectors do not match, there are no groups, a group has fewer than two candidates, or scores
/// are equal in every group.
pub fn score_graded_ranking(
    anchors: ArrayView2<'_, f32>,
    candidates: ArrayView2<'_, f32>,
    counts: &[usize],
    own: Similarity,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    ScoreError::rows("anchors", counts.len(), anchors.nrows())?;
    ScoreError::rows("candidates", counts.iter().sum(), candidates.nrows())?;
    ScoreError::widths("candidates", anchors, candidates)?;
    let (anchors, candidates) = (Rows::new(anchors), Rows::new(candidates));
    let mut next = 0;
    let groups: Vec<PairScores> = counts
        .iter()
        .enumerate()
        .map(|(group, count)| {
            let rows = next..next + count;
            next += count;
            rows.map(|row| f64::from(own.of(anchors.row(group), candidates.row(row))))
                .collect()
        })
        .collect();
    score_pair_scores(&groups, None, profile)
}

/// Like [`score_graded_ranking`], from scores of pairs. With the scorer's threshold for a
/// paraphrase, `accuracy_at_0_swaps` is the fraction of best candidates at or above it, and
/// `accuracy_at_<k>_swaps` the fraction of candidates k places further down that are below it.
///
/// # Errors
/// Those of [`score_graded_ranking`]; also if a score or threshold is not finite.
pub fn score_pair_scores(
    groups: &[PairScores],
    threshold: Option<f64>,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    let task = TaskType::GradedRanking;
    let main_key = task
        .main_score(profile)
        .ok_or(ScoreError::NotServed { task, profile })?;
    check(groups, threshold, main_key)?;
    let mut found = Vec::with_capacity(groups.len());
    let mut rhos = Vec::with_capacity(groups.len());
    for group in groups {
        let (best, rest) = group
            .split_first()
            .map_or((f64::NAN, &[][..]), |(best, rest)| (*best, rest));
        found.push(f64::from(u8::from(rest.iter().all(|score| best > *score))));
        rhos.push(spearman(&degrees(group), group).unwrap_or(f64::NAN));
    }
    let defined: Vec<f64> = rhos.iter().copied().filter(|rho| rho.is_finite()).collect();
    let Some(rho) = mean(&defined) else {
        let reason = format!("in each of the {} groups all scores are equal", groups.len());
        return Err(ScoreError::Undefined {
            metric: main_key,
            reason,
        });
    };
    let mut all = BTreeMap::from([
        ("spearman".to_owned(), rho),
        ("spearman_groups".to_owned(), defined.len() as f64),
        ("r_precision".to_owned(), mean(&found).unwrap_or(0.0)),
    ]);
    if let Some(threshold) = threshold {
        all.extend(accuracies(groups, threshold));
    }
    let items = BTreeMap::from([("spearman".to_owned(), rhos), ("r_precision".to_owned(), found)]);
    let chance = correlations_within(groups.iter().map(|group| (group.as_slice(), degrees(group))));
    Ok(Scores::new(main_key, all, groups.len())?
        .with_items(items)
        .with_mean_of_column(None, Some(chance)))
}

/// The closeness of each candidate to the anchor; the first is the closest.
fn degrees(group: &[f64]) -> Vec<f64> {
    (0..group.len()).rev().map(|degree| degree as f64).collect()
}

fn check(groups: &[PairScores], threshold: Option<f64>, main_key: &'static str) -> Result<(), ScoreError> {
    if groups.is_empty() {
        return Err(ScoreError::none(main_key, "groups"));
    }
    for (index, group) in groups.iter().enumerate() {
        let problem = match group.iter().find(|score| !score.is_finite()) {
            Some(score) => format!("a score is {score}"),
            None if group.len() < 2 => format!("it has {} candidates where at least two are needed", group.len()),
            None => continue,
        };
        return Err(ScoreError::Item {
            what: "groups",
            index,
            problem,
        });
    }
    match threshold {
        Some(threshold) if !threshold.is_finite() => Err(ScoreError::Undefined {
            metric: main_key,
            reason: format!("the threshold is {threshold}"),
        }),
        _ => Ok(()),
    }
}

fn accuracies(groups: &[PairScores], threshold: f64) -> BTreeMap<String, f64> {
    let longest = groups.iter().map(Vec::len).max().unwrap_or(0);
    let at = |swaps: usize| {
        let right = groups.iter().filter_map(|group| group.get(swaps)).map(|score| {
            let positive = *score >= threshold;
            f64::from(u8::from(positive == (swaps == 0)))
        });
        mean(&right.collect::<Vec<_>>())
    };
    (0..longest)
        .filter_map(|swaps| Some((format!("accuracy_at_{swaps}_swaps"), at(swaps)?)))
        .collect()
}

/// Jaccard overlap of the word types of two texts, in [0, 1]: lower-cased, split at white space,
/// punctuation trimmed from the ends of words. 1 for two texts without words.
pub fn lexical_overlap(left: &str, right: &str) -> f64 {
    let words = |text: &str| -> HashSet<String> {
        text.split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
            .filter(|word| !word.is_empty())
            .collect()
    };
    let (left, right) = (words(left), words(right));
    let union = left.union(&right).count();
    if union == 0 {
        return 1.0;
    }
    left.intersection(&right).count() as f64 / union as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn groups_are_scored_apart_and_averaged() {
        // In order; the first two swapped; all equal (no correlation, and a tie for the first
        // place).
        let groups = vec![vec![0.9, 0.8, 0.5, 0.1], vec![0.8, 0.9, 0.5, 0.1], vec![0.4; 4]];
        let scores = score_pair_scores(&groups, Some(0.5), Profile::MtebV2).unwrap();
        assert!((scores.main - (1.0 + 0.8) / 2.0).abs() < 1e-12);
        assert_eq!(scores.all["spearman_groups"], 2.0);
        assert!((scores.all["r_precision"] - 1.0 / 3.0).abs() < 1e-12);
        assert!((scores.all["accuracy_at_0_swaps"] - 2.0 / 3.0).abs() < 1e-12);
        assert!((scores.all["accuracy_at_1_swaps"] - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(scores.all["accuracy_at_3_swaps"], 1.0);
        assert!(scores.per_item["spearman"][2].is_nan());
    }

    #[test]
    fn what_cannot_be_ranked_is_refused() {
        let refused = |groups: &[PairScores]| score_pair_scores(groups, None, Profile::Hteb).unwrap_err().to_string();
        assert!(refused(&[]).contains("there are no groups"));
        assert!(refused(&[vec![0.5]]).contains("groups 0"));
        assert!(refused(&[vec![0.5, f64::NAN]]).contains("NaN"));
        assert!(refused(&[vec![0.5, 0.5]]).contains("equal"));
    }

    #[test]
    fn overlap_counts_word_types() {
        assert_eq!(lexical_overlap("The cat sat.", "the CAT ran"), 0.5);
        assert_eq!(lexical_overlap("a a a", "a"), 1.0);
        assert_eq!(lexical_overlap("", "…"), 1.0);
    }
}
