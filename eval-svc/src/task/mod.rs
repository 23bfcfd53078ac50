//! Task types, metric profiles, and the one place where vectors of a task become its scores.

mod error;
mod kind;
mod pairs;
mod profile;
mod retrieval;

pub use error::ScoreError;
pub use kind::{TaskType, UnknownTask};
pub use pairs::{score_pair_classification, score_sts};
pub use profile::{Profile, UnknownProfile};
pub use retrieval::{RetrievalInput, score_retrieval};

use std::collections::BTreeMap;

/// Scores of a task under a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// mteb's key of the main score, e.g. `cosine_spearman`.
    pub main_key: &'static str,
    /// The main score, in the metric's own unit (not × 100).
    pub main: f64,
    /// Every score by mteb's key. Scores that are undefined on this data are absent.
    pub all: BTreeMap<String, f64>,
    /// Rows scored: pairs, or queries.
    pub items: u64,
}

impl Scores {
    fn new(main_key: &'static str, all: BTreeMap<String, f64>, items: usize) -> Result<Self, ScoreError> {
        let main = *all.get(main_key).ok_or(ScoreError::MissingMain { key: main_key })?;
        Ok(Self {
            main_key,
            main,
            all,
            items: items as u64,
        })
    }
}
