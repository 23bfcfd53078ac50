//! The errors of scoring vectors.

use ndarray::ArrayView2;

use super::{Profile, TaskType};
use crate::{metric::MatrixError, stats::StatsError};

/// A task that could not be scored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScoreError {
    /// The number of vectors does not match the texts.
    #[error("{what}: {expected} vectors are needed, {found} given")]
    Rows {
        /// The name of the vectors, e.g. `documents`.
        what: &'static str,
        expected: usize,
        found: usize,
    },
    /// Vectors that do not form a matrix, or of unequal widths.
    #[error("{what}: {source}")]
    Matrix {
        /// The name of the vectors.
        what: &'static str,
        source: MatrixError,
    },
    /// The main metric is undefined on this data.
    #[error("{metric} is undefined here: {reason}")]
    Undefined {
        /// The name of the metric.
        metric: &'static str,
        /// The reason, in words.
        reason: String,
    },
    /// The main score is not among the scores: an internal error.
    #[error("no {key} was computed")]
    MissingMain { key: &'static str },
    /// The task type is not supported yet.
    #[error("{task} is not served yet under {profile}")]
    NotServed { task: TaskType, profile: Profile },
    /// An item of a task that cannot be scored.
    #[error("{what} {index}: {problem}")]
    Item {
        /// The kind of item, e.g. `query`.
        what: &'static str,
        /// Its position, from 0.
        index: usize,
        problem: String,
    },
    /// Data from which classification or clustering cannot be learnt.
    #[error(transparent)]
    Learn(#[from] isomer_learn::LearnError),
    /// An error that another process reported when it scored.
    #[error("{problem}")]
    Told { problem: String },
    /// A judgement names an unknown query or document.
    #[error("judgement {index} names {what} `{id}`, which is not among the {what} ids")]
    UnknownId {
        /// Position of the judgement.
        index: usize,
        /// `query` or `document`.
        what: &'static str,
        id: String,
    },
    /// An id given twice.
    #[error("{what} id `{id}` occurs twice")]
    DuplicateId {
        /// `query` or `document`.
        what: &'static str,
        id: String,
    },
}

impl ScoreError {
    /// Refuses vectors of different widths, and vectors without columns.
    pub(super) fn widths(
        what: &'static str,
        left: ArrayView2<'_, f32>,
        right: ArrayView2<'_, f32>,
    ) -> Result<(), Self> {
        let source = match (left.ncols(), right.ncols()) {
            (left, right) if left != right => MatrixError::Width { left, right },
            (0, _) => MatrixError::NoColumns,
            _ => return Ok(()),
        };
        Err(Self::Matrix { what, source })
    }

    /// Refuses a number of vectors other than expected.
    pub(super) fn rows(what: &'static str, expected: usize, found: usize) -> Result<(), Self> {
        if expected == found {
            return Ok(());
        }
        Err(Self::Rows { what, expected, found })
    }

    pub(super) fn none(metric: &'static str, what: &str) -> Self {
        Self::Undefined {
            metric,
            reason: format!("there are no {what}"),
        }
    }

    pub(super) fn undefined(metric: &'static str, error: &StatsError) -> Self {
        Self::Undefined {
            metric,
            reason: error.to_string(),
        }
    }
}
