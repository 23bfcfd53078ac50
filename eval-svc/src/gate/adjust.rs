//! Holm's steps over encoders: of candidates that are all beyond a limit, some one passes with a
//! chance of at most alpha.
//!
//! Without them, each encoder has its own chance of a false pass, and whoever releases the best of
//! many candidates has that chance many times. An encoder passes a level where every rule of it
//! does. Rules on a margin are adjusted over all encoders by their own test and stay as they are,
//! and points know no level. What fails is not adjusted: an encoder that fails by itself fails.

use crate::{
    report::{EncoderVerdict, GateVerdict, RuleVerdict},
    stats::gate::candidates::holm_over_encoders,
};

/// Chance of error that a rule may spend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level(pub f64);

/// Takes back passes that do not hold over all encoders; `at` judges every rule of an encoder at a
/// level.
pub(super) fn over_encoders(
    encoders: &mut [EncoderVerdict],
    alpha: f64,
    at: impl Fn(usize, Level) -> Vec<RuleVerdict>,
) {
    let many = encoders.len();
    if many < 2 {
        return;
    }
    let pass = |rules: &[RuleVerdict]| rules.iter().all(|rule| rule.verdict == GateVerdict::Pass);
    let alone: Vec<bool> = encoders.iter().map(|one| pass(&one.rules)).collect();
    let mut levels: Vec<Option<Vec<RuleVerdict>>> = vec![None; many];
    let steps = holm_over_encoders(many, alpha, |encoder, level| {
        if !alone[encoder] {
            return Ok(false);
        }
        let rules = at(encoder, Level(level));
        let passes = pass(&rules);
        levels[encoder] = Some(rules);
        Ok(passes)
    });
    if let Err(error) = steps {
        // Alpha was checked when the gate was bound. Without the steps, nothing passes.
        tracing::error!(%error, "the steps over encoders were refused");
        for rule in encoders.iter_mut().flat_map(|one| &mut one.rules) {
            take_back(rule, many);
        }
        return;
    }
    for (one, level) in encoders.iter_mut().zip(levels) {
        let Some(level) = level else { continue };
        one.rules = level;
        for rule in &mut one.rules {
            if rule.verdict != GateVerdict::Pass {
                take_back(rule, many);
            }
        }
    }
}

fn take_back(rule: &mut RuleVerdict, many: usize) {
    let why = format!("passes for this encoder by itself, not where {many} encoders are judged together (Holm)");
    rule.verdict = GateVerdict::Undecided;
    rule.note = Some(match rule.note.take() {
        Some(note) => format!("{note}; {why}"),
        None => why,
    });
}
