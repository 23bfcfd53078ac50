//! `sequential = "betting"`: rules on one data set. Its items are drawn in random order, and a bet
//! is placed on one after the other ([`crate::stats::gate::betting`]).

use std::collections::BTreeMap;

use super::{
    Basis, GateError, Measure, Rule, RuleKind, Texts, Unit,
    bound::{BoundGate, BoundRule, RuleBounds, best},
    spec::refused,
};
use crate::{
    profile::range,
    stats::gate::{
        betting::{Items, decide_bets, fewest_bets},
        bounded::Range,
        rule::Decision,
    },
    task::TaskType,
};

/// The items that a rule bets on, by position of the encoder and of the rule, or the reason why
/// there are none.
pub(crate) type ItemSequences = BTreeMap<(usize, usize), Result<Sequence, String>>;

/// Items in the order of their draw. An item that shares a text with an earlier one is omitted,
/// since the two are not independent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sequence {
    /// One drop or score per item, in points.
    pub values: Vec<f64>,
    /// The range of possible values.
    pub range: Range,
    /// Number of items that were omitted.
    pub repeated: usize,
}

/// Task types whose score is a mean of items that do not depend on each other. Correlations,
/// average precision and V-measure are not means of items, and whether a pair of a bitext is found
/// depends on the other pairs.
const BY_ITEM: [TaskType; 6] = [
    TaskType::Classification,
    TaskType::Retrieval,
    TaskType::Reranking,
    TaskType::Summarisation,
    TaskType::Clsd,
    TaskType::GradedRanking,
];

/// The basis and unit of a rule that is decided by betting; `tasks`: task types of its data sets,
/// if known.
///
/// # Errors
/// The reason why betting cannot decide the rule, and the necessary change.
pub(super) fn bound(rule: &Rule, bounds: RuleBounds, tasks: Option<&[TaskType]>) -> Result<RuleBounds, GateError> {
    let basis = bounds.basis;
    let leave = "or leave `sequential` out";
    if rule.limit.measure() == Measure::Separation {
        return Ok(bounds);
    }
    if !rule.limit.kind.row().bets {
        let message = format!(
            "has no value for each item, and sequential = \"betting\" bets on items; use {}, {leave}",
            RuleKind::among(|row| row.bets)
        );
        return Err(rule.place.wrong(rule.limit.kind.name(), message));
    }
    if rule.texts != Texts::All {
        let message = format!(
            "is \"{}\", which needs all results, and an early look does not have them; {leave}",
            rule.texts.name()
        );
        return Err(rule.place.wrong("texts", message));
    }
    if basis != Basis::Bounded {
        let message = format!(
            "is \"{}\", and sequential = \"betting\" has bounds of its own; leave `basis` out, {leave}",
            basis.name()
        );
        return Err(rule.place.wrong("basis", message));
    }
    if rule.unit == Some(Unit::Group) {
        let message = format!("is \"group\", and sequential = \"betting\" bets on items; take \"item\", {leave}");
        return Err(rule.place.wrong("unit", message));
    }
    match tasks {
        Some([task]) if !BY_ITEM.contains(task) => {
            let message = format!(
                "is about a data set of the task {}, whose score is not a mean over independent items, so that nothing can be bet on; \
                 leave `sequential` out",
                task.name()
            );
            Err(rule.place.wrong("dataset", message))
        }
        Some([_]) | None => Ok(RuleBounds {
            basis: Basis::Betting,
            unit: Unit::Item,
        }),
        Some(several) => {
            let message = format!(
                "is about {} data sets, and sequential = \"betting\" decides one: name it with dataset = \"…\", {leave}",
                several.len()
            );
            Err(rule.place.wrong("dataset", message))
        }
    }
}

fn items(range: Range) -> Items {
    Items {
        range: (range.low, range.high),
        population: None,
    }
}

/// Refuses rules that have too few items to be decided even for a perfect encoder. `there`: the
/// task of a data set and its number of items.
///
/// # Errors
/// The first such rule, with the number of items it needs.
pub(crate) fn check_items(gate: &BoundGate, there: impl Fn(usize) -> (TaskType, usize)) -> Result<(), GateError> {
    for rule in gate.rules.iter().filter(|rule| rule.basis == Basis::Betting) {
        let Some(&dataset) = rule.datasets.first() else {
            continue;
        };
        let (task, own) = there(dataset);
        let needed = fewest_bets(
            best(rule.rule.limit),
            &items(range(task.name(), rule.is_drop())),
            rule.rule.limit.held(),
            gate.alpha,
        );
        if needed.is_some_and(|needed| needed <= own) {
            continue;
        }
        let takes = match needed {
            Some(needed) => format!(
                "a perfect encoder takes {needed} at a chance of error of {}",
                gate.alpha
            ),
            None => "no number of items shows that this limit is kept".to_owned(),
        };
        let message = format!(
            "\"{}\" can never pass: the data set has {own} items, and {takes}; add items, lower the demand, or leave `sequential` out: one look at \
             everything takes fewer items",
            rule.title
        );
        return Err(rule.rule.place.wrong(rule.rule.limit.kind.name(), message));
    }
    Ok(())
}

/// Decides a rule on the items so far. Returns the decision and its note.
pub(super) fn decide(
    rule: &BoundRule,
    alpha: f64,
    sequence: Option<&Result<Sequence, String>>,
) -> Result<(Decision, String), String> {
    let sequence = match sequence {
        Some(Ok(sequence)) => sequence,
        Some(Err(why)) => return Err(format!("a betting test is not possible: {why}")),
        None => return Err("a betting test is not possible: the items are not known".to_owned()),
    };
    let held = rule.rule.limit.held();
    let decision =
        decide_bets(&sequence.values, &items(sequence.range), held, alpha).map_err(|error| refused(&error))?;
    let mut note = "bounds of a betting test, which hold for any number of looks".to_owned();
    if sequence.repeated > 0 {
        note.push_str(&format!(
            "; {} items are left out because they share a text with an earlier one",
            sequence.repeated
        ));
    }
    Ok((decision, note))
}
