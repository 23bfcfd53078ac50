//! Gold scores, for callers that compare them with results other than vectors.

use super::{Dataset, Labels};

impl Dataset {
    /// The gold score of each pair of an STS dataset, in the order of [`Dataset::texts`]: first
    /// texts at even indices, second ones at odd indices. `None` for another task.
    pub fn gold(&self) -> Option<&[f64]> {
        match &self.labels {
            Labels::Sts(gold) => Some(gold),
            _ => None,
        }
    }
}
