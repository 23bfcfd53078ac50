//! What servers tell of their models, and for how long that is believed.

use std::{collections::HashMap, time::Duration};

use isomer_service_kit::Fault;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Foreign;
use crate::limits::{Deadline, within};

/// How long what a server says of its model is taken to hold: it may be started again with another.
const FRESH: Duration = Duration::from_secs(60);

/// What a server tells of a model. Empty, 0 and `None`: it does not say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// Which weights, as the server names them.
    pub(crate) revision: String,
    /// Arithmetic other than 32-bit floats.
    pub(crate) arithmetic: String,
    pub(crate) architecture: String,
    pub(crate) dimensions: u32,
    pub(crate) max_tokens: u32,
    pub(crate) max_items: u32,
    /// Whether it scores pairs instead of giving vectors.
    pub(crate) reranks: Option<bool>,
    /// Whether the server scales to unit length or not as it is asked, with unit length by default.
    pub(crate) normalises_as_asked: bool,
    /// Open Inference Protocol: the model's tensors.
    pub(crate) tensors: Option<crate::kinds::TensorNames>,
}

/// Facts by model, with the time of asking.
#[derive(Debug, Default)]
pub(super) struct KnownFacts(Mutex<HashMap<String, (Instant, Facts)>>);

impl KnownFacts {
    /// Those that are fresh. Of many who come when they are no longer, one is sent to ask and the
    /// others take them once more.
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
    /// What the server tells of a model, asked at most once a minute.
    pub(super) async fn facts(&self, model: &str, deadline: Deadline) -> Result<Facts, Fault> {
        let now = Instant::now();
        if let Some(facts) = self.facts.fresh(model, now) {
            return Ok(facts);
        }
        let asked = within(&self.id, self.timeout, deadline, self.protocol.facts(model)).await;
        let found = asked.as_ref().ok().map(|facts| (now, facts.clone()));
        // Nothing is believed of a server that does not answer.
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
        assert!(known.fresh("m", start + FRESH).is_none(), "one is sent to ask");
        assert!(known.fresh("m", start + FRESH).is_some(), "the others go on");
        known.put("m", None);
        assert!(known.fresh("m", start).is_none());
    }
}
