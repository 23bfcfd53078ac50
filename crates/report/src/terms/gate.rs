//! Choices of a gate that its report names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rewrites that a rule covers. An item counts where all its texts that were to be rewritten do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Texts {
    /// All of them.
    #[default]
    All,
    /// Those that differ from the original.
    Changed,
    /// Those that a judge rated at or above its threshold.
    Accepted,
}

impl Texts {
    pub const ALL: [Self; 3] = [Self::All, Self::Changed, Self::Accepted];

    /// As a suite spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Changed => "changed",
            Self::Accepted => "accepted",
        }
    }
}

/// Correction of the chance of error when several encoders are judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Adjust {
    /// It holds for each encoder by itself.
    #[default]
    None,
    /// Holm's steps over encoders: it is the chance that any encoder beyond a limit passes.
    Holm,
}

impl Adjust {
    pub const ALL: [Self; 2] = [Self::None, Self::Holm];

    /// As a suite spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Holm => "holm",
        }
    }
}

/// Quantity compared with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The estimate itself.
    Point,
    /// Bounds of the mean that hold whatever the law of the values, which lie in a known range.
    Bounded,
    /// Bounds of the Hodges-Lehmann shift, a pseudo-median, by the signed-rank test. A collapse on
    /// a minority hardly moves it.
    SignedRank,
    /// Bounds of the mean, by Student's t.
    Student,
    /// Percentile bootstrap bounds of the mean.
    Bootstrap,
    /// Studentised bootstrap bounds of the mean.
    StudentisedBootstrap,
    /// Clopper-Pearson bounds over texts: of `min_separation`, and of nothing else, so that no rule
    /// names it.
    ClopperPearson,
    /// Bets on items, one after the other: of rules with `sequential = "betting"`, so that no rule
    /// names it.
    Betting,
}

impl Basis {
    /// Every basis that a rule may name.
    pub const ALL: [Self; 6] = [
        Self::Point,
        Self::Bounded,
        Self::SignedRank,
        Self::Student,
        Self::Bootstrap,
        Self::StudentisedBootstrap,
    ];

    /// As a suite spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::Bounded => "bounded",
            Self::StudentisedBootstrap => "studentised-bootstrap",
            Self::SignedRank => "signed-rank",
            Self::Student => "student",
            Self::Bootstrap => "bootstrap",
            Self::ClopperPearson => "clopper-pearson",
            Self::Betting => "betting",
        }
    }
}

/// Unit of sampling, which a rule's chance of error refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// The items (pairs, queries, documents) of these data sets: what other items of the same data
    /// sets would give.
    Item,
    /// Groups of data sets: what other data sets would give.
    Group,
}

impl Unit {
    pub const ALL: [Self; 2] = [Self::Item, Self::Group];
    /// With fewer groups than this, a rule that names no unit counts items.
    pub const FEWEST_GROUPS: usize = 6;

    /// As a suite spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Group => "group",
        }
    }

    /// In words, e.g. `these data sets, other items`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Item => "these data sets, other items",
            Self::Group => "other data sets",
        }
    }
}

/// The note on a rule whose units are texts.
pub const COUNTS_TEXTS: &str = "n counts texts";

/// Handling of an undecided gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnUndecided {
    /// It blocks: `isomer check` ends with exit code 4.
    #[default]
    Block,
    /// It blocks nothing: exit code 0.
    Warn,
    /// It counts as failed: exit code 1.
    Fail,
}

impl OnUndecided {
    pub const ALL: [Self; 3] = [Self::Block, Self::Warn, Self::Fail];

    /// As a suite spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}
