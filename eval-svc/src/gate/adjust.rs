//! Holm's procedure over encoders: if all candidates are beyond a limit, the probability that any
//! of them passes is at most alpha.
//!
//! Without this procedure each encoder has a separate probability of a false pass, and releasing
//! the best of many candidates multiplies that probability. An encoder passes at a level if all its
//! rules do. Rules on a margin are already adjusted over all encoders by their own test, so they do
//! not change. Decisions on points have no level. Failures are not adjusted: an encoder that fails
//! by itself fails.

use crate::{
    report::{EncoderVerdict, GateVerdict, RuleVerdict},
    stats::gate::candidates::holm_over_encoders,
};

/// Error probability that a rule may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level(pub f64);

/// Changes passes that are not significant over all encoders to undecided; `at` judges every rule
/// of an encoder at a level.
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
        // Alpha was validated when the gate was bound, so this does not happen. If it does, no
        // encoder passes.
        tracing::error!(%error, "cannot adjust the gate over several encoders (Holm); no encoder passes");
        let rules = encoders.iter_mut().flat_map(|one| &mut one.rules);
        for rule in rules.filter(|rule| rule.verdict == GateVerdict::Pass) {
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
    let why = format!("passes for this encoder alone, but not when {many} encoders are judged together (Holm)");
    rule.verdict = GateVerdict::Undecided;
    rule.note = Some(match rule.note.take() {
        Some(note) => format!("{note}; {why}"),
        None => why,
    });
}
