//! Scores of classifications and clusterings, as in `sklearn.metrics`.
//!
//! Classes and clusters are numbers from 0; the numbering does not matter.

mod binary;
mod classification;
mod clustering;
mod multilabel;

pub use binary::average_precision;
pub use classification::{ClassificationScores, Confusion};
pub use clustering::{Agreement, agreement};
pub use multilabel::MultilabelScores;
