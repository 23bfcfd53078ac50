//! A row: named fields, their location, and the values that each may have.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{DatasetError, error::Unit};

/// Maps our column names to the table's: `(ours, theirs)`. Other columns keep their names.
pub type FieldMap = Vec<(String, String)>;

fn class(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(n) if n.is_i64() || n.is_u64() => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The location of a row.
#[derive(Debug, Clone)]
pub(super) struct Location {
    pub(super) file: Arc<str>,
    pub(super) unit: Unit,
    /// Its number, from 1.
    pub(super) number: u64,
}

impl Location {
    /// An error of the row or of one of its fields.
    pub(super) fn error(&self, field: Option<&str>, problem: impl Into<String>) -> DatasetError {
        DatasetError::Row {
            file: self.file.to_string(),
            unit: self.unit,
            line: self.number,
            field: field.map(str::to_owned),
            problem: problem.into(),
        }
    }
}

/// A row as its file gives it.
pub(super) struct RawRow {
    pub(super) place: Location,
    pub(super) fields: Map<String, Value>,
    /// Whether its values have types.
    pub(super) typed: bool,
}

/// Named values and their location.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) place: Location,
    pub(super) fields: Map<String, Value>,
    /// False if every value is a string that must be parsed by its field's reader (CSV).
    pub(super) typed: bool,
    pub(super) map: Arc<FieldMap>,
    /// The index of the pair, in a row that contains lists of pairs.
    pub(super) item: Option<usize>,
}

impl Row {
    /// A row whose columns are renamed to ours. An existing column with one of our names is dropped
    /// in favour of the mapped one. If the mapped column is missing, the existing column stays
    /// (e.g. the queries beside a corpus whose columns are mapped).
    pub(super) fn new(row: RawRow, map: &Arc<FieldMap>) -> Self {
        let RawRow {
            place,
            mut fields,
            typed,
        } = row;
        let taken: Vec<_> = map
            .iter()
            .filter_map(|(ours, theirs)| Some((ours, fields.remove(theirs)?)))
            .collect();
        for (ours, value) in taken {
            fields.insert(ours.clone(), value);
        }
        Self {
            place,
            fields,
            typed,
            map: Arc::clone(map),
            item: None,
        }
    }

    /// Number of the row, from 1.
    pub(super) fn line(&self) -> u64 {
        self.place.number
    }

    pub(super) fn error(&self, field: &str, problem: impl Into<String>) -> DatasetError {
        match self.item {
            Some(item) => self.place.error(Some(&format!("{field}[{item}]")), problem),
            None => self.place.error(Some(field), problem),
        }
    }

    fn wrong(&self, field: &str, expected: &str) -> DatasetError {
        match self.fields.get(field) {
            None => {
                let there: Vec<&str> = self.fields.keys().map(String::as_str).collect();
                let there = there.join(", ");
                let problem = match self.map.iter().find(|(ours, _)| ours == field) {
                    Some((_, theirs)) => {
                        format!("missing; its column `{theirs}` is not there, the row has {there}")
                    }
                    None => format!("missing; {expected} is expected, the row has {there}"),
                };
                self.error(field, problem)
            }
            Some(Value::String(cell)) if !self.typed => {
                let cell: String = cell.chars().take(40).collect();
                let how = if expected.contains("list") {
                    ", written as JSON, e.g. [\"a\", \"b\"]"
                } else {
                    ""
                };
                self.error(field, format!("`{cell}` where {expected} is expected{how}"))
            }
            Some(value) => self.error(field, format!("{} where {expected} is expected", kind(value))),
        }
    }

    /// Renames a field to our name if ours is free.
    pub(super) fn also_called(&mut self, ours: &str, theirs: &str) {
        if !self.fields.contains_key(ours)
            && let Some(value) = self.fields.remove(theirs)
        {
            self.fields.insert(ours.to_owned(), value);
        }
    }

    /// Parses a cell that holds a list as JSON.
    fn unfold(&mut self, field: &str) {
        if let (false, Some(Value::String(cell))) = (self.typed, self.fields.get(field))
            && cell.trim_start().starts_with('[')
            && let Ok(list @ Value::Array(_)) = serde_json::from_str(cell)
        {
            self.fields.insert(field.to_owned(), list);
        }
    }

