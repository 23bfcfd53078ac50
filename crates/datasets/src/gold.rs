//! Gold scores, for those who compare something other than vectors with them.

use super::{Dataset, Labels};

impl Dataset {
    /// The gold score of each pair of an STS dataset, whose texts [`Dataset::texts`] are: first
    /// texts at even places, second ones at odd places. `None` for another task.
    pub fn gold(&self) -> Option<&[f64]> {
        match &self.labels {
            Labels::Sts(gold) => Some(gold),
            _ => None,
        }
    }
}
