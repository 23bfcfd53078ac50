//! When a rule says nothing: shares of texts that make it invalid.

use serde::{Deserialize, Serialize};

/// Shares of texts beyond which a rule is invalid, 0 to 1. What is absent is left to whoever is
/// asked next: rule, gate, default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Largest share of texts that stayed as they were.
    pub max_unchanged: Option<f64>,
    /// Largest share of rewrites in which one word differs.
    pub max_near_copies: Option<f64>,
    /// Largest share of texts that the encoder cut.
    pub max_cut: Option<f64>,
    /// Largest share of original texts whose vector is that of a text with other words.
    pub max_shared: Option<f64>,
    /// Least share of rated rewrites that a judge accepts.
    pub min_accepted: Option<f64>,
}

/// The same with the defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settled {
    pub max_unchanged: f64,
    pub max_near_copies: f64,
    pub max_cut: f64,
    pub max_shared: f64,
    pub min_accepted: f64,
}

impl Limits {
    /// As a suite and the command line spell them.
    pub const KEYS: [&str; 5] = [
        "max_unchanged",
        "max_near_copies",
        "max_cut",
        "max_shared",
        "min_accepted",
    ];
    /// Where none is named: a rewrite that did not happen says nothing about robustness.
    pub const MAX_UNCHANGED: f64 = isomer_report::terms::MAX_UNCHANGED;
    /// Where none is named: beyond a half, a typical rewrite changed one word.
    pub const MAX_NEAR_COPIES: f64 = 0.50;
    /// Where none is named: an encoder that cuts nearly every text is scored on their beginnings.
    pub const MAX_CUT: f64 = 0.90;
    /// Where none is named: an encoder that gives texts each other's vectors is broken, or does not
    /// know their script.
    pub const MAX_SHARED: f64 = 0.10;
    /// Where none is named: below a half, a typical rewrite does not keep the meaning.
    pub const MIN_ACCEPTED: f64 = 0.50;

    /// Each with its key.
    pub fn all(&self) -> [(&'static str, Option<f64>); 5] {
        let [unchanged, near_copies, cut, shared, accepted] = Self::KEYS;
        [
            (unchanged, self.max_unchanged),
            (near_copies, self.max_near_copies),
            (cut, self.max_cut),
            (shared, self.max_shared),
            (accepted, self.min_accepted),
        ]
    }

    /// Sets the share of a key; false where it is none of the keys.
    pub fn set(&mut self, key: &str, share: Option<f64>) -> bool {
        let place = match key {
            "max_unchanged" => &mut self.max_unchanged,
            "max_near_copies" => &mut self.max_near_copies,
            "max_cut" => &mut self.max_cut,
            "max_shared" => &mut self.max_shared,
            "min_accepted" => &mut self.min_accepted,
            _ => return false,
        };
        *place = share;
        true
    }

    /// These, and where one is absent the other's.
    #[must_use]
    pub fn or(self, general: Self) -> Self {
        Self {
            max_unchanged: self.max_unchanged.or(general.max_unchanged),
            max_near_copies: self.max_near_copies.or(general.max_near_copies),
            max_cut: self.max_cut.or(general.max_cut),
            max_shared: self.max_shared.or(general.max_shared),
            min_accepted: self.min_accepted.or(general.min_accepted),
        }
    }

    /// Whether every share can be meant.
    ///
    /// # Errors
    /// The key of the first that cannot, and what would be right.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        for (key, share) in self.all() {
            if let Some(share) = share {
                check_share(share).map_err(|message| (key, message))?;
            }
        }
        Ok(())
    }

    pub(crate) fn settled(self) -> Settled {
        Settled {
            max_unchanged: self.max_unchanged.unwrap_or(Self::MAX_UNCHANGED),
            max_near_copies: self.max_near_copies.unwrap_or(Self::MAX_NEAR_COPIES),
            max_cut: self.max_cut.unwrap_or(Self::MAX_CUT),
            max_shared: self.max_shared.unwrap_or(Self::MAX_SHARED),
            min_accepted: self.min_accepted.unwrap_or(Self::MIN_ACCEPTED),
        }
    }
}

/// Whether a share of texts can be meant.
///
/// # Errors
/// What would be right.
pub fn check_share(share: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&share) {
        Ok(())
    } else {
        Err(format!("is {share}, should be a share of the texts, 0 to 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_written_and_checked() {
        for key in Limits::KEYS {
            let mut limits = Limits::default();
            assert!(limits.set(key, Some(0.3)));
            let told: Vec<(&str, Option<f64>)> =
                limits.all().into_iter().filter(|(_, share)| share.is_some()).collect();
            assert_eq!(told, [(key, Some(0.3))]);
            assert_eq!(limits.check(), Ok(()));
            assert_eq!(limits.or(Limits::default()), limits);
            assert_eq!(Limits::default().or(limits), limits);
            assert!(limits.set(key, Some(1.3)));
            assert_eq!(limits.check().map_err(|(key, _)| key), Err(key));
        }
        assert!(!Limits::default().set("max_drop", None));
    }
}
