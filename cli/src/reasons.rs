//! Why some of many texts failed, told once for all that failed alike.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::progress::Display;

/// Different reasons that are told.
const TOLD: usize = 3;

/// Reasons, each with the number of texts it holds for.
#[derive(Debug, Default)]
pub(crate) struct Reasons(BTreeMap<String, usize>);

impl Reasons {
    /// One text more; nothing without a reason.
    pub(crate) fn count(&mut self, reason: &str) {
        if !reason.is_empty() {
            *self.0.entry(reason.to_owned()).or_default() += 1;
        }
    }

    /// The most frequent first.
    fn ranked(&self) -> Vec<(&str, usize)> {
        let mut ranked: Vec<_> = self.0.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        ranked.sort_by_key(|(_, count)| Reverse(*count));
        ranked
    }

    /// The most frequent one.
    pub(crate) fn main(&self) -> &str {
        self.ranked().first().map_or("it gave no reason", |(reason, _)| reason)
    }

    /// The most frequent ones, a line each.
    pub(crate) fn tell(&self, display: &Display) {
        let ranked = self.ranked();
        for (reason, count) in ranked.iter().take(TOLD) {
            display.message(&format!("{count} of them: {reason}"));
        }
        if ranked.len() > TOLD {
            let rest = ranked.len() - TOLD;
            display.message(&format!("and {rest} other reasons: see the output"));
        }
    }
}
