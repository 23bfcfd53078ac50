//! Reading of fields, shared by all parts of a suite.

use toml::{Spanned, de::DeValue};

use super::{
    SuiteError,
    reader::{Document, Section, SpannedValue},
};

/// A table of the document, whose fields are read one by one.
pub(super) fn table<'a>(
    document: &'a Document<'a>,
    field: &str,
    item: &'a Spanned<DeValue<'a>>,
    wanted: &str,
) -> Result<Section<'a>, SuiteError> {
    match item.get_ref() {
        DeValue::Table(table) => Ok(Section {
            document,
            prefix: format!("{field}."),
            table,
            span: item.span(),
        }),
        _ => Err(document.wrong_type(item, field.to_owned(), wanted)),
    }
}

/// A text that may be absent but not empty.
pub(super) fn filled(
    document: &Document<'_>,
    found: Option<SpannedValue<String>>,
) -> Result<Option<String>, SuiteError> {
    match found {
        Some(found) if found.value.trim().is_empty() => {
            Err(document.invalid(&found.span, found.field, "is empty; fill it in or leave the line out"))
        }
        Some(found) => Ok(Some(found.value)),
        None => Ok(None),
    }
}

pub(super) fn within(
    document: &Document<'_>,
    found: Option<SpannedValue<f64>>,
    low: f64,
    high: f64,
    default: f64,
) -> Result<f64, SuiteError> {
    match found {
        None => Ok(default),
        Some(found) if (low..=high).contains(&found.value) => Ok(found.value),
        Some(found) => {
            let bounds = if low > 0.0 {
                format!("above 0 and at most {high}")
            } else {
                format!("{low} to {high}")
            };
            let message = format!("is {}, should be {bounds}", found.value);
            Err(document.invalid(&found.span, found.field, message))
        }
    }
}

/// A list of tags; empty if it is absent.
pub(super) fn language_tags(section: &Section<'_>, key: &str) -> Result<Vec<String>, SuiteError> {
    let found = section.strings(key)?.unwrap_or_default();
    found
        .into_iter()
        .map(|found| language_tag(section.document, found))
        .collect()
}

/// Checks the form of a BCP-47 tag; the service checks whether it supports the language.
pub(super) fn language_tag(document: &Document<'_>, found: SpannedValue<String>) -> Result<String, SuiteError> {
    let mut parts = found.value.split('-');
    let primary = parts
        .next()
        .is_some_and(|p| (2..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_alphabetic()));
    if primary && parts.all(|p| (1..=8).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_alphanumeric())) {
        return Ok(found.value);
    }
    let message = format!("`{}` is not a BCP-47 language tag such as `fr` or `pt-BR`", found.value);
    Err(document.invalid(&found.span, found.field, message))
}
