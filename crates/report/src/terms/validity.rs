//! Limits on shares of texts, and on the number of items, beyond which a rule of the gate is
//! invalid.
//!
//! All limits are declared here. Suites, the protocol's `validity` maps, the command line's flags,
//! reports and errors read this list.

use crate::format::{percent, percent_beside};

/// A share of texts or a number of items beyond which a rule is invalid. [`ValidityLimit::ALL`] is
/// in the order in which they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValidityLimit {
    /// Texts with a vector of length 0.
    MaxZero,
    /// Original texts with the vector of another text.
    MaxShared,
    /// Test rows or queries of a data set that leaked into the training rows or the corpus.
    MaxLeak,
    /// Items of a data set whose score can differ. This limit is a number, not a share.
    MinItems,
    /// Data sets of a rule on a drop or a margin whose original score is at chance level.
    MaxAtChance,
    /// Texts that stayed unchanged.
    MaxUnchanged,
    /// Rewrites that are nearly the original.
    MaxNearCopies,
    /// Rewrites that are also a rewrite of another original.
    MaxSameRewrites,
    /// Rewrites with an alarm of a meaning guard.
    MaxGuarded,
    /// Rated rewrites that a judge accepts.
    MinAccepted,
    /// Texts that the encoder truncated.
    MaxCut,
}

/// The declaration of a limit.
struct Row {
    default: f64,
    /// The condition in words, after "A rule is invalid if".
    help: &'static str,
    /// The reason why a rule is invalid; `{share}` and `{limit}` are replaced by both numbers.
    reason: &'static str,
}

// The name of a limit is its spelling in a suite.
isomer_names::names!(ValidityLimit {
    MaxZero = "max_zero", MaxShared = "max_shared", MaxLeak = "max_leak", MinItems = "min_items", MaxAtChance = "max_at_chance",
    MaxUnchanged = "max_unchanged", MaxNearCopies = "max_near_copies", MaxSameRewrites = "max_same_rewrites",
    MaxGuarded = "max_guarded", MinAccepted = "min_accepted", MaxCut = "max_cut"
});

impl ValidityLimit {
    const fn row(self) -> Row {
        match self {
            Self::MaxZero => Row {
                default: 0.0,
                help: "a larger share of its texts have a vector of length 0; texts without a letter or digit do not count",
                reason: "{share} of the texts it looks at have a vector of length 0 ({limit}): the encoder knows none of their words or \
                         failed without an error, or a stored form keeps nothing of them",
            },
            Self::MaxShared => Row {
                default: 0.10,
                help: "a larger share of its original texts have the vector of another text",
                reason: "{share} of the original texts it looks at have the vector of a text with other words ({limit}): the encoder mixes \
                         up its answers or does not read these texts, or a stored form is too coarse for them",
            },
            Self::MaxLeak => Row {
                default: 0.05,
                help: "in one of its data sets, a larger share of the test rows are train rows too, or of the queries are documents of the corpus",
                reason: "in one of its data sets, {share} of the test rows are train rows too, or of the queries are documents of the corpus \
                         ({limit}): its score is partly memory; remove these rows, or allow them in the suite and say why",
            },
            Self::MinItems => Row {
                default: 10.0,
                help: "one of its data sets has fewer items whose score can differ; a query for which every document is relevant does not count",
                reason: "one of its data sets has {share} items whose score can differ ({limit}), which are too few: add items, or leave the \
                         data set out of the rule",
            },
            Self::MaxAtChance => Row {
                default: 0.0,
                help: "the original scores of a larger share of its data sets are at chance level (permutation test); for drops and margins",
                reason: "the original scores of {share} of its data sets are at chance level ({limit}), and such a score cannot fall",
            },
            Self::MaxUnchanged => Row {
                default: 0.10,
                help: "a larger share of its texts stayed unchanged",
                reason: "{share} of the texts it looks at stayed as they were ({limit}): its scores say nothing about robustness; use a \
                         stronger generator",
            },
            Self::MaxNearCopies => Row {
                default: 0.50,
                help: "a larger share of its rewrites are near copies: at most 15 % of the words differ, or the rewrite contains the original",
                reason: "{share} of the rewrites it looks at are near copies of the original ({limit}): its scores say nothing about \
                         robustness; use a stronger generator",
            },
            Self::MaxSameRewrites => Row {
                default: 0.02,
                help: "a larger share of its texts have the rewrite of a text with other words",
                reason: "{share} of the texts it looks at have the same rewrite as a text with other words ({limit}): the generator refuses, \
                         or answers something else; look at the examples, and use a stronger generator",
            },
            Self::MaxGuarded => Row {
                default: 0.30,
                help: "a meaning guard fired on a larger share of its texts",
                reason: "a meaning guard (numbers, negations, names) fired on {share} of the texts it looks at ({limit}): the rewrites change \
                         the meaning; use a stronger generator, or `guards = \"retry\"`",
            },
            Self::MinAccepted => Row {
                default: 0.50,
                help: "the judge accepts a smaller share of its rated rewrites",
                reason: "invalid rewrites: the judge accepts {share} of those that it rated ({limit}), so the scores say more about the \
                         generator than about robustness; use a stronger generator",
            },
            Self::MaxCut => Row {
                default: 0.90,
                help: "its encoder cut a larger share of its texts",
                reason: "the encoder cut {share} of the texts it looks at ({limit}): its scores speak of their beginnings; use an encoder \
                         that reads longer texts, or shorter ones",
            },
        }
    }

