//! Shares of texts beyond which a rule is invalid.

use serde::{Deserialize, Serialize};

/// Shares of texts, 0 to 1, beyond which a rule is invalid. An absent share is taken from the next
/// source: rule, gate, default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Largest share of texts that stayed unchanged.
    pub max_unchanged: Option<f64>,
    /// Largest share of rewrites that differ in one word.
    pub max_near_copies: Option<f64>,
    /// Largest share of texts that the encoder cut.
    pub max_cut: Option<f64>,
    /// Largest share of original texts whose vector is that of a text with other words.
    pub max_shared: Option<f64>,
    /// Smallest share of rated rewrites that a judge accepts.
    pub min_accepted: Option<f64>,
}

/// The limits with the defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settled {
    pub max_unchanged: f64,
    pub max_near_copies: f64,
    pub max_cut: f64,
    pub max_shared: f64,
    pub min_accepted: f64,
}

impl Limits {
    /// The keys, as a suite and the command line spell them.
    pub const KEYS: [&str; 5] = [
        "max_unchanged",
        "max_near_copies",
        "max_cut",
        "max_shared",
        "min_accepted",
    ];
    /// Default: a text that was not rewritten says nothing about robustness.
    pub const MAX_UNCHANGED: f64 = isomer_report::terms::MAX_UNCHANGED;
    /// Default: beyond one half, a typical rewrite changed one word.
    pub const MAX_NEAR_COPIES: f64 = 0.50;
    /// Default: an encoder that cuts nearly every text is scored on the beginnings of the texts.
    pub const MAX_CUT: f64 = 0.90;
    /// Default: an encoder that gives texts each other's vectors is broken or does not support
    /// their script.
    pub const MAX_SHARED: f64 = 0.10;
    /// Default: below one half, a typical rewrite does not keep the meaning.
    pub const MIN_ACCEPTED: f64 = 0.50;

    /// The shares with their keys.
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

    /// Sets the share of a key; false if the key is unknown.
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

    /// These limits; absent ones are taken from the other.
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

    /// Checks that every share is valid.
    ///
    /// # Errors
    /// The key of the first invalid share, and what is accepted.
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

/// Checks that a share of texts is valid.
///
/// # Errors
/// What is accepted.
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
