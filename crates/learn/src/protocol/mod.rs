//! mteb's procedures around the learners: selection of rows, seeds and means.
//!
//! mteb 2.20: the numbers equal those of its task classes on the same vectors with scikit-learn
//! 1.8.

mod classification;
mod clustering;
mod multilabel;

pub use classification::{
    ClassificationReport, CrossValidation, Experiment, FewShot, Selections, k_folds, undersample, whole_train,
};
pub use clustering::{
    ClusteringReport, FastClustering, Level, LevelLabel, clustering_seed_score, legacy_report,
    legacy_set_needs_vectors, legacy_set_score,
};
pub use multilabel::{Multilabel, MultilabelReport};

/// Mean and population standard deviation, as `numpy.mean` and `numpy.std`.
fn mean_and_std(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}
