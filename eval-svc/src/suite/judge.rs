//! The judge of a suite file.

use super::{
    SuiteError,
    fields::{filled, table},
    reader::{Document, Section, SpannedValue},
};
use crate::judging::{Judge, Scale, check_accept};

pub(super) const FIELDS: [&str; 4] = ["generator", "sample", "scales", "accept"];

pub(super) fn judge(top: &Section<'_>) -> Result<Judge, SuiteError> {
    let document = top.document;
    let Some(item) = top.get("judge") else {
        return Ok(Judge::default());
    };
    let section = table(document, "judge", item, "a table: [judge], with generator = \"…\"")?;
    section.only(&FIELDS)?;
    let Some(generator) = filled(document, section.string("generator")?)? else {
        return Err(section.missing(
            "generator",
            "say which model rates, e.g. generator = \"local:qwen2.5-coder-1.5b-instruct\"",
        ));
    };
    Ok(Judge {
        generator: Some(generator),
        sample: section
            .integer("sample")?
            .map(|found| sample(document, &found))
            .transpose()?,
        scales: scales(&section)?,
        accept: accept(&section)?,
    })
}

fn sample(document: &Document<'_>, found: &SpannedValue<u64>) -> Result<u32, SuiteError> {
    u32::try_from(found.value).map_err(|_| {
        let message = format!("is {}, should be at most {}; 0 rates all texts", found.value, u32::MAX);
        document.invalid(&found.span, found.field.as_str(), message)
    })
}

fn accept(section: &Section<'_>) -> Result<Option<f64>, SuiteError> {
    let Some(found) = section.number("accept")? else {
        return Ok(None);
    };
    match check_accept(found.value) {
        Ok(()) => Ok(Some(found.value)),
        Err(message) => Err(section.document.invalid(&found.span, found.field, message)),
    }
}

fn scales(section: &Section<'_>) -> Result<Vec<Scale>, SuiteError> {
    let mut scales = Vec::new();
    for found in section.strings("scales")?.unwrap_or_default() {
        match Scale::named(&found.value) {
            Some(scale) if scales.contains(&scale) => {
                let message = format!("`{}` is named twice", scale.name());
                return Err(section.document.invalid(&found.span, found.field, message));
            }
            Some(scale) => scales.push(scale),
            None => {
                let known = Scale::ALL.map(Scale::name);
                let document = section.document;
                return Err(document.unknown_name(found, "scale", &known));
            }
        }
    }
    Ok(scales)
}
