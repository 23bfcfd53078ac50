//! `max_negative_flips` and `min_overlap`: rules on the items of an encoder and of the baseline.

use super::{Basis, GateError, Rule, Unit, bound::DatasetTask};
use crate::{
    report::{PairedQuantity, diff::Right},
    task::TaskType,
};

/// Validates the settings of a rule on items of two encoders.
pub(super) fn check(rule: &Rule, paired: PairedQuantity, basis: Basis) -> Result<(), GateError> {
    let name = rule.limit.kind.name();
    if basis != Basis::Bounded {
        let message = format!("is {}; {name} has bounds over items: leave `basis` out", basis.name());
        return Err(rule.place.wrong("basis", message));
    }
    if rule.unit == Some(Unit::Group) {
        let message = format!("is \"group\"; {name} is about items: leave `unit` out");
        return Err(rule.place.wrong("unit", message));
    }
    match rule.task {
        Some(task) if !paired.is_of(task) => Err(rule.place.wrong("task", undefined(paired, &task.to_string()))),
        _ => Ok(()),
    }
}

/// Checks that every data set of a rule on items has the compared value. Omitting data sets without
/// it would let them pass unchecked.
pub(super) fn check_tasks<'a>(
    rule: &Rule,
    paired: PairedQuantity,
    datasets: impl Iterator<Item = &'a DatasetTask>,
) -> Result<(), GateError> {
    let without: Vec<String> = datasets
        .filter(|one| !paired.is_of(one.task))
        .map(|one| format!("{} ({})", one.name, one.task))
        .collect();
    if without.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{}; name the data sets that it is about with `task` or `dataset`",
        undefined(paired, &without.join(", "))
    );
    Err(rule.place.wrong(rule.limit.kind.name(), message))
}

fn undefined(paired: PairedQuantity, of: &str) -> String {
    match paired {
        PairedQuantity::NegativeFlips => format!(
            "there is no flip of {of}: an item is right or wrong in {} alone",
            Right::TASKS.map(TaskType::name).join(", ")
        ),
        PairedQuantity::Overlap => format!("there are no result lists of {of}: they are kept of retrieval alone"),
    }
}
