//! A cache of facts that servers report about their models.

use std::{collections::HashMap, time::Duration};

use isomer_service_kit::Fault;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Foreign;
use crate::limits::{Deadline, within};

/// How long facts are valid. A server may be restarted with another model.
const FRESH: Duration = Duration::from_secs(60);

/// Facts that a server reports about a model. Empty, 0 and `None` mean unknown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The server's name for the revision of the weights.
    pub(crate) revision: String,
    /// Arithmetic other than 32-bit floats.
    pub(crate) arithmetic: String,
    pub(crate) architecture: String,
    pub(crate) dimensions: u32,
    pub(crate) max_tokens: u32,
    pub(crate) max_items: u32,
    /// Whether the model scores pairs instead of returning vectors.
    pub(crate) reranks: Option<bool>,
    /// Whether the model gives sparse vectors, and no dense ones.
    pub(crate) sparse: Option<bool>,
    /// Whether the request decides if the server scales vectors to unit length; unit length is the
    /// default.
    pub(crate) normalises_as_asked: bool,
    /// Open Inference Protocol: the model's tensors.
    pub(crate) tensors: Option<TensorNames>,
}

/// Tensors of a model behind the Open Inference Protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorNames {
    pub(crate) input: String,
    pub(crate) input_rank: usize,
    pub(crate) output: String,
    /// Columns; 0 if the model does not report the number.
    pub(crate) dimensions: u32,
    /// Maximum number of texts at once; 0: any number.
    pub(crate) most: u32,
}

/// Facts by model, with the time at which they were read.
#[derive(Debug, Default)]
pub(super) struct KnownFacts(Mutex<HashMap<String, (Instant, Facts)>>);

impl KnownFacts {
    /// Returns the cached facts if fresh. When they expire, one caller refreshes them, and
    /// concurrent callers get the old facts once more.
    fn fresh(&self, model: &str, now: Instant) -> Option<Facts> {
        let mut kept = self.0.lock();
        let (asked, facts) = kept.get_mut(model)?;
        if now.saturating_duration_since(*asked) < FRESH {
            return Some(facts.clone());
        }
        *asked = now;
        None
    }

    fn put(&self, model: &str, found: Option<(Instant, Facts)>) {
        let mut kept = self.0.lock();
        match found {
            Some(found) => kept.insert(model.to_owned(), found),
            None => kept.remove(model),
        };
    }
}

impl Foreign {
    /// The server's facts about a model, read at most once a minute.
    pub(super) async fn facts(&self, model: &str, deadline: Deadline) -> Result<Facts, Fault> {
        let now = Instant::now();
        if let Some(facts) = self.facts.fresh(model, now) {
            return Ok(facts);
        }
        let asked = within(&self.id, self.timeout, deadline, self.protocol.facts(model)).await;
        let found = asked.as_ref().ok().map(|facts| (now, facts.clone()));
        // Nothing is cached for a server that does not answer.
        self.facts.put(model, found);
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_fresh_for_a_minute_and_then_one_asks_again() {
        let known = KnownFacts::default();
        let start = Instant::now();
        assert!(known.fresh("m", start).is_none());
        known.put("m", Some((start, Facts::default())));
        assert!(known.fresh("m", start + FRESH / 2).is_some());
        assert!(known.fresh("m", start + FRESH).is_none(), "one caller refreshes");
        assert!(
            known.fresh("m", start + FRESH).is_some(),
            "the others use the old facts"
        );
        known.put("m", None);
        assert!(known.fresh("m", start).is_none());
    }
}
