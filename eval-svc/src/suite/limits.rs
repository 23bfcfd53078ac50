//! The limits of a suite file.

use super::{SuiteError, fields::table, reader::Section};
use crate::limits::{Limits, check_cost};

pub(super) const FIELDS: [&str; 2] = ["generator_calls", "cost"];

pub(super) fn limits(top: &Section<'_>) -> Result<Limits, SuiteError> {
    let document = top.document;
    let Some(item) = top.get("limits") else {
        return Ok(Limits::default());
    };
    let section = table(document, "limits", item, "a table: [limits]")?;
    section.only(&FIELDS)?;
    let cost = section.number("cost")?;
    let cost = cost.map(|found| match check_cost(found.value) {
        Ok(()) => Ok(found.value),
        Err(message) => Err(document.invalid(&found.span, found.field.as_str(), message)),
    });
    Ok(Limits {
        generator_calls: section.integer("generator_calls")?.map(|found| found.value),
        cost: cost.transpose()?,
    })
}
