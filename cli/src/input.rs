//! Input texts: rows with a column `text`, or plain lines.

use std::{fs::File, io::Read, path::Path};

use isomer_datasets::{DatasetError, FileRow, is_readable, read_rows};
use serde_json::{Map, Value};

use crate::exit::Failure;

/// One text of the input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) text: String,
    /// The row's `id`, if it has one.
    pub(crate) id: Option<String>,
    /// The row's `language`, if it has one.
    pub(crate) language: Option<String>,
}

/// Reads all texts of a file, or of stdin for `None` and `-`: the rows of a data-set file,
/// recognised by its name, or a JSON array or plain lines, recognised by the content. A byte order
/// mark is not part of the first text.
pub(crate) fn read(path: Option<&Path>) -> Result<Vec<Record>, Failure> {
    let (name, records) = match path.filter(|path| path.as_os_str() != "-") {
        None => ("stdin".to_owned(), parse("stdin", "", std::io::stdin())?),
        Some(path) => {
            let name = path.display().to_string();
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            let is_table = is_readable(&name) && !JSON_LINES.contains(&ending.as_str());
            let records = if is_table || path.is_dir() {
                table(path)?
            } else {
                let file = File::open(path)
                    .map_err(|e| Failure::unreadable(format!("cannot read {name}: {e}; check --input"), &e))?;
                parse(&name, &ending, file)?
            };
            (name, records)
        }
    };
    if records.is_empty() {
        return Err(Failure::dependency(format!(
            "{name} is empty; give JSON lines, CSV, TSV or Parquet with a column `text`, or plain lines"
        )));
    }
    Ok(records)
}

/// Endings of files with a JSON object on each line.
const JSON_LINES: [&str; 2] = ["jsonl", "ndjson"];

/// The rows of a table, or of those in a folder.
fn table(path: &Path) -> Result<Vec<Record>, Failure> {
    let mut records = Vec::new();
    let taken = read_rows(path, |row: FileRow| {
        let record = record(&row.fields).map_err(|(field, problem)| row.error(Some(field), problem))?;
        records.push(record);
        Ok::<_, DatasetError>(true)
    });
    taken.map_err(|error| Failure::dependency(error.to_string()))?;
    Ok(records)
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
                .map_err(|e| Failure::unreadable(format!("cannot read {}: {e}; check --input", path.display()), &e))?;
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
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let failure = |why: String| Failure::dependency(format!("{name}: line {number}: {why}"));
        let value: Value = serde_json::from_str(line).map_err(|e| failure(format!("broken JSON: {e}")))?;
        rows.extend(read_row(&value).map_err(failure)?);
    }
    Ok(rows)
}

/// Texts of a file without columns. The extension determines JSON lines and plain lines (`.txt`),
/// else the first non-blank line does. A mixture of both kinds is refused.
fn parse(name: &str, ending: &str, mut source: impl Read) -> Result<Vec<Record>, Failure> {
    let mut bytes = Vec::new();
    source
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::dependency(format!("cannot read {name}: {e}")))?;
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let at = |number: usize, why: String| Failure::dependency(format!("{name}: line {number}: {why}"));
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let line = std::str::from_utf8(line).map_err(|e| {
            let place = e.valid_up_to() + 1;
            at(
                number,
                format!("not UTF-8 at byte {place} of the line; convert the file to UTF-8"),
            )
        })?;
        lines.push(line.trim_end_matches(['\n', '\r']));
    }
    let numbered = || (1..).zip(&lines).filter(|(_, line)| !line.trim().is_empty());
    let first = numbered().next().map_or("", |(_, line)| line.trim_start());
    let is_plain = ending == "txt";
    if JSON_LINES.contains(&ending) || (!is_plain && first.starts_with('{')) {
        let rows = numbered().map(|(number, line)| json_row(line).map_err(|why| at(number, why)));
        return rows.collect();
    }
    if !is_plain
        && first.starts_with('[')
        && let Ok(elements) = serde_json::from_slice::<Vec<Value>>(bytes)
    {
        let rows = (1..).zip(elements).map(|(number, element)| {
            let row = element_row(element);
            row.map_err(|why| Failure::dependency(format!("{name}: element {number}: {why}")))
        });
        return rows.collect();
    }
    if !is_plain && let Some((number, _)) = numbered().find(|(_, line)| is_row(line)) {
        return Err(at(
            number,
            "a JSON object with `text` after lines that are none; remove those lines, or name the file .txt if each line is a text".into(),
        ));
    }
    let texts = lines.into_iter().map(|line| Record {
        text: line.to_owned(),
        id: None,
        language: None,
    });
    Ok(texts.collect())
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('{') && json_row(line).is_ok()
}

fn json_row(line: &str) -> Result<Record, String> {
    let value = serde_json::from_str(line)
        .map_err(|e| format!("broken JSON: {e}; if the lines are texts, name the file .txt"))?;
    object_row(&value)
}

fn element_row(element: Value) -> Result<Record, String> {
    match element {
        Value::String(text) => Ok(Record {
            text,
            id: None,
            language: None,
        }),
        element => object_row(&element),
    }
}

fn object_row(value: &Value) -> Result<Record, String> {
    let fields = value.as_object().ok_or("not a JSON object")?;
    record(fields).map_err(|(field, problem)| format!("field `{field}` {problem}"))
}

