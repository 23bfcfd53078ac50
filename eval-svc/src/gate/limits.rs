//! Shares of texts, and the number of items, beyond which a rule is invalid.

use std::collections::BTreeMap;

use isomer_config::spelling::suggest;
use isomer_proto::eval::v1 as proto;
use isomer_report::terms::ValidityLimit;
use serde::{Deserialize, Serialize};

/// The shares set by a gate or a rule. A missing share is taken from the next source: rule, gate,
/// default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "LimitRecord", into = "LimitRecord")]
pub struct Limits([Option<f64>; ValidityLimit::ALL.len()]);

/// The form of the limits in the record of a run.
type LimitRecord = BTreeMap<String, Option<f64>>;

/// The limits of a rule, with defaults for those that are not set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ResolvedLimits(Limits);

impl From<LimitRecord> for Limits {
    fn from(named: LimitRecord) -> Self {
        let mut limits = Self::default();
        for (name, share) in named {
            if let Some(limit) = ValidityLimit::named(&name) {
                limits.set(limit, share);
            }
        }
        limits
    }
}

impl From<Limits> for LimitRecord {
    fn from(limits: Limits) -> Self {
        let given = limits.given();
        given
            .map(|(limit, share)| (limit.name().to_owned(), Some(share)))
            .collect()
    }
}

impl Limits {
    /// A share, if it is set.
    pub fn get(self, limit: ValidityLimit) -> Option<f64> {
        self.0[limit as usize]
    }

    /// Sets a share; `None` takes it from the next source.
    pub fn set(&mut self, limit: ValidityLimit, share: Option<f64>) {
        self.0[limit as usize] = share;
    }

    /// The shares that are set.
    pub fn given(self) -> impl Iterator<Item = (ValidityLimit, f64)> {
        ValidityLimit::ALL
            .into_iter()
            .filter_map(move |limit| Some((limit, self.get(limit)?)))
    }

    /// These limits; missing ones are taken from `general`.
    #[must_use]
    pub fn or(self, general: Self) -> Self {
        let mut limits = general;
        for (limit, share) in self.given() {
            limits.set(limit, Some(share));
        }
        limits
    }

    /// Checks that every value is valid.
    ///
    /// # Errors
    /// The key of the first invalid value, and the accepted ones.
    pub fn check(self) -> Result<(), (&'static str, String)> {
        for (limit, share) in self.given() {
            limit.check(share).map_err(|message| (limit.name(), message))?;
        }
        Ok(())
    }

    pub(crate) fn settled(self) -> ResolvedLimits {
        ResolvedLimits(self)
    }
}

impl ResolvedLimits {
    /// The share of a limit.
    pub(crate) fn of(self, limit: ValidityLimit) -> f64 {
        self.0.get(limit).unwrap_or(limit.default_share())
    }

    /// The limits for an encoder whose service does not report its settings: unless a limit is set,
    /// no two texts may have one vector.
    pub(crate) fn of_provider(self) -> Self {
        let mut strict = Limits::default();
        strict.set(ValidityLimit::MaxShared, Some(0.0));
        Self(self.0.or(strict))
    }
}

/// A message with limits: the first five have separate fields, and `validity` contains the others.
pub trait LimitsMessage {
    /// Limits that older servers know, each with its field.
    fn fields(&mut self) -> [(ValidityLimit, &mut Option<f64>); 5];

    /// The shares of all other limits, by name.
    fn map(&mut self) -> &mut std::collections::HashMap<String, f64>;

    /// Writes limits. A limit with a separate field is written to that field, because older servers
    /// read it there.
    fn write_limits(&mut self, limits: Limits) {
        let mut rest: LimitRecord = limits.into();
        for (limit, field) in self.fields() {
            rest.remove(limit.name());
            *field = limits.get(limit);
        }
        let rest = rest.into_iter().filter_map(|(name, share)| Some((name, share?)));
        *self.map() = rest.collect();
    }

