//! The decision of a gate, on numbers alone: rules on points or on confidence bounds,
//! non-inferiority to a baseline, and sequential checks that stop as early as possible.
//!
//! * [`rule`]: one limit tested against observations: pass, fail, or undecided with the
//!   requirements for a decision.
//! * [`bounded`]: bounds of a mean that hold for every distribution within a known range.
//!   [`studentised`]: the bootstrap-t.
//! * [`items`]: a rule on the items within fixed data sets. [`worst`]: a rule on the worst data
//!   set.
//! * [`candidates`]: one rule for many encoders.
//! * [`design`]: the decisions to expect of a number of items, and their division among data sets.
//! * [`non_inferiority`]: paired, one-sided, Holm over the rules.
//! * [`betting`]: an anytime-valid test of the mean of bounded items, one item at a time.
//! * [`spending`]: looks at growing data, each with its share of the probability of error.
//! * [`releases`]: successive releases, with one probability of error over all of them.
//! * [`schedule`]: the looks of a run over data sets and seeds.

pub mod betting;
pub mod bounded;
pub mod candidates;
pub mod design;
pub mod items;
pub mod non_inferiority;
pub mod note;
pub mod releases;
pub mod rule;
pub mod schedule;
pub mod spending;
pub mod studentised;
pub mod worst;

/// The verdict of a rule or a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The limit is kept.
    Pass,
    /// The interval contains the limit, so the data allow neither verdict.
    Undecided,
    /// The limit is broken.
    Fail,
}

impl Verdict {
    /// The verdict of a gate: fail if one rule fails, pass if all pass, undecided otherwise. A gate
    /// passes only if every rule passes. So the probability that a gate passes although some rule's
    /// limit is broken is no larger than that rule's own (an intersection–union test, R. L. Berger
    /// 1982). No correction for the number of rules is therefore needed. `None` without rules.
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Option<Self> {
        verdicts.into_iter().max()
    }
}

/// The permitted side of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The quantity must be at least the limit (a floor; a difference of at least −2 points).
    AtLeast,
    /// The quantity must be at most the limit.
    AtMost,
}

/// A limit on a quantity.
///
/// If `fail_at` is within the limit, the verdict of bounds is the three-way test of equivalence (J.
/// J. Goeman, A. Solari and T. Stijnen, "Three-sided hypothesis testing: simultaneous testing of
/// superiority, equivalence and inferiority", Statistics in Medicine 29, 2010). With one-sided
/// bounds at 1 − alpha, a quantity beyond `value` passes, and one that keeps `fail_at` fails, each
/// with a probability of at most alpha. A quantity between the two has no error: it may pass, fail
/// or stay undecided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Its value, in the quantity's unit.
    pub value: f64,
    /// The value beyond which a quantity fails: that of the limit, or one within it.
    pub fail_at: f64,
    /// The permitted side.
    pub side: Side,
}

impl Limit {
    /// At least `value`.
    pub fn at_least(value: f64) -> Self {
        Self {
            value,
            fail_at: value,
            side: Side::AtLeast,
        }
    }

    /// At most `value`.
    pub fn at_most(value: f64) -> Self {
        Self {
            value,
            fail_at: value,
            side: Side::AtMost,
        }
    }

    /// Whether a known quantity keeps the limit.
    pub fn keeps(&self, quantity: f64) -> bool {
        match self.side {
            Side::AtLeast => quantity >= self.value,
            Side::AtMost => quantity <= self.value,
        }
    }

    /// Verdict of bounds: fail if both are beyond `fail_at`, else pass if both keep the limit.
    pub fn verdict(&self, low: f64, high: f64) -> Verdict {
        let end = Self {
            value: self.fail_at,
            ..*self
        };
        if !end.keeps(low) && !end.keeps(high) {
            Verdict::Fail
        } else if self.keeps(low) && self.keeps(high) {
            Verdict::Pass
        } else {
            Verdict::Undecided
        }
    }
}