/// The text of a row, or the invalid field and the reason.
fn record(fields: &Map<String, Value>) -> Result<Record, (&'static str, String)> {
    let text = match fields.get("text") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => return Err(("text", format!("should be a string, found {other}"))),
        None => return Err(("text", "is missing".to_owned())),
    };
    let optional = |field: &'static str| match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(s)) => Ok(Some(s.clone())),
        Some(Value::Number(n)) => Ok(Some(n.to_string())),
        Some(other) => Err((field, format!("should be a string, found {other}"))),
    };
    Ok(Record {
        text,
        id: optional("id")?,
        language: optional("language")?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    fn parsed(ending: &str, input: impl AsRef<[u8]>) -> Result<Vec<Record>, Failure> {
        parse("in", ending, input.as_ref())
    }

    fn texts(records: &[Record]) -> Vec<&str> {
        records.iter().map(|record| record.text.as_str()).collect()
    }

    fn message(ending: &str, input: &[u8]) -> String {
        format!("{:?}", parsed(ending, input).unwrap_err())
    }

    #[test]
    fn plain_lines_are_texts_and_empty_lines_are_empty_texts() {
        assert_eq!(texts(&parsed("", "one\n\nthree").unwrap()), ["one", "", "three"]);
        assert_eq!(texts(&parsed("log", "one\r\n[two]\r\n").unwrap()), ["one", "[two]"]);
        // By its extension, the file consists of plain lines.
        let rows = "{\"text\": \"a\"}\n";
        assert_eq!(texts(&parsed("txt", rows).unwrap()), [rows.trim()]);
    }

    #[test]
    fn rows_carry_id_and_language_in_every_form() {
        let expected = [("ä \"b\"", Some("7"), Some("de")), ("c", None, None)];
        let folder = tempfile::tempdir().unwrap();
        let lines = "{\"text\": \"ä \\\"b\\\"\", \"id\": 7, \"language\": \"de\"}\n\n{\"text\": \"c\"}\n";
        let array = format!("[\n{}]", lines.trim().replace("}\n", "},"));
        for (name, content) in [
            ("a.jsonl", lines.to_owned()),
            ("b.JSONL", format!("\u{feff}{lines}")),
            ("c.ndjson", lines.replace('\n', "\r\n")),
            ("d", format!("\u{feff}{lines}")),
            ("e", format!("\n \r\n{lines}")),
            ("f.json", array.clone()),
            ("g", format!("\u{feff}\n{array}\n")),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            let records = read(Some(&path)).unwrap();
            let found: Vec<_> = records
                .iter()
                .map(|record| (record.text.as_str(), record.id.as_deref(), record.language.as_deref()))
                .collect();
            assert_eq!(found, expected, "{name}");
        }
        for (name, content) in [
            ("h.csv", "id,text\n7,\"ä \"\"b\"\"\"\n8,\"two\nlines\"\n"),
            (
                "i.tsv",
                "\u{feff}text\tid\r\n\"ä \"\"b\"\"\"\t7\r\n\"two\nlines\"\t8\r\n",
            ),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            let records = read(Some(&path)).unwrap();
            assert_eq!(texts(&records), ["ä \"b\"", "two\nlines"], "{name}");
            assert_eq!(records[1].id.as_deref(), Some("8"), "{name}");
        }
    }

    #[test]
    fn an_array_of_strings_is_its_texts() {
        assert_eq!(texts(&parsed("json", "[\"a\", \"b\\nc\"]").unwrap()), ["a", "b\nc"]);
        assert!(message("", b"[\"a\", 3]").contains("element 2: not a JSON object"));
    }

    #[test]
    fn lines_of_two_kinds_are_refused() {
        assert!(message("", b"header\n{\"text\": \"a\"}\n").contains("line 2: a JSON object with `text`"));
        assert!(message("", b"{\"text\": \"a\"}\nplain\n").contains("line 2: broken JSON"));
        assert!(message("jsonl", b"plain\n").contains("line 1: broken JSON"));
        // A brace alone does not make a row.
        assert_eq!(parsed("", "a\n{b}\n{\"c\": 1}\n").unwrap().len(), 3);
    }

    #[test]
    fn a_broken_line_is_named() {
        assert!(message("", b"{\"text\": \"a\"}\n{\"text\": ").contains("line 2: broken JSON"));
        assert!(message("", b"{\"text\": \"a\"}\n{\"txt\": \"b\"}").contains("line 2: field `text` is missing"));
        assert!(message("", b"{\"text\": 3}").contains("should be a string"));
        assert!(message("", b"ok\n\xff\xfe").contains("line 2: not UTF-8 at byte 1"));
        let folder = tempfile::tempdir().unwrap();
        for name in ["empty", "empty.jsonl", "empty.csv"] {
            let path = folder.path().join(name);
            fs::write(&path, if name == "empty.csv" { "text\n" } else { "" }).unwrap();
            let error = format!("{:?}", read(Some(&path)).unwrap_err());
            assert!(error.contains("is empty"), "{name}: {error}");
        }
        let path = folder.path().join("other.csv");
        fs::write(&path, "id,content\n1,a\n").unwrap();
        let error = format!("{:?}", read(Some(&path)).unwrap_err());
        assert!(
            error.contains("other.csv") && error.contains("line 2") && error.contains("text"),
            "{error}"
        );
    }
}
