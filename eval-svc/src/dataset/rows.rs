//! Lines of a file, and JSON objects with fields on them. One line is held at a time.

use std::io::BufRead;

use serde_json::{Map, Value};

use super::{DatasetError, source::Files};

/// Lines of a UTF-8 file with their numbers, blank ones skipped.
pub(super) struct Lines<'a> {
    file: String,
    reader: Box<dyn BufRead + 'a>,
    buffer: Vec<u8>,
    line: u64,
    offset: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn open(files: &'a Files<'_>, name: &str) -> Result<Self, DatasetError> {
        Ok(Self {
            file: files.label(name),
            reader: files.open(name)?,
            buffer: Vec::new(),
            line: 0,
            offset: 0,
        })
    }

    /// Name of the file in messages.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The next line that is not blank, without its ending, and its number from 1.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &str)>, DatasetError> {
        loop {
            self.offset += self.buffer.len() as u64;
            self.buffer.clear();
            let unreadable = |source| DatasetError::Unreadable {
                file: self.file.clone(),
                source,
            };
            if self.reader.read_until(b'\n', &mut self.buffer).map_err(unreadable)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if self.line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
                self.buffer.drain(..3);
                self.offset += 3;
            }
            if !self.buffer.iter().all(u8::is_ascii_whitespace) {
                break;
            }
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(text) => Ok(Some((self.line, text.trim_end_matches(['\n', '\r'])))),
            Err(e) => Err(DatasetError::NotUtf8 {
                file: self.file.clone(),
                line: self.line,
                offset: self.offset + e.valid_up_to() as u64,
            }),
        }
    }

    /// The next JSON object.
    pub(super) fn next_row(&mut self) -> Result<Option<Row>, DatasetError> {
        let file = self.file.clone();
        let Some((line, text)) = self.next()? else {
            return Ok(None);
        };
        let error = |field: Option<String>, problem: String| DatasetError::Row {
            file: file.clone(),
            line,
            field,
            problem,
        };
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Ok(Some(Row { file, line, fields })),
            Ok(other) => Err(error(None, format!("{} where an object is expected", kind(&other)))),
            Err(e) => Err(match not_a_number(text) {
                Some((field, token)) => error(field, format!("{token} is not a number; JSON has no such value")),
                None => error(None, broken(&e)),
            }),
        }
    }
}

fn broken(error: &serde_json::Error) -> String {
    // The library appends its own line number, always 1 here, which would contradict ours.
    let said = error.to_string();
    let reason = said.split(" at line ").next().unwrap_or(&said);
    format!(
        "broken JSON at column {}: {reason}; one JSON object a line is expected",
        error.column()
    )
}

/// A bare `NaN` or `Infinity`, as Python's json writes them, with the field before it.
fn not_a_number(text: &str) -> Option<(Option<String>, &'static str)> {
    let (mut in_string, mut escaped, mut start) = (false, false, 0);
    let mut last_string = None;
    for (i, byte) in text.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    in_string = false;
                    last_string = text.get(start..i).map(str::to_owned);
                }
                _ => {}
            }
        } else if byte == b'"' {
            (in_string, start) = (true, i + 1);
        } else if let Some(token) = ["NaN", "Infinity"]
            .into_iter()
            .find(|t| text.as_bytes()[i..].starts_with(t.as_bytes()))
        {
            return Some((last_string, token));
        }
    }
    None
}

