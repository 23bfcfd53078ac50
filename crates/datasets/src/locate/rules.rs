//! Decides which data sets may be fetched from the hub, and within which limits.

use isomer_models::hub::Terms;
use serde::{Deserialize, Serialize};

/// Data sets that a request may have fetched from the Hugging Face hub (`eval.hub`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HubAccess {
    /// None. Data sets on this machine are still found.
    Off,
    /// Those of the catalogue (`isomer datasets`).
    #[default]
    Catalogue,
    /// Any that the caller names.
    Any,
}

/// Maximum bytes of one file of a data set that another party named, if no configuration sets it.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// The rules of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubRules {
    /// The data sets that may be fetched.
    pub access: HubAccess,
    /// Whether callers are the owner of this process (the command line). If so, the data sets that
    /// they name are fetched with its token and without a bound on their size.
    pub owner: bool,
    /// Maximum size in bytes of one file of a data set that another party named.
    pub max_file_bytes: u64,
}

impl HubRules {
    /// The rules for the owner of this process.
    pub fn owner() -> Self {
        Self {
            access: HubAccess::Any,
            owner: true,
            max_file_bytes: u64::MAX,
        }
    }

    /// The limits for fetching a data set that a caller named.
    ///
    /// # Errors
    /// The reason why it may not be fetched, and the remedy.
    pub(super) fn named(self) -> Result<Terms, &'static str> {
        match self.access {
            HubAccess::Any => Ok(Terms {
                anonymous: !self.owner,
                max_file_bytes: (!self.owner).then_some(self.max_file_bytes),
            }),
            HubAccess::Catalogue => Err(
                "this service fetches only data sets of its catalogue from the hub; name one of those (ListDatasets), send the rows \
                 inline, or let the operator set eval.hub = \"any\"",
            ),
            HubAccess::Off => Err(OFF),
        }
    }

    /// The limits for fetching a data set of the catalogue.
    ///
    /// # Errors
    /// The reason why it may not be fetched, and the remedy.
    pub(super) fn catalogued(self) -> Result<Terms, &'static str> {
        match self.access {
            HubAccess::Off => Err(OFF),
            HubAccess::Catalogue | HubAccess::Any => Ok(Terms::default()),
        }
    }
}

impl Default for HubRules {
    fn default() -> Self {
        Self {
            access: HubAccess::default(),
            owner: false,
            max_file_bytes: MAX_FILE_BYTES,
        }
    }
}

const OFF: &str = "this service fetches nothing from the hub; send the rows inline, or let the operator put the files into a data \
                   folder or set eval.hub = \"catalogue\"";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_strangers_choice_is_refused_by_default_and_never_gets_the_token() {
        let rules = HubRules::default();
        assert!(rules.named().unwrap_err().contains("eval.hub"));
        assert!(rules.catalogued().is_ok());
        let any = HubRules {
            access: HubAccess::Any,
            ..rules
        };
        let terms = any.named().unwrap();
        assert!(terms.anonymous && terms.max_file_bytes.is_some());
        let off = HubRules {
            access: HubAccess::Off,
            ..rules
        };
        assert!(off.named().is_err() && off.catalogued().is_err());
    }

    #[test]
    fn the_owner_fetches_anything_with_the_token() {
        let terms = HubRules::owner().named().unwrap();
        assert!(!terms.anonymous && terms.max_file_bytes.is_none());
    }
}
