//! When an item is right or wrong, for each task; a task without this has no flips.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    evidence::Evidence,
    task::{ResultLists, TaskType},
};

/// When an item counts as right. It is fixed on the original texts, before any other text is looked
/// at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Right {
    /// A pair: its cosine is at least the threshold if it is positive, below it if it is negative.
    Threshold {
        /// The threshold, which gives the most right pairs on the original texts.
        threshold: f64,
        /// The share of pairs that it has right there.
        accuracy: f64,
    },
    /// A query: a relevant document is among the first `k`. Queries without a relevant document do
    /// not count.
    Hit {
        /// The cut-off.
        k: usize,
    },
    /// A bitext pair: the nearest text is the translation.
    Nearest,
    /// A text: more than half of the classifier's fits label it correctly.
    MostFits,
}

/// The items behind one score.
#[derive(Debug, Clone, Copy)]
pub struct ScoredItems<'a> {
    pub task: TaskType,
    pub main_key: &'a str,
    /// Items that the score is computed from.
    pub evidence: Option<&'a Evidence>,
    /// The result lists of retrieval.
    pub lists: Option<&'a ResultLists>,
}

impl Right {
    /// Tasks whose items may be right or wrong.
    pub const TASKS: [TaskType; 4] = [
        TaskType::PairClassification,
        TaskType::Retrieval,
        TaskType::Bitext,
        TaskType::Classification,
    ];

    /// The rule that one encoder's score of the original texts gives, with hits among the first
    /// `k` documents.
    ///
    /// # Errors
    /// Why no item of this data set is right or wrong.
    pub fn on(original: ScoredItems<'_>, k: usize) -> Result<Self, String> {
        let ScoredItems { task, main_key, .. } = original;
        match (task, original.evidence) {
            (TaskType::PairClassification, Some(Evidence::AveragePrecision { labels, similarities })) => {
                let cosines = similarities
                    .first()
                    .ok_or_else(|| "its similarities are not kept".to_owned())?;
                best_threshold(cosines, labels)
            }
            (TaskType::Retrieval, _) => {
                let lists = original.lists.ok_or_else(|| {
                    "its result lists are not kept: the run is of an Isomer that did not keep them; run it again"
                        .to_owned()
                })?;
                if k == 0 || k > lists.searched {
                    return Err(format!(
                        "a hit among the first {k} is not known; the search returned {}",
                        lists.searched
                    ));
                }
                if lists.corpus <= k {
                    return Err(format!(
                        "its corpus has {} documents, so that the first {k} are all of them; give a smaller k",
                        lists.corpus
                    ));
                }
                Ok(Self::Hit { k })
            }
            (TaskType::Bitext, Some(Evidence::Nearest { .. })) => Ok(Self::Nearest),
            (TaskType::Classification, Some(Evidence::Mean { .. })) if main_key == "accuracy" => Ok(Self::MostFits),
            _ => Err(why_none(task, main_key)),
        }
    }

    /// Whether each item is right; `None` where it does not count. `None` for all of them where
    /// this rule is not one for these items.
    pub fn of(self, scored: ScoredItems<'_>) -> Option<Vec<Option<bool>>> {
        Some(match (self, scored.evidence, scored.lists) {
            (Self::Threshold { threshold, .. }, Some(Evidence::AveragePrecision { labels, similarities }), _) => {
                let pairs = similarities.first()?.iter().zip(labels);
                pairs
                    .map(|(cosine, label)| Some((f64::from(*cosine) >= threshold) == *label))
                    .collect()
            }
            (Self::Hit { k }, _, Some(lists)) => {
                let queries = lists.first_relevant.iter().zip(&lists.judged);
                let hit = |first: &Option<u32>| first.is_some_and(|rank| rank as usize <= k);
                queries
                    .map(|(first, judged)| (*judged > 0).then(|| hit(first)))
                    .collect()
            }
            (Self::Nearest, Some(Evidence::Nearest { nearest }), _) => {
                let all = nearest.iter().enumerate();
                all.map(|(item, found)| Some(*found as usize == item)).collect()
            }
            (Self::MostFits, Some(Evidence::Mean { values, .. }), _) => {
                values.iter().map(|value| value.map(|share| share > 0.5)).collect()
            }
            _ => return None,
        })
    }

    /// In words, for readers.
    pub fn sentence(self) -> String {
        match self {
            Self::Threshold { threshold, accuracy } => format!(
                "a pair is right if its cosine falls on the side of its label, at the threshold {threshold:.4}, which has {:.1} % \
                 of the original pairs right",
                accuracy * 100.0
            ),
            Self::Hit { k } => format!("a query is right if a relevant document is among its first {k}"),
            Self::Nearest => "a pair is right if the nearest text is the translation".to_owned(),
            Self::MostFits => {
                "a text is right if more than half of the classifier's fits label it correctly".to_owned()
            }
        }
    }
}

fn why_none(task: TaskType, main_key: &str) -> String {
    match task {
        TaskType::Sts => "graded similarities are neither right nor wrong".to_owned(),
        TaskType::Clustering => "a cluster has no label, so that no text is right or wrong".to_owned(),
        TaskType::Summarisation => "correlations with ratings are neither right nor wrong".to_owned(),
        TaskType::Reranking | TaskType::GradedRanking => {
            "the order of a query's candidates is graded, neither right nor wrong".to_owned()
        }
        TaskType::Classification => format!("its main score is {main_key}, and only accuracy is kept text by text"),
        task => format!("what is kept of {task} under {main_key} does not say which items are right"),
    }
}

