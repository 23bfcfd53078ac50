//! A score to compute from vectors, and its result.
//!
//! A score of at least `eval.score_unit_operations` (retrieval in one piece, bitext mining,
//! classification, clustering) is a unit of the lane `score`, in the run's class of arithmetic. The
//! unit names labels and vectors by their digests, and its answer is kept under the score's own
//! key. The run removes the vectors from the store once it has the score; a worker that needs them
//! later reports it, and they are written again. Smaller scores are computed by the process that
//! leads the run, which has the vectors.

use std::{collections::BTreeMap, sync::Arc};

use isomer_service_kit::Fault;
use ndarray::Array2;
use serde::{Deserialize, Serialize};

use crate::{
    compute::Compute,
    dataset::{Dataset, Scoring},
    evidence::Evidence,
    metric::Similarity,
    task::{Profile, ResultLists, ScoreError, Scores},
};

/// Vectors of a data set to score.
#[derive(Debug)]
pub(crate) struct ScoreTask {
    /// The data set.
    pub(crate) dataset: Arc<Dataset>,
    /// One row per text of it.
    pub(crate) vectors: Array2<f32>,
    /// The definition of the scores.
    pub(crate) profile: Profile,
    /// The encoder's similarity.
    pub(crate) similarity: Similarity,
}

/// A score, computed now or found in the store of scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreRecord {
    /// Key of the main score, for example `cosine_spearman`.
    pub main_key: String,
    /// Main score in the metric's own unit.
    pub main: f64,
    /// Every metric.
    pub all: BTreeMap<String, f64>,
    /// Rows scored.
    pub items: u64,
    /// The item-level data behind the main score, if there is any. A score found in the store comes
    /// without it, because many scores of many items would fill the memory: see
    /// [`UnitStore::evidence`](crate::run::units::UnitStore::evidence).
    pub evidence: Option<Evidence>,
    /// The result lists of retrieval; also absent from stored scores: see
    /// [`UnitStore::lists`](crate::run::units::UnitStore::lists).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<ResultLists>,
}

/// A score could not be computed.
#[derive(Debug)]
pub(crate) enum ScoreFailure {
    /// It is undefined on these vectors.
    Undefined(ScoreError),
    /// A worker, the queue or the store refused or failed.
    Refused(Box<Fault>),
    /// It panicked.
    Stopped(String),
}

impl From<Scores> for ScoreRecord {
    fn from(scores: Scores) -> Self {
        Self {
            main_key: scores.main_key.to_owned(),
            main: scores.main,
            all: scores.all,
            items: scores.items,
            evidence: scores.evidence,
            lists: scores.lists,
        }
    }
}

impl ScoreRecord {
    /// The score without the data stored with it.
    #[must_use]
    pub(crate) fn alone(mut self) -> Self {
        (self.evidence, self.lists) = (None, None);
        self
    }

    /// As [`Scores::with_main`].
    ///
    /// # Errors
    /// If the score does not contain the key.
    pub(super) fn with_main(mut self, key: &'static str) -> Result<Self, ScoreError> {
        if key != self.main_key {
            self.evidence = None;
        }
        self.main = *self.all.get(key).ok_or(ScoreError::MissingMain { key })?;
        key.clone_into(&mut self.main_key);
        Ok(self)
    }
}

/// Scores on a thread of runs.
pub(super) async fn score(compute: &Compute, task: ScoreTask) -> Result<ScoreRecord, ScoreFailure> {
    let scored = compute.batch(move || {
        task.dataset
            .score_with(task.vectors.view(), task.profile, task.similarity)
    });
    record(scored.await)
}

/// Like [`score`], with the worker's knowledge of the data set.
pub(super) async fn score_of(
    compute: &Compute,
    scoring: Scoring,
    vectors: Array2<f32>,
    profile: Profile,
    similarity: Similarity,
) -> Result<ScoreRecord, ScoreFailure> {
    let scored = compute.batch(move || scoring.score(vectors.view(), profile, similarity));
    record(scored.await)
}

fn record(scored: Result<Result<Scores, ScoreError>, tokio::task::JoinError>) -> Result<ScoreRecord, ScoreFailure> {
    match scored {
        Ok(Ok(scores)) => Ok(scores.into()),
        Ok(Err(error)) => Err(ScoreFailure::Undefined(error)),
        Err(error) => Err(ScoreFailure::Stopped(error.to_string())),
    }
}
