//! The gate: rules that an encoder keeps or breaks.
//!
//! A suite's `[gate]` and a request's rules are one vocabulary ([`Gate`], [`Rule`]). Before
//! anything is generated they are bound to what the run has (`bind`): names that it does not have
//! are refused with the nearest that it does. A look (`look`) holds every rule of every encoder
//! against a grid of scores; how many looks there are, and what share of the chance of error each
//! may spend, is the run's affair.
//!
//! **Unit of observation: the group of data sets**, its members (the languages of a data set) and
//! their seeds averaged first (how [`crate::stats::gate`] counts). A data set that belongs with no
//! other is a group of its own. One group allows no statement on chance: a rule about it is decided
//! on points or stays undecided, and says so.
//!
//! **What the error means.** For each rule and encoder, an encoder beyond the limit passes, and one
//! within it fails, with a chance of at most `alpha`, if data sets are independent draws and the
//! basis' own condition holds (signed-rank: changes lie symmetrically around their shift; Student:
//! they are normal; bootstrap: there are many). Passing takes every rule, so an encoder that is
//! beyond *some* limit passes the gate with a chance of at most `alpha` too, however many rules
//! there are (intersection-union). `margin` rules are Holm-adjusted over all rules and encoders:
//! the chance that *any* inferior encoder is called non-inferior is at most `alpha`.
//!
//! **Sequential.** With `sequential` a run goes in rounds ([`crate::stats::gate::schedule`]) and
//! stops as soon as every rule of every encoder is decided. A decision stays as it was made. Each
//! look has a share of `alpha` laid down beforehand (what the spending function gives the share of
//! data sets x seeds that are in, less what was spent before), so by the union bound all of the
//! above holds over all looks together, as long as a seed's luck is another one on each data set
//! (where it cannot be, every round has all seeds). Data sets come in an order drawn from their
//! names. Points and bootstrap bounds cannot be looked at early: points say nothing about chance,
//! and percentiles of 10,000 resamples do not reach the small shares.
//!
//! **Bets.** With `sequential = "betting"` the rounds are over the items of one data set, in a
//! random order. Rules on scores are decided by [`crate::stats::gate::betting`], which holds its
//! error whenever one looks; separation has its bounds at an equal share of `alpha` for each look.
//! The last look decides with everything that is in, so that a verdict never rests on other numbers
//! than the report's.
//!
//! **What may never pass.** A rule neither passes nor fails on texts that were not rewritten, on
//! scores that are not numbers, or on a drop in percent of nothing: it is *invalid*, and so is the
//! gate where no rule fails (`validity`). Invalid blocks, whatever `undecided` says. A rule that
//! its data can never decide is refused when it is bound.
//!
//! **Some of the rewrites.** A rule may look at changed or at accepted texts only ([`Texts`]): the
//! original and what was made of it are then scored on the same items, those all of whose texts
//! changed, or were accepted by a judge.
//!
//! **Several encoders.** The chance of a false pass holds for each encoder by itself. With
//! [`Adjust::Holm`] it holds for all together (`adjust`).
//!
//! The baseline encoder is what others are compared with: where there are others, rules judge only
//! them.

mod adjust;
mod bets;
mod bind;
mod bound;
mod decide;
mod limits;
mod observe;
mod sensitivity;
mod spec;
#[cfg(test)]
mod tests;
mod validity;
mod worst;

pub(crate) use bets::{ItemSequences, Sequence, check_items};
pub(crate) use bind::{Named, Scene, bind};
pub(crate) use bound::{Bound, BoundRule, Quantity};
pub(crate) use decide::{Look, apply_ratings, look};
pub use limits::{Limits, check_share};
pub(crate) use observe::SubsetScores;
pub(crate) use sensitivity::{Separations, check_separation, check_texts};
pub use spec::{
    Adjust, Basis, Gate, GateError, OnUndecided, Place, Rule, RuleLimit, Sequential, Texts, Unit, check_alpha,
};
pub(crate) use validity::{Cut, CutCounts, Facts, Rated, RatedCounts, RewriteCounts, Rewrites};
pub(crate) use worst::ItemStrata;