/// The threshold with the most right pairs, the highest of several: half way between two
/// neighbouring similarities. A pair at the threshold counts as positive.
fn best_threshold(similarities: &[f32], labels: &[bool]) -> Result<Right, String> {
    let mut pairs: Vec<(f64, bool)> = similarities
        .iter()
        .map(|s| f64::from(*s))
        .zip(labels.iter().copied())
        .collect();
    if pairs.iter().any(|(similarity, _)| !similarity.is_finite()) {
        return Err("a similarity is not a number".to_owned());
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let positives = pairs.iter().filter(|(_, label)| *label).count();
    // Right with everything below the threshold: the negatives.
    let mut right = pairs.len() - positives;
    let majority = positives.max(right);
    let (mut most, mut threshold) = (majority, None);
    let mut above = 0;
    for group in pairs.chunk_by(|a, b| a.0 == b.0) {
        above += group.len();
        let positive = group.iter().filter(|(_, label)| *label).count();
        right = right + positive - (group.len() - positive);
        if let Some((next, _)) = pairs.get(above).filter(|_| right > most) {
            (most, threshold) = (right, Some(f64::midpoint(group[0].0, *next)));
        }
    }
    let accuracy = most as f64 / pairs.len().max(1) as f64;
    threshold
        .map(|threshold| Right::Threshold { threshold, accuracy })
        .ok_or_else(|| {
            format!(
                "no threshold has more of its original pairs right than one answer for all of them ({:.1} %)",
                accuracy * 100.0
            )
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn pairs(similarities: &[f32], labels: &[bool]) -> Evidence {
        Evidence::AveragePrecision {
            labels: labels.to_vec(),
            similarities: vec![similarities.to_vec()],
        }
    }

    fn scored(task: TaskType, evidence: &Evidence) -> ScoredItems<'_> {
        ScoredItems {
            task,
            main_key: "max_ap",
            evidence: Some(evidence),
            lists: None,
        }
    }

    #[test]
    fn the_threshold_has_the_most_pairs_right_and_lies_between_two_similarities() {
        let evidence = pairs(&[0.9, 0.2, 0.7, 0.5, 0.4], &[true, false, true, false, true]);
        let items = scored(TaskType::PairClassification, &evidence);
        let Ok(Right::Threshold { threshold, accuracy }) = Right::on(items, 10) else {
            panic!("a threshold");
        };
        // 0.6 has four of five right; so has 0.3, which is lower.
        assert!(
            (threshold - 0.6).abs() < 1e-7 && accuracy == 0.8,
            "{threshold} {accuracy}"
        );
        let right = Right::Threshold { threshold, accuracy }.of(items).unwrap();
        assert_eq!(right, [true, true, true, true, false].map(Some));
    }

    #[test]
    fn a_threshold_that_tells_nothing_apart_is_refused() {
        // Every positive lies below every negative: no threshold beats one answer for all.
        let evidence = pairs(&[0.1, 0.2, 0.8, 0.9], &[true, true, false, false]);
        let refused = Right::on(scored(TaskType::PairClassification, &evidence), 10).unwrap_err();
        assert!(refused.contains("one answer for all of them (50.0 %)"), "{refused}");
        // Equal similarities are one group: half of them cannot be above the threshold.
        let evidence = pairs(&[0.5, 0.5, 0.5], &[true, true, false]);
        assert!(Right::on(scored(TaskType::PairClassification, &evidence), 10).is_err());
    }

    #[test]
    fn tasks_without_right_and_wrong_are_refused_with_the_reason() {
        let evidence = Evidence::mean(&[0.5, 1.0], None);
        for (task, reason) in [
            (TaskType::Sts, "graded"),
            (TaskType::Clustering, "no label"),
            (TaskType::Summarisation, "ratings"),
            (TaskType::Reranking, "graded"),
            (TaskType::GradedRanking, "graded"),
            (TaskType::Clsd, "does not say"),
            (TaskType::Classification, "only accuracy"),
            (TaskType::Retrieval, "result lists are not kept"),
        ] {
            let refused = Right::on(scored(task, &evidence), 10).unwrap_err();
            assert!(refused.contains(reason), "{task}: {refused}");
        }
        let accuracy = ScoredItems {
            main_key: "accuracy",
            ..scored(TaskType::Classification, &evidence)
        };
        assert_eq!(Right::on(accuracy, 10), Ok(Right::MostFits));
        assert_eq!(Right::MostFits.of(accuracy), Some(vec![Some(false), Some(true)]));
    }

    #[test]
    fn a_hit_needs_a_relevant_document_and_a_corpus_larger_than_k() {
        let lists = ResultLists {
            searched: 1000,
            corpus: 40,
            first_relevant: vec![Some(3), Some(4), None, None],
            judged: vec![1, 2, 1, 0],
            ..ResultLists::default()
        };
        let items = ScoredItems {
            task: TaskType::Retrieval,
            main_key: "ndcg_at_10",
            evidence: None,
            lists: Some(&lists),
        };
        let rule = Right::on(items, 3).unwrap();
        assert_eq!(rule.of(items), Some(vec![Some(true), Some(false), Some(false), None]));
        assert!(Right::on(items, 40).unwrap_err().contains("all of them"));
        assert!(Right::on(items, 0).is_err() && Right::on(items, 1001).is_err());
    }
}