fn class(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(n) if n.is_i64() || n.is_u64() => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A JSON object and where it stands.
pub(super) struct Row {
    file: String,
    pub(super) line: u64,
    fields: Map<String, Value>,
}

impl Row {
    /// A fault of a field.
    pub(super) fn error(&self, field: &str, problem: impl Into<String>) -> DatasetError {
        DatasetError::Row {
            file: self.file.clone(),
            line: self.line,
            field: Some(field.to_owned()),
            problem: problem.into(),
        }
    }

    fn wrong(&self, field: &str, expected: &str) -> DatasetError {
        match self.fields.get(field) {
            None => {
                let there: Vec<&str> = self.fields.keys().map(String::as_str).collect();
                self.error(
                    field,
                    format!("missing; {expected} is expected, the row has {}", there.join(", ")),
                )
            }
            Some(value) => self.error(field, format!("{} where {expected} is expected", kind(value))),
        }
    }

    /// A string, possibly empty.
    pub(super) fn text(&mut self, field: &str) -> Result<String, DatasetError> {
        match self.fields.get_mut(field) {
            Some(Value::String(text)) => Ok(std::mem::take(text)),
            _ => Err(self.wrong(field, "a string")),
        }
    }

    /// A list of strings, possibly empty ones, at least `least` of them.
    pub(super) fn texts(&mut self, field: &str, least: usize) -> Result<Vec<String>, DatasetError> {
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

    /// A string or a list of strings that is not empty.
    pub(super) fn one_or_more_texts(&mut self, field: &str) -> Result<Vec<String>, DatasetError> {
        match self.fields.get(field) {
            Some(Value::Array(_)) => self.texts(field, 1),
            Some(Value::String(_)) => Ok(vec![self.text(field)?]),
            _ => Err(self.wrong(field, "a string or a list of strings")),
        }
    }

    /// A list of as many finite numbers as `count` says of another field.
    pub(super) fn numbers(&self, field: &str, count: usize, other: &str) -> Result<Vec<f64>, DatasetError> {
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

    /// A list of as many strings or nulls as `count` says of another field, or nothing where the field is missing.
    pub(super) fn optional_tags(
        &self,
        field: &str,
        count: usize,
        other: &str,
    ) -> Result<Option<Vec<Option<String>>>, DatasetError> {
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

    /// A string, or nothing where the field is missing or null.
    pub(super) fn optional_text(&mut self, field: &str) -> Result<Option<String>, DatasetError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.text(field).map(Some),
        }
    }

    /// An id: a string that is not empty, or an integer, which is written out (as mteb casts them).
    pub(super) fn id(&mut self, field: &str) -> Result<String, DatasetError> {
        match self.fields.get_mut(field) {
            Some(Value::String(text)) if !text.is_empty() => Ok(std::mem::take(text)),
            Some(Value::String(_)) => Err(self.error(field, "an empty id")),
            Some(Value::Number(n)) if n.is_i64() || n.is_u64() => Ok(n.to_string()),
            _ => Err(self.wrong(field, "a string id")),
        }
    }

    /// A finite number.
    pub(super) fn number(&self, field: &str) -> Result<f64, DatasetError> {
        match self.fields.get(field).and_then(Value::as_f64) {
            Some(number) if number.is_finite() => Ok(number),
            _ => Err(self.wrong(field, "a number")),
        }
    }

    /// Whether the field is there and not null.
    pub(super) fn has(&self, field: &str) -> bool {
        !matches!(self.fields.get(field), None | Some(Value::Null))
    }

    /// A class: a string that is not empty, an integer or a boolean, written out.
    pub(super) fn label(&self, field: &str) -> Result<String, DatasetError> {
        let value = self.fields.get(field);
        value
            .and_then(class)
            .ok_or_else(|| self.wrong(field, "a string, an integer or a boolean"))
    }

    /// A list of classes, as many as `count` says of another field.
    pub(super) fn labels(&self, field: &str, count: usize, other: &str) -> Result<Vec<String>, DatasetError> {
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

    /// A label: 0 or 1.
    pub(super) fn binary(&self, field: &str) -> Result<bool, DatasetError> {
        match self.fields.get(field) {
            Some(Value::Number(n)) => match n.as_i64() {
                Some(0) => Ok(false),
                Some(1) => Ok(true),
                _ => Err(self.error(field, format!("{n} where 0 or 1 is expected"))),
            },
            _ => Err(self.wrong(field, "the number 0 or 1")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_nan_is_found_with_its_field_but_not_inside_a_string() {
        assert_eq!(
            not_a_number(r#"{"a": "NaN", "score": NaN}"#),
            Some((Some("score".to_owned()), "NaN"))
        );
        assert_eq!(
            not_a_number(r#"{"score": -Infinity}"#),
            Some((Some("score".to_owned()), "Infinity"))
        );
        assert_eq!(not_a_number(r#"{"a": "say \"NaN\" twice"}"#), None);
    }
}
