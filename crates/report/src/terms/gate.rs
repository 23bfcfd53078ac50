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

isomer_names::names!(Texts { All = "all", Changed = "changed", Accepted = "accepted" });

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

isomer_names::names!(Adjust { None = "none", Holm = "holm" });

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

isomer_names::names!(Basis {
    Point = "point", Bounded = "bounded", SignedRank = "signed-rank", Student = "student",
    Bootstrap = "bootstrap", StudentisedBootstrap = "studentised-bootstrap"
} ClopperPearson = "clopper-pearson", Betting = "betting");

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

isomer_names::names!(Unit { Item = "item", Group = "group" });

impl Unit {
    /// With fewer groups than this, a rule that names no unit counts items.
    pub const FEWEST_GROUPS: usize = 6;

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

isomer_names::names!(OnUndecided { Block = "block", Warn = "warn", Fail = "fail" });
