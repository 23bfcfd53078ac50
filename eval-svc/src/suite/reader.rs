//! Reads TOML values with their lines, so that every error names its line.

use std::ops::Range;

use isomer_config::spelling::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SuiteError;

/// Maximum number of entries of any list of a suite. Some entries are compared with each other.
pub(crate) const MOST_ITEMS: usize = 1_000;

/// A suite's text and name.
pub(super) struct Document<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Document<'_> {
    /// Line of a byte offset, counted from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.text
            .as_bytes()
            .iter()
            .take(offset)
            .filter(|b| **b == b'\n')
            .count()
            + 1
    }

    pub(super) fn invalid(
        &self,
        span: &Range<usize>,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> SuiteError {
        SuiteError::Invalid {
            file: self.file.to_owned(),
            line: self.line(span.start),
            field: field.into(),
            message: message.into(),
        }
    }

    pub(super) fn unknown_name(&self, found: SpannedValue<String>, what: &'static str, known: &[&str]) -> SuiteError {
        SuiteError::UnknownName {
            file: self.file.to_owned(),
            line: self.line(found.span.start),
            field: found.field,
            what,
            nearest: nearest(&found.value, known.iter().copied()).map(str::to_owned),
            value: found.value,
            known: known.iter().map(|k| (*k).to_owned()).collect(),
        }
    }
}

/// A value with its position.
pub(super) struct SpannedValue<T> {
    pub(super) value: T,
    pub(super) field: String,
    pub(super) span: Range<usize>,
}

/// A table of the document.
pub(super) struct Section<'a> {
    pub(super) document: &'a Document<'a>,
    /// Path of this table with a final dot; empty for the top level.
    pub(super) prefix: String,
    pub(super) table: &'a DeTable<'a>,
    pub(super) span: Range<usize>,
}

impl<'a> Section<'a> {
    /// Path of a field of this table.
    pub(super) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Refuses keys outside `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), SuiteError> {
        let unknown = self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else {
            return Ok(());
        };
        Err(SuiteError::UnknownField {
            file: self.document.file.to_owned(),
            line: self.document.line(key.span().start),
            field: self.path(key.get_ref()),
            nearest: nearest(key.get_ref(), known.iter().copied()).map(str::to_owned),
            known: known.iter().map(|k| (*k).to_owned()).collect(),
        })
    }

    pub(super) fn missing(&self, key: &str, message: &str) -> SuiteError {
        self.document
            .invalid(&self.span, self.path(key), format!("missing: {message}"))
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<SpannedValue<String>>, SuiteError> {
        self.get(key)
            .map(|value| self.document.string(value, self.path(key)))
            .transpose()
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<SpannedValue<u64>>, SuiteError> {
        self.get(key)
            .map(|value| self.document.integer(value, self.path(key)))
            .transpose()
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<SpannedValue<f64>>, SuiteError> {
        self.get(key)
            .map(|value| self.document.number(value, self.path(key)))
            .transpose()
    }

    pub(super) fn truth(&self, key: &str) -> Result<Option<SpannedValue<bool>>, SuiteError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref().as_bool() {
            Some(truth) => Ok(Some(SpannedValue {
                value: truth,
                field: self.path(key),
                span: value.span(),
            })),
            None => Err(self.document.wrong_type(value, self.path(key), "true or false")),
        }
    }

    /// The elements of a list, each with its path.
    pub(super) fn list(&self, key: &str) -> Result<Option<Vec<(String, &'a Spanned<DeValue<'a>>)>>, SuiteError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let field = self.path(key);
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.document.wrong_type(value, field, "a list"));
        };
        if items.len() > MOST_ITEMS {
            let message = format!("has {} entries, at most {MOST_ITEMS}", items.len());
            return Err(self.document.invalid(&value.span(), field, message));
        }
        Ok(Some(
            items
                .iter()
                .enumerate()
                .map(|(i, item)| (format!("{field}[{i}]"), item))
                .collect(),
        ))
    }

    pub(super) fn strings(&self, key: &str) -> Result<Option<Vec<SpannedValue<String>>>, SuiteError> {
        let Some(items) = self.list(key)? else { return Ok(None) };
        items
            .into_iter()
            .map(|(field, item)| self.document.string(item, field))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Values that are read together from a list of texts; empty if the list is absent. `parse`
    /// returns the position of a broken text with the problem.
    pub(super) fn parsed<T>(
        &self,
        key: &str,
        parse: impl Fn(&[String]) -> Result<Vec<T>, (usize, String)>,
    ) -> Result<Vec<T>, SuiteError> {
        let found = self.strings(key)?.unwrap_or_default();
        let texts: Vec<String> = found.iter().map(|found| found.value.clone()).collect();
        parse(&texts).map_err(|(position, message)| {
            let one = &found[position];
            self.document.invalid(&one.span, one.field.clone(), message)
        })
    }
}

impl Document<'_> {
    pub(super) fn wrong_type(&self, value: &Spanned<DeValue<'_>>, field: String, wanted: &str) -> SuiteError {
        self.invalid(
            &value.span(),
            field,
            format!("should be {wanted}, is {}", describe(value.get_ref())),
        )
    }

    pub(super) fn string(
        &self,
        value: &Spanned<DeValue<'_>>,
        field: String,
    ) -> Result<SpannedValue<String>, SuiteError> {
        match value.get_ref().as_str() {
            Some(text) => Ok(SpannedValue {
                value: text.to_owned(),
                field,
                span: value.span(),
            }),
            None => Err(self.wrong_type(value, field, "text in quotes")),
        }
    }

    pub(super) fn integer(&self, value: &Spanned<DeValue<'_>>, field: String) -> Result<SpannedValue<u64>, SuiteError> {
        let parsed = value
            .get_ref()
            .as_integer()
            .and_then(|i| u64::from_str_radix(i.as_str(), i.radix()).ok());
        match parsed {
            Some(number) => Ok(SpannedValue {
                value: number,
                field,
                span: value.span(),
            }),
            None => Err(self.wrong_type(value, field, "a whole number of 0 or more")),
        }
    }

    pub(super) fn number(&self, value: &Spanned<DeValue<'_>>, field: String) -> Result<SpannedValue<f64>, SuiteError> {
        let parsed = match value.get_ref() {
            DeValue::Float(f) => f.as_str().parse::<f64>().ok(),
            DeValue::Integer(i) => i64::from_str_radix(i.as_str(), i.radix()).ok().map(|i| i as f64),
            _ => None,
        };
        match parsed.filter(|number| number.is_finite()) {
            Some(number) => Ok(SpannedValue {
                value: number,
                field,
                span: value.span(),
            }),
            None => Err(self.wrong_type(value, field, "a number")),
        }
    }
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text `{text}`"),
        DeValue::Integer(number) => format!("the number {}", number.as_str()),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
