//! The settings of separation in a suite file.

use super::{SuiteError, fields::table, reader::Section};
use crate::separation::{Kind, Separation};

pub(super) const FIELDS: [&str; 3] = ["off", "kinds", "texts"];

pub(super) fn separation(top: &Section<'_>) -> Result<Separation, SuiteError> {
    let document = top.document;
    let Some(item) = top.get("separation") else {
        return Ok(Separation::default());
    };
    let section = table(document, "separation", item, "a table: [separation]")?;
    section.only(&FIELDS)?;
    let texts = section.integer("texts")?;
    let texts = texts.map(|found| match u32::try_from(found.value) {
        Ok(texts) if texts > 0 => Ok(texts),
        _ => {
            let message = format!(
                "is {}, should be 1 to {}; off = true leaves it out",
                found.value,
                u32::MAX
            );
            Err(document.invalid(&found.span, found.field.as_str(), message))
        }
    });
    Ok(Separation {
        off: section.truth("off")?.map(|found| found.value),
        kinds: kinds(&section)?,
        texts: texts.transpose()?,
    })
}

fn kinds(section: &Section<'_>) -> Result<Vec<Kind>, SuiteError> {
    let mut kinds = Vec::new();
    for found in section.strings("kinds")?.unwrap_or_default() {
        match Kind::named(&found.value) {
            Some(kind) if kinds.contains(&kind) => {
                let message = format!("`{}` is named twice", kind.name());
                return Err(section.document.invalid(&found.span, found.field, message));
            }
            Some(kind) => kinds.push(kind),
            None => {
                let known = Kind::ALL.map(Kind::name);
                let document = section.document;
                return Err(document.unknown_name(found, "kind of change", &known));
            }
        }
    }
    Ok(kinds)
}