    /// Whether the limit is a number of items rather than a share.
    pub const fn is_count(self) -> bool {
        matches!(self, Self::MinItems)
    }

    /// Checks that a value is valid for this limit.
    ///
    /// # Errors
    /// The accepted values.
    pub fn check(self, value: f64) -> Result<(), String> {
        match self.is_count() {
            true if value >= 1.0 && value.fract() == 0.0 => Ok(()),
            true => Err(format!("is {value}, should be a number of items, 1 or more")),
            false if (0.0..=1.0).contains(&value) => Ok(()),
            false => Err(format!("is {value}, should be a share of the texts, 0 to 1")),
        }
    }

    /// The default, if neither rule nor gate sets one.
    pub const fn default_share(self) -> f64 {
        self.row().default
    }

    /// The condition under which a rule is invalid, after "A rule is invalid if".
    pub const fn help(self) -> &'static str {
        self.row().help
    }

    /// Whether a smaller share is better.
    pub const fn is_maximum(self) -> bool {
        !matches!(self, Self::MinAccepted | Self::MinItems)
    }

    /// The worse of two shares.
    pub fn worse(self, one: f64, other: f64) -> f64 {
        if self.is_maximum() {
            one.max(other)
        } else {
            one.min(other)
        }
    }

    /// The reason if a share is beyond its limit.
    pub fn broken(self, share: f64, limit_share: f64) -> Option<String> {
        // The rounding error of a mean of shares does not violate a limit.
        let beyond = if self.is_maximum() {
            share - limit_share
        } else {
            limit_share - share
        };
        (beyond > 1e-9).then(|| {
            let (share, limit_text) = if self.is_count() {
                (share.to_string(), limit_share.to_string())
            } else {
                (percent_beside(share, limit_share), percent(limit_share))
            };
            let limit = format!("{} is {limit_text}", self.name());
            let reason = self.row().reason.replace("{share}", &share);
            reason.replace("{limit}", &limit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_reasons_name_both_numbers() {
        for limit in ValidityLimit::ALL {
            assert_eq!(ValidityLimit::named(limit.name()), Some(limit));
            assert_eq!(limit.broken(0.3, 0.3), None);
            if limit.is_count() {
                continue;
            }
            let (better, worse) = if limit.is_maximum() { (0.29, 0.41) } else { (0.31, 0.19) };
            assert_eq!(limit.broken(better, 0.3), None);
            assert_eq!(limit.worse(better, worse), worse);
            let reason = limit.broken(worse, 0.3).unwrap_or_default();
            assert!(reason.contains(&format!("{} is 30 %", limit.name())), "{reason}");
            assert!(reason.contains(&percent(worse)), "{reason}");
        }
        assert_eq!(ValidityLimit::named("max_drop"), None);
    }

    #[test]
    fn a_number_of_items_is_whole_and_named_beside_its_limit() {
        let limit = ValidityLimit::MinItems;
        let reason = limit.broken(9.0, 10.0).unwrap_or_default();
        assert!(
            reason.contains("has 9 items") && reason.contains("min_items is 10"),
            "{reason}"
        );
        assert_eq!(limit.broken(10.0, 10.0), None);
        for (value, valid) in [
            (1.0, true),
            (200.0, true),
            (0.0, false),
            (2.5, false),
            (f64::NAN, false),
        ] {
            assert_eq!(limit.check(value).is_ok(), valid, "{value}");
        }
        assert!(ValidityLimit::MaxLeak.check(2.0).is_err());
    }

    #[test]
    fn a_share_and_its_limit_never_read_the_same() {
        let reason = |share| ValidityLimit::MaxUnchanged.broken(share, 0.1).unwrap_or_default();
        assert!(reason(0.1014).starts_with("10.1 % of"), "{}", reason(0.1014));
        assert!(reason(0.10004).starts_with("10.004 % of"), "{}", reason(0.10004));
        assert!(reason(0.14).starts_with("14 % of"), "{}", reason(0.14));
    }
}
