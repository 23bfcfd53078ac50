//! A gate and its rules after they are bound to a run.

use isomer_proto::eval::v1::GateSequential;

use super::{Adjust, Basis, Measure, OnUndecided, Rule, RuleLimit, Side, Unit, limits::ResolvedLimits};
use crate::{profile::Axis, separation::Kind, task::TaskType};

/// Name and task of a data set, or of a group of data sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatasetTask {
    pub name: String,
    pub task: TaskType,
}

/// A gate that has been validated for the run.
#[derive(Debug, Clone)]
pub(crate) struct BoundGate {
    /// The rules; at least one.
    pub rules: Vec<BoundRule>,
    /// Error probability.
    pub alpha: f64,
    /// The effect of an undecided gate.
    pub undecided: OnUndecided,
    /// Whether the run has rounds, and how they share the error probability.
    pub sequential: GateSequential,
    /// How the error probability is adjusted for several encoders.
    pub adjust: Adjust,
    /// Positions of the encoders that are judged.
    pub judged: Vec<usize>,
    /// Position of the encoder that others are compared with.
    pub baseline: Option<usize>,
}

/// The bounds that decide a rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleBounds {
    pub basis: Basis,
    pub unit: Unit,
}

/// A rule that has been validated for the run.
#[derive(Debug, Clone)]
pub(crate) struct BoundRule {
    /// The rule as written.
    pub rule: Rule,
    /// The rule's name, or a description of the rule.
    pub title: String,
    /// The quantity that the rule limits.
    pub quantity: Quantity,
    /// Positions of the judged encoders to which the rule applies.
    pub encoders: Vec<usize>,
    /// Positions of the rule's data sets.
    pub datasets: Vec<usize>,
    /// Groups of these data sets, which are its units of observation.
    pub units: usize,
    /// The value that is compared with the limit.
    pub basis: Basis,
    /// The unit of observation.
    pub unit: Unit,
    pub unit_by_default: bool,
    /// The conditions under which the rule is invalid.
    pub limits: ResolvedLimits,
}

impl BoundRule {
    /// Whether it compares the original with the transformed texts (a drop), as opposed to limiting
    /// a score.
    pub(crate) fn is_drop(&self) -> bool {
        self.rule.limit.measure() == Measure::Drop
    }

    /// Whether it compares scores with each other, so that a score at chance level gives no
    /// information.
    pub(crate) fn compares_scores(&self) -> bool {
        self.rule.limit.measure().row().compares_scores
    }

    /// Whether it compares each data set, or group, with the limit separately.
    pub(crate) fn is_worst(&self) -> bool {
        self.rule.limit.kind.row().each_dataset
    }

    /// Whether it is decided by the Holm-adjusted test against the baseline.
    pub(super) fn is_test(&self) -> bool {
        self.rule.limit.measure() == Measure::Difference && self.basis == Basis::SignedRank
    }
}

/// The quantity that a rule limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Scores of the original texts.
    Original,
    /// Mean of the axes.
    Total,
    /// Mean of an axis' transformations.
    Axis(Axis),
    /// One transformation, by position.
    Transformation(usize),
    /// Separation of one kind of change, or of all.
    Separation(Option<Kind>),
}

/// The best possible value of a group or an item.
pub(super) fn best(limit: RuleLimit) -> f64 {
    match limit.kind.row().side {
        Side::AtMost => 0.0,
        Side::AtLeast | Side::AtLeastMinus => 100.0,
    }
}
