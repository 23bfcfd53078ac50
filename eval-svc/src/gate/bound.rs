//! A gate and its rules after they are bound to a run.

use super::{Adjust, Basis, Measure, OnUndecided, Rule, RuleLimit, Sequential, Side, Unit, limits::Settled};
use crate::{profile::Axis, separation::Kind};

/// A gate that has been checked against the run.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    /// The rules; at least one.
    pub rules: Vec<BoundRule>,
    /// Chance of error.
    pub alpha: f64,
    /// What an undecided gate means.
    pub undecided: OnUndecided,
    /// Whether the run has rounds, and how they share the chance of error.
    pub sequential: Sequential,
    /// How the chance of error is adjusted if several encoders are judged.
    pub adjust: Adjust,
    /// Positions of the encoders that are judged.
    pub judged: Vec<usize>,
    /// Position of the encoder that others are compared with.
    pub baseline: Option<usize>,
}

/// A rule that has been checked against the run.
#[derive(Debug, Clone)]
pub(crate) struct BoundRule {
    /// The rule as written.
    pub rule: Rule,
    /// Its name, or a description of the rule.
    pub title: String,
    /// What it looks at.
    pub quantity: Quantity,
    /// Positions of its data sets.
    pub datasets: Vec<usize>,
    /// Groups of these data sets, which are its units of observation.
    pub units: usize,
    /// The value that is compared with the limit.
    pub basis: Basis,
    /// The unit of observation.
    pub unit: Unit,
    /// Whether the unit is the default.
    pub unit_by_default: bool,
    /// When it is invalid.
    pub limits: Settled,
}

impl BoundRule {
    /// Whether it compares the original with the transformed texts (a drop) rather than limits a
    /// score.
    pub(crate) fn is_drop(&self) -> bool {
        self.rule.limit.measure() == Measure::Drop
    }

    /// Whether it compares scores with each other, so that a score at chance level says nothing.
    pub(crate) fn compares_scores(&self) -> bool {
        self.rule.limit.measure().compares_scores()
    }

    /// Whether it compares each data set, or group, with the limit separately.
    pub(crate) fn is_worst(&self) -> bool {
        self.rule.limit.kind.row().each_dataset
    }

    /// Whether it is decided by the test against the baseline, Holm-adjusted.
    pub(super) fn is_test(&self) -> bool {
        self.rule.limit.measure() == Measure::Difference && self.basis == Basis::SignedRank
    }
}

/// What a rule looks at.
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