    /// Reads and checks limits.
    ///
    /// # Errors
    /// The key of the first unknown name or invalid share, and the accepted values.
    fn read_limits(&mut self) -> Result<Limits, (String, String)> {
        let mut limits = Limits::default();
        for (limit, field) in self.fields() {
            limits.set(limit, *field);
        }
        let named: BTreeMap<String, f64> = self.map().drain().collect();
        for (name, share) in named {
            let wrong = |message: String| (format!("validity[{name}]"), message);
            let Some(limit) = ValidityLimit::named(&name) else {
                let known = ValidityLimit::ALL.map(ValidityLimit::name);
                return Err(wrong(format!("unknown limit; {}", suggest(&name, &known))));
            };
            if limits.get(limit).is_some() {
                return Err(wrong(format!("`{name}` is given twice")));
            }
            limits.set(limit, Some(share));
        }
        limits.check().map_err(|(key, message)| (key.to_owned(), message))?;
        Ok(limits)
    }
}

macro_rules! limits_message {
    ($message:ty) => {
        impl LimitsMessage for $message {
            fn fields(&mut self) -> [(ValidityLimit, &mut Option<f64>); 5] {
                [
                    (ValidityLimit::MaxUnchanged, &mut self.max_unchanged),
                    (ValidityLimit::MaxNearCopies, &mut self.max_near_copies),
                    (ValidityLimit::MaxCut, &mut self.max_cut),
                    (ValidityLimit::MaxShared, &mut self.max_shared),
                    (ValidityLimit::MinAccepted, &mut self.min_accepted),
                ]
            }

            fn map(&mut self) -> &mut std::collections::HashMap<String, f64> {
                &mut self.validity
            }
        }
    };
}

limits_message!(proto::Gate);
limits_message!(proto::GateRule);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn only(limit: ValidityLimit, share: f64) -> Limits {
        let mut limits = Limits::default();
        limits.set(limit, Some(share));
        limits
    }

    #[test]
    fn every_limit_is_read_written_and_checked() {
        for limit in ValidityLimit::ALL {
            let value = if limit.is_count() { 30.0 } else { 0.3 };
            let limits = only(limit, value);
            assert_eq!(limits.given().collect::<Vec<_>>(), [(limit, value)]);
            assert_eq!(limits.check(), Ok(()));
            assert_eq!(limits.or(Limits::default()), limits);
            assert_eq!(Limits::default().or(limits), limits);
            assert_eq!(only(limit, 1.3).check().unwrap_err().0, limit.name());
            let stored = serde_json::to_string(&limits).unwrap();
            assert_eq!(serde_json::from_str::<Limits>(&stored).unwrap(), limits);
            let mut message = proto::GateRule::default();
            message.write_limits(limits);
            assert_eq!(message.read_limits(), Ok(limits));
        }
    }

    #[test]
    fn a_record_of_a_version_with_fewer_limits_is_read() {
        let stored =
            r#"{"max_unchanged":0.2,"max_near_copies":null,"max_cut":null,"max_shared":null,"min_accepted":null}"#;
        let limits: Limits = serde_json::from_str(stored).unwrap();
        assert_eq!(limits, only(ValidityLimit::MaxUnchanged, 0.2));
    }

    #[test]
    fn a_message_is_refused_by_key() {
        let refused = |name: &str, share: f64| {
            let mut message = proto::Gate {
                max_cut: Some(0.5),
                ..proto::Gate::default()
            };
            message.validity.insert(name.to_owned(), share);
            message.read_limits().unwrap_err()
        };
        let (key, message) = refused("max_gaurded", 0.1);
        assert_eq!(key, "validity[max_gaurded]");
        assert!(message.contains("`max_guarded`"), "{message}");
        let (key, message) = refused("max_cut", 0.1);
        assert_eq!(key, "validity[max_cut]");
        assert!(message.contains("given twice"), "{message}");
        assert_eq!(refused("max_guarded", 1.1).0, "max_guarded");
    }
}
