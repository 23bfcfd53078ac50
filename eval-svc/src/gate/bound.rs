//! A gate and its rules once they are bound to what a run has.

use super::{Adjust, Basis, OnUndecided, Rule, RuleLimit, Sequential, Unit, limits::Settled};
use crate::{profile::Axis, separation::Kind};

/// A gate that fits the run.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    /// At least one.
    pub rules: Vec<BoundRule>,
    /// Chance of error.
    pub alpha: f64,
    /// What an undecided gate means.
    pub undecided: OnUndecided,
    /// How the run goes.
    pub sequential: Sequential,
    /// What becomes of the chance of error where several encoders are judged.
    pub adjust: Adjust,
    /// Positions of the encoders that are judged.
    pub judged: Vec<usize>,
    /// Position of the encoder that others are compared with.
    pub baseline: Option<usize>,
}

/// A rule that fits the run.
#[derive(Debug, Clone)]
pub(crate) struct BoundRule {
    /// As written.
    pub rule: Rule,
    /// Name, or the rule in words.
    pub title: String,
    /// What it looks at.
    pub quantity: Quantity,
    /// Positions of its data sets.
    pub datasets: Vec<usize>,
    /// Groups of these data sets: what it counts.
    pub units: usize,
    /// What is held against the limit.
    pub basis: Basis,
    /// What counts as drawn.
    pub unit: Unit,
    /// Whether nobody named the unit.
    pub unit_by_default: bool,
    /// When it is invalid.
    pub limits: Settled,
}

impl BoundRule {
    /// Whether it counts the original against the transformed texts (a drop) or scores by
    /// themselves.
    pub(crate) fn is_drop(&self) -> bool {
        matches!(self.rule.limit, RuleLimit::MaxDrop(_) | RuleLimit::Worst(_))
    }

    /// Whether it holds each data set, or group, against the limit by itself.
    pub(crate) fn is_worst(&self) -> bool {
        matches!(self.rule.limit, RuleLimit::Worst(_))
    }

    /// Whether it is decided by the test against the baseline, Holm-adjusted.
    pub(super) fn is_test(&self) -> bool {
        matches!(self.rule.limit, RuleLimit::Margin(_)) && self.basis == Basis::SignedRank
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
    /// Separation: of one kind of change, or of all.
    Separation(Option<Kind>),
}

/// What a group's, or an item's, value is at best.
pub(super) fn best(limit: RuleLimit) -> f64 {
    match limit {
        RuleLimit::MinScore(_) => 100.0,
        RuleLimit::Margin(_) => 100.0,
        RuleLimit::MaxDrop(_) | RuleLimit::MaxDropPercent(_) | RuleLimit::MinSeparation(_) | RuleLimit::Worst(_) => 0.0,
    }
}
