//! Reads the vectors and labels of classification and clustering from a request.

use isomer_proto::eval::v1::{ClassificationVectors, ClusteringVectors, TaskOptions};
use isomer_service_kit::Fault;
use ndarray::Array2;

use super::{VectorInput, lists::of_task, vectors::matrix};
use crate::task::{
    ClassificationInput, ClusteringInput, EXPERIMENTS, Profile, SAMPLES_PER_LABEL, ScoreError, Scores, TaskType,
    score_classification, score_clustering,
};

/// A task of this file, ready to be scored.
#[derive(Debug)]
pub(super) enum LabelledTask {
    Classification {
        train: Array2<f32>,
        train_labels: Vec<String>,
        test: Array2<f32>,
        test_labels: Vec<String>,
        samples_per_label: usize,
        experiments: usize,
    },
    Clustering {
        vectors: Array2<f32>,
        labels: Vec<String>,
        sets: Vec<usize>,
        legacy: bool,
        max_fraction: Option<f64>,
    },
}

impl LabelledTask {
    pub(super) fn score(&self, profile: Profile) -> Result<Scores, ScoreError> {
        match self {
            Self::Classification {
                train,
                train_labels,
                test,
                test_labels,
                samples_per_label,
                experiments,
            } => {
                let input = ClassificationInput {
                    train: train.view(),
                    train_labels,
                    test: test.view(),
                    test_labels,
                    samples_per_label: *samples_per_label,
                    experiments: *experiments,
                };
                score_classification(&input, profile)
            }
            Self::Clustering {
                vectors,
                labels,
                sets,
                legacy,
                max_fraction,
            } => {
                let input = ClusteringInput {
                    vectors: vectors.view(),
                    labels,
                    sets,
                    legacy: *legacy,
                    max_fraction: *max_fraction,
                };
                score_clustering(&input, profile)
            }
        }
    }
}

/// Reads the vectors of a classification task.
pub(super) fn classification(
    task: TaskType,
    input: ClassificationVectors,
    options: &TaskOptions,
) -> Result<VectorInput, Fault> {
    of_task(task, TaskType::Classification, "classification")?;
    Ok(VectorInput::Labelled(LabelledTask::Classification {
        train: matrix("classification.train", input.train)?,
        train_labels: input.train_labels,
        test: matrix("classification.test", input.test)?,
        test_labels: input.test_labels,
        samples_per_label: options
            .samples_per_label
            .map_or(SAMPLES_PER_LABEL, |count| count as usize),
        experiments: options.experiments.map_or(EXPERIMENTS, |count| count as usize),
    }))
}

/// Reads the vectors of a clustering task.
pub(super) fn clustering(
    task: TaskType,
    input: ClusteringVectors,
    options: &TaskOptions,
) -> Result<VectorInput, Fault> {
    of_task(task, TaskType::Clustering, "clustering")?;
    Ok(VectorInput::Labelled(LabelledTask::Clustering {
        vectors: matrix("clustering.vectors", input.vectors)?,
        labels: input.labels,
        sets: input.sets.iter().map(|size| *size as usize).collect(),
        legacy: options.legacy_clustering,
        max_fraction: options.max_fraction,
    }))
}