    /// Parses an untyped cell as a JSON number or Boolean.
    fn scalar(&self, field: &str) -> Option<Value> {
        match self.fields.get(field) {
            Some(Value::String(cell)) if !self.typed => match cell.trim().to_ascii_lowercase().as_str() {
                "true" => Some(Value::Bool(true)),
                "false" => Some(Value::Bool(false)),
                cell => serde_json::from_str(cell).ok().filter(Value::is_number),
            },
            other => other.cloned(),
        }
    }

    /// A string, possibly empty.
    pub(super) fn text(&mut self, field: &str) -> Result<String, DatasetError> {
        match self.fields.get_mut(field) {
            Some(Value::String(text)) => Ok(std::mem::take(text)),
            _ => Err(self.wrong(field, "a string")),
        }
    }

    /// A list of strings, some possibly empty, with at least `least` elements.
    pub(super) fn texts(&mut self, field: &str, least: usize) -> Result<Vec<String>, DatasetError> {
        self.unfold(field);
        let Some(Value::Array(items)) = self.fields.get_mut(field) else {
            return Err(self.wrong(field, "a list of strings"));
        };
        let items = std::mem::take(items);
        if items.len() < least {
            let found = items.len();
            return Err(self.error(field, format!("{found} texts where at least {least} are needed")));
        }
        let mut texts = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text),
                other => {
                    let problem = format!("{} where a string is expected", kind(&other));
                    return Err(self.error(&format!("{field}[{i}]"), problem));
                }
            }
        }
        Ok(texts)
    }

    /// A string, or a list of strings that is not empty.
    pub(super) fn one_or_more_texts(&mut self, field: &str) -> Result<Vec<String>, DatasetError> {
        self.unfold(field);
        match self.fields.get(field) {
            Some(Value::Array(_)) => self.texts(field, 1),
            Some(Value::String(_)) => Ok(vec![self.text(field)?]),
            _ => Err(self.wrong(field, "a string or a list of strings")),
        }
    }

    /// A list of finite numbers whose length equals that of another field (`count`).
    pub(super) fn numbers(&mut self, field: &str, count: usize, other: &str) -> Result<Vec<f64>, DatasetError> {
        self.unfold(field);
        let Some(Value::Array(items)) = self.fields.get(field) else {
            return Err(self.wrong(field, "a list of numbers"));
        };
        if items.len() != count {
            return Err(self.error(field, format!("{} numbers for {count} of `{other}`", items.len())));
        }
        let number = |(i, item): (usize, &Value)| match item.as_f64().filter(|n| n.is_finite()) {
            Some(number) => Ok(number),
            None => Err(self.error(
                &format!("{field}[{i}]"),
                format!("{} where a number is expected", kind(item)),
            )),
        };
        items.iter().enumerate().map(number).collect()
    }

    /// A list of strings or nulls whose length equals that of another field (`count`), or `None` if
    /// the field is missing.
    pub(super) fn optional_tags(
        &mut self,
        field: &str,
        count: usize,
        other: &str,
    ) -> Result<Option<Vec<Option<String>>>, DatasetError> {
        self.unfold(field);
        if !self.has(field) {
            return Ok(None);
        }
        let items = match self.fields.get(field) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(self.wrong(field, "a list of strings or nulls")),
        };
        if items.len() != count {
            return Err(self.error(field, format!("{} entries for {count} of `{other}`", items.len())));
        }
        let tag = |(i, item): (usize, &Value)| match item {
            Value::Null => Ok(None),
            Value::String(tag) if !tag.trim().is_empty() => Ok(Some(tag.trim().to_owned())),
            other => Err(self.error(
                &format!("{field}[{i}]"),
                format!("{} where a tag or null is expected", kind(other)),
            )),
        };
        items.iter().enumerate().map(tag).collect::<Result<_, _>>().map(Some)
    }

    /// A string, or `None` if the field is missing or null.
    pub(super) fn optional_text(&mut self, field: &str) -> Result<Option<String>, DatasetError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.text(field).map(Some),
        }
    }

    /// An id: a string that is not empty, or an integer, which is converted to text (like mteb's
    /// casts).
    pub(super) fn id(&mut self, field: &str) -> Result<String, DatasetError> {
        match self.fields.get_mut(field) {
            Some(Value::String(text)) if !text.is_empty() => Ok(std::mem::take(text)),
            Some(Value::String(_)) => Err(self.error(field, "an empty id")),
            Some(Value::Number(n)) if n.is_i64() || n.is_u64() => Ok(n.to_string()),
            _ => Err(self.wrong(field, "a string id")),
        }
    }

    /// A list of ids, parsed by [`Row::id`].
    pub(super) fn ids(&mut self, field: &str) -> Result<Vec<String>, DatasetError> {
        self.unfold(field);
        let Some(Value::Array(items)) = self.fields.get(field) else {
            return Err(self.wrong(field, "a list of ids"));
        };
        let id = |(i, item): (usize, &Value)| match item {
            Value::String(text) if !text.is_empty() => Ok(text.clone()),
            Value::Number(n) if n.is_i64() || n.is_u64() => Ok(n.to_string()),
            other => Err(self.error(
                &format!("{field}[{i}]"),
                format!("{} where a string id is expected", kind(other)),
            )),
        };
        items.iter().enumerate().map(id).collect()
    }

    /// A finite number.
    pub(super) fn number(&self, field: &str) -> Result<f64, DatasetError> {
        match self.scalar(field).and_then(|value| value.as_f64()) {
            Some(number) if number.is_finite() => Ok(number),
            _ => Err(self.wrong(field, "a number")),
        }
    }

    /// Whether the field is present and not null.
    pub(super) fn has(&self, field: &str) -> bool {
        match self.fields.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::String(cell)) => self.typed || !cell.is_empty(),
            Some(_) => true,
        }
    }

    pub(super) fn is_list(&mut self, field: &str) -> bool {
        self.unfold(field);
        matches!(self.fields.get(field), Some(Value::Array(_)))
    }

    /// A class: a string that is not empty, an integer or a boolean, converted to text.
    pub(super) fn label(&self, field: &str) -> Result<String, DatasetError> {
        let value = self.fields.get(field);
        value
            .and_then(class)
            .ok_or_else(|| self.wrong(field, "a string, an integer or a boolean"))
    }

    /// A list of classes whose length equals that of another field (`count`).
    pub(super) fn labels(&mut self, field: &str, count: usize, other: &str) -> Result<Vec<String>, DatasetError> {
        self.unfold(field);
        let Some(Value::Array(items)) = self.fields.get(field) else {
            return Err(self.wrong(field, "a list of labels"));
        };
        if items.len() != count {
            return Err(self.error(field, format!("{} labels for {count} of `{other}`", items.len())));
        }
        let label = |(i, item): (usize, &Value)| {
            let problem = || format!("{} where a string, an integer or a boolean is expected", kind(item));
            class(item).ok_or_else(|| self.error(&format!("{field}[{i}]"), problem()))
        };
        items.iter().enumerate().map(label).collect()
    }

    /// A label: 0 or 1, or false or true.
    pub(super) fn binary(&self, field: &str) -> Result<bool, DatasetError> {
        match self.scalar(field) {
            Some(Value::Bool(label)) => Ok(label),
            Some(Value::Number(n)) => match n.as_f64() {
                Some(0.0) => Ok(false),
                Some(1.0) => Ok(true),
                _ => Err(self.error(field, format!("{n} where 0 or 1 is expected"))),
            },
            _ => Err(self.wrong(field, "the number 0 or 1")),
        }
    }

    /// A grade: a whole number, written as 1 or as 1.0.
    pub(super) fn grade(&self, field: &str) -> Result<i32, DatasetError> {
        let number = self.number(field)?;
        if number.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
            return Ok(number as i32);
        }
        Err(self.error(field, format!("{number} where an integer grade is expected")))
    }
}
