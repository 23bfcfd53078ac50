//! Task types, metric profiles, and the conversion of a task's vectors into its scores.

mod classification;
mod clsd;
mod clustering;
mod error;
mod graded;
mod hybrid;
mod kind;
mod lists;
mod pairs;
mod profile;
mod ranked;
mod reranking;
mod retrieval;
mod summarisation;

pub use classification::{ClassificationInput, EXPERIMENTS, SAMPLES_PER_LABEL, score_classification};
pub use clsd::{ClsdInput, OneWord, score_clsd};
pub use clustering::{ClusteringInput, score_clustering};
pub use error::ScoreError;
pub use graded::{PairScores, lexical_overlap, score_graded_ranking, score_pair_scores};
pub use hybrid::{DenseInput, HybridSearch, LexicalInput, score_hybrid, score_lexical};
pub use kind::{TaskType, UnknownTask};
pub use lists::{LIST_DEPTH, ResultLists};
pub use pairs::{score_bitext, score_pair_classification, score_sts};
pub use profile::{Profile, UnknownProfile};
pub use reranking::{Candidates, RerankingInput, score_reranking};
pub use retrieval::{RetrievalInput, RetrievalLabels, SearchMode, SearchTerms, score_found, score_retrieval};
pub use summarisation::{SummarisationInput, SummarisedText, score_summarisation};

use std::collections::BTreeMap;

use crate::{chance::Chance, evidence::Evidence, metric::ApproximateReport};

/// Scores of a task under a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// mteb's key of the main score, e.g. `cosine_spearman`.
    pub main_key: &'static str,
    /// The main score, in the metric's own unit (not × 100).
    pub main: f64,
    /// Every score by mteb's key. Scores that are undefined on this data are absent.
    pub all: BTreeMap<String, f64>,
    /// Rows scored: pairs, queries, texts or groups.
    pub items: u64,
    /// Values of single items, one column per key and one value per item; NaN if a value is
    /// undefined for its item.
    pub per_item: BTreeMap<String, Vec<f64>>,
    /// The parts of the main score, item by item; `None` if it has no such parts (macro F1 of
    /// classification).
    pub evidence: Option<Evidence>,
    /// The best documents of each query; `None` for tasks other than retrieval.
    pub lists: Option<ResultLists>,
    /// Notes for users about the scoring.
    pub notes: Vec<String>,
    /// Set if the search was approximate.
    pub approximate: Option<ApproximateReport>,
}

impl Scores {
    fn new(main_key: &'static str, all: BTreeMap<String, f64>, items: usize) -> Result<Self, ScoreError> {
        let main = *all.get(main_key).ok_or(ScoreError::MissingMain { key: main_key })?;
        Ok(Self {
            main_key,
            main,
            all,
            items: items as u64,
            per_item: BTreeMap::new(),
            evidence: None,
            lists: None,
            notes: Vec::new(),
            approximate: None,
        })
    }

    /// The same scores with another main score. Evidence belongs to the main score, so the result
    /// has none.
    ///
    /// # Errors
    /// If the score is not among them.
    pub fn with_main(mut self, key: &'static str) -> Result<Self, ScoreError> {
        if key != self.main_key {
            self.evidence = None;
        }
        self.main = *self.all.get(key).ok_or(ScoreError::MissingMain { key })?;
        self.main_key = key;
        Ok(self)
    }

    fn with_items(mut self, columns: BTreeMap<String, Vec<f64>>) -> Self {
        self.per_item = columns;
        self
    }

    fn with_evidence(mut self, evidence: Evidence) -> Self {
        self.evidence = Some(evidence);
        self
    }

    /// Evidence of a main score that is the mean of the column with its name; `decimals` and
    /// `chance` as in [`Evidence::Mean`].
    fn with_mean_of_column(self, decimals: Option<u8>, chance: Option<Chance>) -> Self {
        let evidence = self
            .per_item
            .get(self.main_key)
            .map(|values| Evidence::mean(values, decimals).with_chance(chance));
        match evidence {
            Some(evidence) => self.with_evidence(evidence),
            None => self,
        }
    }
}
