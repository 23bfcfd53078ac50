//! Settings of separation, as specified by a suite or a request.

use serde::{Deserialize, Serialize};

use super::Kind;

/// Settings of separation. A missing setting is taken from the next source: request, suite,
/// default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Separation {
    /// Whether separation is not measured; default: no.
    pub off: Option<bool>,
    /// Kinds of changes of meaning; empty: [`Kind::DEFAULT`].
    pub kinds: Vec<Kind>,
    /// Maximum number of texts of each data set; default [`Separation::TEXTS`].
    pub texts: Option<u32>,
}

/// Resolved settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeparationSettings {
    /// Kinds of change: distinct, in a fixed order; at least one.
    pub(crate) kinds: Vec<Kind>,
    /// Maximum number of texts of each data set.
    pub(crate) texts: usize,
}

impl Separation {
    /// Default number of texts per data set: at most 800 changed copies, and about 300 in English
    /// data sets, to encode for each encoder and data set.
    pub const TEXTS: u32 = 200;

    /// These settings, overridden by another's.
    #[must_use]
    pub fn overlaid(mut self, over: &Self) -> Self {
        self.off = over.off.or(self.off);
        self.texts = over.texts.or(self.texts);
        if !over.kinds.is_empty() {
            self.kinds.clone_from(&over.kinds);
        }
        self
    }

    /// The settings with the defaults filled in; `None` if separation is not measured.
    pub(crate) fn settled(&self) -> Option<SeparationSettings> {
        if self.off == Some(true) {
            return None;
        }
        let mut kinds = self.kinds.clone();
        if kinds.is_empty() {
            kinds.extend(Kind::DEFAULT);
        }
        kinds.sort_unstable();
        kinds.dedup();
        Some(SeparationSettings {
            kinds,
            texts: self.texts.unwrap_or(Self::TEXTS) as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_on_unless_it_is_put_off_and_a_request_is_laid_over_the_suite() {
        let default = Separation::default().settled();
        assert_eq!(
            default.map(|one| (one.kinds, one.texts)),
            Some((Kind::DEFAULT.to_vec(), 200))
        );
        let suite = Separation {
            off: Some(true),
            kinds: vec![Kind::Number],
            texts: Some(7),
        };
        assert_eq!(suite.settled(), None);
        let on = Separation {
            off: Some(false),
            ..Separation::default()
        };
        let both = suite.overlaid(&on).settled();
        assert_eq!(both.map(|one| (one.kinds, one.texts)), Some((vec![Kind::Number], 7)));
    }
}
