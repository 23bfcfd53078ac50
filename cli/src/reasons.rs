//! The reasons why some of many texts failed, reported once per reason.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::progress::Display;

/// Maximum number of distinct reasons that are reported.
const SHOWN: usize = 3;

/// Reasons, each with the number of texts that failed for it.
#[derive(Debug, Default)]
pub(crate) struct Reasons(BTreeMap<String, usize>);

impl Reasons {
    /// Counts one more text; an empty reason is ignored.
    pub(crate) fn count(&mut self, reason: &str) {
        if !reason.is_empty() {
            *self.0.entry(reason.to_owned()).or_default() += 1;
        }
    }

    /// Reasons, most frequent first.
    fn ranked(&self) -> Vec<(&str, usize)> {
        let mut ranked: Vec<_> = self.0.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        ranked.sort_by_key(|(_, count)| Reverse(*count));
        ranked
    }

    /// The most frequent reason.
    pub(crate) fn main(&self) -> &str {
        self.ranked().first().map_or("it gave no reason", |(reason, _)| reason)
    }

    /// Reports the most frequent reasons, one line each.
    pub(crate) fn show(&self, display: &Display) {
        let ranked = self.ranked();
        for (reason, count) in ranked.iter().take(SHOWN) {
            display.message(&format!("{count} of them: {reason}"));
        }
        if ranked.len() > SHOWN {
            let rest = ranked.len() - SHOWN;
            display.message(&format!("and {rest} other reasons: see the output"));
        }
    }
}
