//! Classification: labelled vectors for fitting, and others for prediction.

use std::collections::BTreeMap;

use isomer_learn::{
    logistic::LogisticRegression,
    protocol::{self, ClassificationReport, FewShot},
};
use ndarray::ArrayView2;

use super::{Profile, ScoreError, Scores, TaskType};
use crate::{chance::Chance, evidence::Evidence};

/// Default number of train rows of each label in each fit.
pub const SAMPLES_PER_LABEL: usize = 8;

/// Default number of fits.
pub const EXPERIMENTS: usize = 10;

#[derive(Debug, Clone, Copy)]
pub struct ClassificationInput<'a> {
    /// One vector per train row.
    pub train: ArrayView2<'a, f32>,
    pub train_labels: &'a [String],
    /// One vector per test row.
    pub test: ArrayView2<'a, f32>,
    /// Their labels; each must be a label of the train rows.
    pub test_labels: &'a [String],
    /// Train rows of each label in each fit. Ignored under `hteb`.
    pub samples_per_label: usize,
    /// Fits. Ignored under `hteb`.
    pub experiments: usize,
}

/// Scores classification. `mteb-v2` and `mteb-v1`: ten logistic regressions on a few rows of each
/// label, averaged; `hteb`: one on all train rows.
///
/// # Errors
/// If vectors and labels do not match, there is only one class, or a test label has no train row.
pub fn score_classification(input: &ClassificationInput<'_>, profile: Profile) -> Result<Scores, ScoreError> {
    let task = TaskType::Classification;
    let main_key = task
        .main_score(profile)
        .ok_or(ScoreError::NotServed { task, profile })?;
    for (what, labels) in [("train rows", input.train_labels), ("test rows", input.test_labels)] {
        if labels.is_empty() {
            return Err(ScoreError::none(main_key, what));
        }
    }
    let (train, test) = (input.train, input.test);
    let report = match profile {
        Profile::MtebV2 | Profile::MtebV1 => {
            let few = FewShot {
                samples_per_label: input.samples_per_label,
                experiments: input.experiments,
                ..FewShot::default()
            };
            few.score(train, input.train_labels, test, input.test_labels)?
        }
        Profile::Hteb => protocol::whole_train(
            train,
            input.train_labels,
            test,
            input.test_labels,
            LogisticRegression::default(),
        )?,
    };
    let all = report
        .mean
        .named()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    let classes = classes(input);
    let items = right(&report, input, &classes);
    let evidence = Evidence::mean(&items["correct"], None).with_chance(Some(chance(&report, input, &classes)));
    Ok(Scores::new(main_key, all, input.test_labels.len())?
        .with_items(items)
        .with_evidence(evidence))
}

/// All labels, sorted; predictions are positions among them.
fn classes<'a>(input: &ClassificationInput<'a>) -> Vec<&'a String> {
    let mut classes: Vec<&String> = input.train_labels.iter().chain(input.test_labels).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Compares the accuracy with that of permuted test labels.
fn chance(report: &ClassificationReport, input: &ClassificationInput<'_>, classes: &[&String]) -> Chance {
    let position = |label: &String| classes.binary_search(&label).unwrap_or(classes.len());
    let labels: Vec<usize> = input.test_labels.iter().map(position).collect();
    // For each row and class, the number of fits that predict the class.
    let mut fits = vec![0_u32; labels.len() * (classes.len() + 1)];
    for fit in &report.experiments {
        for (row, class) in fits.chunks_mut(classes.len() + 1).zip(&fit.predictions) {
            row[*class] += 1;
        }
    }
    let hits = |labels: &[usize]| {
        let rows = fits.chunks(classes.len() + 1).zip(labels);
        rows.map(|(row, class)| f64::from(row[*class])).sum::<f64>()
    };
    Chance::of_labels(&labels, hits)
}

/// For each test row, the fraction of fits that predict its label.
fn right(
    report: &ClassificationReport,
    input: &ClassificationInput<'_>,
    classes: &[&String],
) -> BTreeMap<String, Vec<f64>> {
    let fits = report.experiments.len() as f64;
    let share = |(row, label): (usize, &String)| {
        let own = classes.binary_search(&label).ok();
        let hits = report
            .experiments
            .iter()
            .filter(|fit| fit.predictions.get(row).copied() == own);
        hits.count() as f64 / fits
    };
    let shares = input.test_labels.iter().enumerate().map(share).collect();
    BTreeMap::from([("correct".to_owned(), shares)])
}
