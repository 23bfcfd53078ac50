//! Prediction-powered inference: a few labels by people and a model's predictions of all labels.
//!
//! * [`prediction_powered_mean`]: the mean of the labels with a normal interval, as published, with
//!   power tuning.
//! * [`StratifiedShare`]: the share of positive labels among finitely many units whose predictions
//!   are yes or no, with an exact lower bound.
//!
//! The normal interval misses its level if labels are few and almost all alike: thirty positive
//! labels have no variance, so that the interval is a point. The exact bound holds for every number
//! of labels and every prediction (`examples/lying_judge.rs`).
//!
//! Sources: A. N. Angelopoulos, S. Bates, C. Fannjiang, M. I. Jordan and T. Zrnic,
//! "Prediction-powered inference" (Science 382, 2023); A. N. Angelopoulos, J. C. Duchi and T.
//! Zrnic, "PPI++: Efficient prediction-powered inference" (arXiv 2311.01453).

mod mean;
mod share;

pub use mean::{PredictedSample, PredictionPoweredMean, Tuning, prediction_powered_mean};
pub use share::{LabelledStratum, StratifiedShare, allocation};
