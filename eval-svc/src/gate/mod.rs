//! The gate: rules that an encoder must satisfy.
//!
//! A suite's `[gate]` and a request's rules have the same form ([`Gate`], [`Rule`]). They are bound
//! to the run (`bind`) before anything is generated: unknown names are refused, with the nearest
//! known name. A look (`look`) decides every rule of every encoder on a grid of scores. The run
//! determines the number of looks and the share of the error probability that each may spend.
//!
//! **Unit of observation: the group of data sets.** Its members (the languages of a data set) and
//! their seeds are averaged first (as in [`crate::stats::gate`]). A data set that belongs to no
//! other forms its own group. A single group allows no statement about chance: a rule on it is
//! decided on points or stays undecided, with a note.
//!
//! **The meaning of the error.** For each rule and encoder, the probability that an encoder beyond
//! the limit passes, or that one within it fails, is at most `alpha`, if data sets are independent
//! draws and the basis' own condition holds (signed-rank: changes are symmetric around their shift;
//! Student: they are normal; bootstrap: there are many). An encoder passes only if every rule
//! passes, so an encoder that is beyond *some* limit also passes the gate with probability at most
//! `alpha`, however many rules there are (intersection-union). `margin` rules are Holm-adjusted
//! over all rules and encoders: the probability that *any* inferior encoder is called non-inferior
//! is at most `alpha`.
//!
//! **Sequential.** With `sequential` a run consists of rounds ([`crate::stats::gate::schedule`])
//! and stops as soon as every rule of every encoder is decided. A decision is never changed later.
//! Each look has a share of `alpha` fixed in advance (the value of the spending function at the
//! share of data sets x seeds so far, less the amount spent before). By the union bound, all
//! statements above therefore hold over all looks together, if a seed's random draws are
//! independent across data sets (where they cannot be, every round has all seeds). Data sets are
//! run in an order drawn from their names. Rules on points and bootstrap bounds cannot be decided
//! early: points say nothing about chance, and percentiles of 10,000 resamples do not reach the
//! small shares.
//!
//! **Bets.** With `sequential = "betting"` the rounds are over the items of one data set, in a
//! random order. Rules on scores are decided by [`crate::stats::gate::betting`], whose error
//! probability holds for any number of looks; bounds of separation use an equal share of `alpha`
//! for each look. The last look decides on all results so far, so a verdict always follows from the
//! numbers in the report.
//!
//! **Comparison with the baseline, item by item.** `max_negative_flips` and `min_overlap` have one
//! value for each item of the encoder and the baseline together, and bounds over items (`paired`).
//! A data set whose task has no such value is refused, because omitting it would let it pass
//! unchecked.
//!
//! **Invalid rules.** A rule neither passes nor fails on texts that were not rewritten, on scores
//! that are not numbers, or on a drop in percent of zero: it is *invalid*, and so is the gate if no
//! rule fails (`validity`). An invalid gate blocks, whatever the value of `undecided`. A rule that
//! its data can never decide is refused when it is bound.
//!
//! **Subsets of the rewrites.** A rule may be limited to changed or to accepted texts ([`Texts`]).
//! The original and the transformed texts are then scored on the same items: those all of whose
//! texts changed, or were accepted by a judge.
//!
//! **Forms.** A rule may be about one form of the encoders. Only encoders in a form that some rule
//! is about are judged; a rule says nothing of the others, and keeps none from passing.
//!
//! **Several encoders.** The probability of a false pass holds for each encoder separately. With
//! [`Adjust::Holm`] it holds for all together (`adjust`).
//!
//! Other encoders are compared with the baseline encoder. If there are others, rules apply only to
//! them.

mod adjust;
mod bets;
mod bind;
mod bound;
mod decide;
mod limits;
mod look;
mod observe;
mod paired;
mod sensitivity;
mod spec;
#[cfg(test)]
mod tests;
mod text;
mod validity;
mod worst;

pub(crate) use bets::{ItemSequences, Sequence, check_items};
pub(crate) use bind::{EncoderForm, RunSubjects, RunTransformation, bind};
pub(crate) use bound::{BoundGate, BoundRule, DatasetTask, Quantity};
pub(crate) use decide::{RatedRun, apply_ratings, look};
pub use limits::{Limits, LimitsMessage};
pub(crate) use look::{ItemStrata, Look, SubsetScores};
pub(crate) use sensitivity::{Separations, check_separation, check_texts};
pub(crate) use spec::spending;
pub use spec::{
    Adjust, AttemptPolicy, Basis, Gate, GateError, Measure, OnUndecided, Rule, RuleKind, RuleLimit, RuleLocation, Side,
    Texts, Unit, ValidityLimit, When, check_alpha,
};
pub(crate) use validity::{
    ChanceLevels, Cut, CutCounts, EncodingCounts, Facts, RatedCounts, RatingCounts, RewriteCounts, Rewrites,
};
