//! Values of earlier runs, from which the decisions of a run are foreseen: for each kind of task,
//! by how many points the score of an item drops when its texts are rewritten.
//!
//! Measured with `fixtures/make_pilot.py` under paraphrase and summarisation by
//! qwen2.5-coder-1.5b-instruct, of all-MiniLM-L6-v2 and paraphrase-MiniLM-L3-v2: 90 queries of
//! NFCorpus, 60 pairs of STSBenchmark, 50 pairs of RTE3. Other kinds of tasks were not measured:
//! they have the values of a measured kind whose score is of the same form, or assumed ones.

use crate::{profile, stats::gate::design::Pilot, task::TaskType};

/// Values under one transformation.
enum Values {
    /// Drops of items in points, at equal steps of probability.
    Items(&'static [f64]),
    /// The standard error of the drop of a score that is not a mean of items, times the root of the
    /// number of items.
    Figure(f64),
}

const NFCORPUS: &[f64] = &[
    -26.5, -11.1, -8.5, -6.0, -4.1, -2.9, -2.0, -0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.2, 2.8, 4.3, 6.1, 6.9, 8.0, 10.6, 14.4, 19.4, 28.7, 42.0, 52.4,
];

/// Assumed: of 25 texts, two become wrong and one becomes right.
const ANSWERS: &[f64] = &[
    -100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    0.0, 100.0, 100.0,
];

/// The values of a kind of task, and the correlation of the drops under two transformations.
fn measured(task: TaskType) -> (Values, f64) {
    match task {
        TaskType::Retrieval | TaskType::Reranking | TaskType::Summarisation | TaskType::GradedRanking => {
            (Values::Items(NFCORPUS), 0.14)
        }
        TaskType::Classification | TaskType::Clsd => (Values::Items(ANSWERS), 0.14),
        TaskType::Sts => (Values::Figure(35.3), 0.34),
        TaskType::PairClassification => (Values::Figure(15.4), 0.09),
        TaskType::Clustering | TaskType::Bitext => (Values::Figure(25.0), 0.34),
    }
}

/// The expected values of a rule on a kind of task, whose figure is a weighted mean of scores;
/// `concentration` is the sum of the squared weights.
pub(crate) fn pilot(task: TaskType, concentration: f64) -> Pilot {
    let (values, correlation) = measured(task);
    // The standard deviation of a mean of scores with equal spreads and this correlation between
    // any two, as a part of that of one score.
    let part = (correlation + (1.0 - correlation) * concentration).sqrt();
    match values {
        Values::Figure(spread) => Pilot::Figure { spread: spread * part },
        Values::Items(drops) => Pilot::Items {
            values: drops.iter().map(|drop| drop * part).collect(),
            range: profile::range(task.name(), true),
        },
    }
}
