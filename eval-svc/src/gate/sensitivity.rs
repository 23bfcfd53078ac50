//! `min_separation`: the rule on sensitivity. Robust and blind look alike; see [`crate::separation`].
//!
//! The unit of observation is the source text, of which one comparison counts, drawn by content. The rule passes where the one-sided
//! Clopper–Pearson lower bound keeps the limit, and fails where the upper bound lies below it. Texts that were not rewritten are left
//! out rather than counted, so `max_unchanged` does not apply: with few texts left, the bounds decide nothing.

use std::collections::BTreeMap;

use super::{
    Gate, GateError, RuleLimit,
    bind::{Bound, BoundRule},
    observe::Quantity,
};
use crate::{
    report::{GateVerdict, RuleVerdict},
    separation::{Kind, Tally},
    suite::nearest,
};

/// What separation comes to, by position of the encoder and of the rule.
pub(crate) type Separations = BTreeMap<(usize, usize), Tally>;

/// In the place of a quantity: all kinds of change.
pub(crate) const ALL: &str = "separation";

/// Which kind of change a rule is about; `None`: all.
///
/// # Errors
/// A name that is no kind, in words.
pub(super) fn kind(of: &str) -> Result<Option<Kind>, String> {
    if of == ALL {
        return Ok(None);
    }
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == of) {
        return Ok(Some(kind));
    }
    let mut known = vec![ALL];
    known.extend(Kind::ALL.map(Kind::name));
    Err(match nearest(of, known.iter().copied()) {
        Some(near) => format!("min_separation is not of `{of}`; did you mean `{near}`?"),
        None => format!("min_separation is not of `{of}`; allowed: {}", known.join(", ")),
    })
}

/// Refuses rules on what the run does not measure; `kinds`: how meaning is changed, `None` where separation is left out.
///
/// # Errors
/// The first such rule, with its place.
pub(crate) fn check_separation(gate: &Gate, kinds: Option<&[Kind]>) -> Result<(), GateError> {
    for rule in &gate.rules {
        if !matches!(rule.limit, RuleLimit::MinSeparation(_)) {
            continue;
        }
        let Some(kinds) = kinds else {
            let message = "needs separation, which is off; leave out --no-separation, or `off = true` in [separation]";
            return Err(rule.place.wrong("min_separation", message));
        };
        let kind = kind(&rule.of).map_err(|message| rule.place.wrong("of", message))?;
        if let Some(kind) = kind.filter(|kind| !kinds.contains(kind)) {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let message = format!(
                "the run makes no change of kind `{}`; it makes {}",
                kind.name(),
                names.join(", ")
            );
            return Err(rule.place.wrong("of", message));
        }
    }
    Ok(())
}

impl Bound {
    /// Positions of the rules on separation, with their kinds and data sets.
    pub(crate) fn separations(&self) -> impl Iterator<Item = (usize, Option<Kind>, &[usize])> {
        self.rules
            .iter()
            .enumerate()
            .filter_map(|(r, rule)| match rule.quantity {
                Quantity::Separation(kind) => Some((r, kind, rule.datasets.as_slice())),
                _ => None,
            })
    }
}

/// Holds separation against the limit.
pub(super) fn judge(rule: &BoundRule, tally: Option<&Tally>, mut verdict: RuleVerdict) -> RuleVerdict {
    let measured = tally.and_then(|tally| Some((tally, tally.separation?)));
    let Some((tally, share)) = measured else {
        verdict.units = 0;
        verdict.verdict = GateVerdict::Invalid;
        verdict.note = Some(
            "no text has both a rewrite in its own language and a copy with another meaning, so sensitivity was not measured".to_owned(),
        );
        return verdict;
    };
    let (low, high) = tally.bounds(verdict.alpha);
    let limit = rule.rule.limit.value();
    verdict.units = usize::try_from(tally.texts).unwrap_or(usize::MAX);
    verdict.estimate = Some(share);
    (verdict.low, verdict.high) = (Some(low), Some(high));
    verdict.verdict = if low >= limit {
        GateVerdict::Pass
    } else if high < limit {
        GateVerdict::Fail
    } else {
        GateVerdict::Undecided
    };
    let unit = "n counts texts";
    verdict.note = Some(match tally.undefined {
        0 => unit.to_owned(),
        n => format!("{unit}; {n} comparisons have no cosine and count as not separated"),
    });
    verdict
}
