//! Texts to work on: JSONL with a `text` field, or plain lines.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use serde_json::Value;

use crate::exit::Failure;

/// One text of the input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    /// The text.
    pub(crate) text: String,
    /// The row's `id`, if it has one.
    pub(crate) id: Option<String>,
    /// The row's `language`, if it has one.
    pub(crate) language: Option<String>,
}

/// Reads every text of a file, or of stdin for `None` and `-`. A first line that starts with `{`
/// makes it JSONL.
pub(crate) fn read(path: Option<&Path>) -> Result<Vec<Record>, Failure> {
    match path {
        Some(path) if path.as_os_str() != "-" => {
            let file = File::open(path)
                .map_err(|e| Failure::dependency(format!("cannot read {}: {e}; check --input", path.display())))?;
            parse(&path.display().to_string(), file)
        }
        _ => parse("stdin", std::io::stdin()),
    }
}

/// Reads every row of a JSONL file, or of stdin; `read_row` converts the row's value.
pub(crate) fn rows<T>(
    path: Option<&Path>,
    mut read_row: impl FnMut(&Value) -> Result<Option<T>, String>,
) -> Result<Vec<T>, Failure> {
    let mut text = String::new();
    let name = match path.filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            text = std::fs::read_to_string(path)
                .map_err(|e| Failure::dependency(format!("cannot read {}: {e}; check --input", path.display())))?;
            path.display().to_string()
        }
        None => {
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|e| Failure::dependency(format!("cannot read stdin: {e}")))?;
            "stdin".to_owned()
        }
    };
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let failure = |why: String| Failure::dependency(format!("{name}: line {number}: {why}"));
        let value: Value = serde_json::from_str(line).map_err(|e| failure(format!("broken JSON: {e}")))?;
        rows.extend(read_row(&value).map_err(failure)?);
    }
    Ok(rows)
}

fn parse(name: &str, source: impl Read) -> Result<Vec<Record>, Failure> {
    let mut reader = BufReader::new(source);
    let mut records = Vec::new();
    let mut jsonl = None;
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = reader
            .read_until(b'\n', &mut bytes)
            .map_err(|e| Failure::dependency(format!("{name}: line {number}: cannot be read: {e}")))?;
        if read == 0 {
            break;
        }
        let line = std::str::from_utf8(&bytes).map_err(|e| {
            Failure::dependency(format!(
                "{name}: line {number}: not UTF-8 at byte {} of the line; convert the file to UTF-8",
                e.valid_up_to() + 1
            ))
        })?;
        let line = line.trim_end_matches(['\n', '\r']);
        let is_jsonl = *jsonl.get_or_insert_with(|| line.trim_start().starts_with('{'));
        if !is_jsonl {
            records.push(Record {
                text: line.to_owned(),
                id: None,
                language: None,
            });
        } else if !line.trim().is_empty() {
            records.push(row(line).map_err(|why| Failure::dependency(format!("{name}: line {number}: {why}")))?);
        }
    }
    if records.is_empty() {
        return Err(Failure::dependency(format!(
            "{name} is empty; give JSONL with a `text` field, or plain lines"
        )));
    }
    Ok(records)
}

fn row(line: &str) -> Result<Record, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("broken JSON: {e}"))?;
    let text = match value.get("text") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => return Err(format!("field `text` should be a string, found {other}")),
        None => return Err("field `text` is missing".to_owned()),
    };
    let optional = |field: &str| match value.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(s)) => Ok(Some(s.clone())),
        Some(Value::Number(n)) => Ok(Some(n.to_string())),
        Some(other) => Err(format!("field `{field}` should be a string, found {other}")),
    };
    Ok(Record {
        text,
        id: optional("id")?,
        language: optional("language")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(input: &[u8]) -> String {
        format!("{:?}", parse("in", input).unwrap_err())
    }

    #[test]
    fn plain_lines_are_texts_and_empty_lines_are_empty_texts() {
        let records = parse("in", "one\n\nthree".as_bytes()).unwrap();
        assert_eq!(
            records.iter().map(|r| r.text.as_str()).collect::<Vec<_>>(),
            ["one", "", "three"]
        );
    }

    #[test]
    fn jsonl_rows_carry_id_and_language() {
        let records = parse("in", br#"{"text": "a", "id": 7, "language": "de"}"#.as_slice()).unwrap();
        assert_eq!(
            records[0],
            Record {
                text: "a".into(),
                id: Some("7".into()),
                language: Some("de".into())
            }
        );
    }

    #[test]
    fn a_broken_line_is_named() {
        assert!(message(b"{\"text\": \"a\"}\n{\"text\": ").contains("line 2: broken JSON"));
        assert!(message(b"{\"text\": \"a\"}\n{\"txt\": \"b\"}").contains("line 2: field `text` is missing"));
        assert!(message(b"{\"text\": 3}").contains("should be a string"));
        assert!(message(b"ok\n\xff\xfe").contains("line 2: not UTF-8 at byte 1"));
        assert!(message(b"").contains("is empty"));
    }
}
