//! `min_separation`: the rule on sensitivity. Scores alone do not distinguish a robust encoder from
//! one that ignores its input; see [`crate::separation`].
//!
//! The unit of observation is the source text. One comparison per text counts, drawn by content.
//! The rule passes if the one-sided Clopper–Pearson lower bound satisfies the limit, and fails if
//! the upper bound is below it. Texts that were not rewritten are omitted rather than counted, so
//! `max_unchanged` does not apply: if few texts remain, the rule stays undecided, and the note
//! states how many texts would decide it. Comparisons of texts that the encoder truncated are
//! omitted too.

use std::collections::BTreeMap;

use isomer_config::spelling::suggest;

use super::{
    Gate, GateError, Measure,
    bound::{BoundGate, BoundRule, Quantity},
    spec::SEPARATION,
};
use crate::{
    report::{GateVerdict, RuleVerdict, terms::COUNTS_TEXTS},
    separation::{Kind, Tally},
    stats::{clopper_pearson_lower, clopper_pearson_upper},
};

/// Results of separation, by position of the encoder and of the rule.
pub(crate) type Separations = BTreeMap<(usize, usize), Tally>;

/// Maximum number of texts that a note proposes.
const MOST_NEEDED: u64 = 100_000;

/// The kind of change that a rule limits; `None`: all kinds.
///
/// # Errors
/// If the name is not a kind.
pub(super) fn kind(of: &str) -> Result<Option<Kind>, String> {
    if of == SEPARATION {
        return Ok(None);
    }
    if let Some(kind) = Kind::named(of) {
        return Ok(Some(kind));
    }
    let mut known = vec![SEPARATION];
    known.extend(Kind::ALL.map(Kind::name));
    let hint = suggest(of, &known);
    Err(format!("min_separation has no kind of change `{of}`; {hint}"))
}

/// Refuses rules on separation that the run does not measure; `kinds`: the kinds of changed
/// meaning, `None` if separation is not measured.
///
/// # Errors
/// The first such rule and its place.
pub(crate) fn check_separation(gate: &Gate, kinds: Option<&[Kind]>) -> Result<(), GateError> {
    for rule in &gate.rules {
        if rule.limit.measure() != Measure::Separation {
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

/// Refuses rules that have too few texts to pass even if every text were separated. `texts`:
/// maximum number of texts that may be compared for a kind of change over data sets; `looks`:
/// number of looks that share the error probability.
///
/// # Errors
/// The first such rule, with the number of texts it needs.
pub(crate) fn check_texts(
    gate: &BoundGate,
    looks: usize,
    texts: impl Fn(Option<Kind>, &[usize]) -> u64,
) -> Result<(), GateError> {
    let alpha = gate.alpha / looks.max(1) as f64;
    for (r, kind, datasets) in gate.separations() {
        let Some(rule) = gate.rules.get(r) else { continue };
        let limit = rule.rule.limit.value;
        let passes = |n: u64| clopper_pearson_lower(n, n, alpha) >= limit;
        let there = texts(kind, datasets);
        if passes(there) {
            continue;
        }
        let of = kind.map_or(String::new(), |kind| format!(" by {}", kind.name()));
        // With all of n texts separated, the lower bound is the n-th root of alpha.
        let needed = if limit < 1.0 {
            let least = (alpha.ln() / limit.ln()).ceil();
            format!("at a chance of error of {alpha} it takes at least {least}")
        } else {
            format!("no number of texts proves a share of {limit}")
        };
        let message = format!(
            "\"{}\" can never pass: at most {there} texts have a rewrite in their own language and a copy with another meaning{of}, and {needed}; \
             add texts, kinds of change or transformations that reword, or lower the limit",
            rule.title
        );
        return Err(rule.rule.place.wrong("min_separation", message));
    }
    Ok(())
}

/// The approximate number of texts that would decide the rule at the same share; `None` if the
/// share is too close to the limit.
fn texts_needed(share: f64, limit: f64, alpha: f64) -> Option<u64> {
    let decides = |n: u64| {
        let separated = share * n as f64;
        if share >= limit {
            clopper_pearson_lower(separated.floor() as u64, n, alpha) >= limit
        } else {
            clopper_pearson_upper(separated.ceil() as u64, n, alpha) < limit
        }
    };
    let steps = std::iter::successors(Some(1_u64), |n| Some(n + 1 + n / 20));
    steps.take_while(|n| *n <= MOST_NEEDED).find(|n| decides(*n))
}

impl BoundGate {
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

/// Decides a rule on separation.
pub(super) fn decide(rule: &BoundRule, tally: Option<&Tally>, mut verdict: RuleVerdict) -> RuleVerdict {
    let measured = tally.and_then(|tally| Some((tally, tally.separation?)));
    let Some((tally, share)) = measured else {
        verdict.units = 0;
        verdict.verdict = GateVerdict::Invalid;
        let cause = match tally.and_then(cut) {
            Some(cut) => format!("nothing was compared: {cut}"),
            None => {
                "no text has both a rewrite in its own language (of more than one word) and a copy with another meaning"
                    .to_owned()
            }
        };
        verdict.note = Some(format!("{cause}, so sensitivity was not measured"));
        return verdict;
    };
    let (low, high) = tally.bounds(verdict.alpha);
    let limit = rule.rule.limit.value;
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
    let mut notes = vec![COUNTS_TEXTS.to_owned()];
    if tally.undefined > 0 {
        notes.push(format!(
            "{} comparisons have no cosine and count as not separated",
            tally.undefined
        ));
    }
    notes.extend(cut(tally));
    if verdict.verdict == GateVerdict::Undecided {
        notes.push(match texts_needed(share, limit, verdict.alpha) {
            Some(n) => format!(
                "{} texts are too few: at this share about {n} would decide",
                tally.texts
            ),
            None => "the share is so near to the limit that more texts would hardly decide".to_owned(),
        });
    }
    verdict.note = Some(notes.join("; "));
    verdict
}

/// The note on omitted comparisons, if there are any.
fn cut(tally: &Tally) -> Option<String> {
    (tally.cut > 0).then(|| {
        format!(
            "{} comparisons are left out because the encoder cut one of the texts at its length",
            tally.cut
        )
    })
}
