//! Rows of a table, whatever the format of its files. Only one row is in memory at a time, and each
//! error names file, line (or row) and field.

use std::{
    io::BufRead,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parquet::record::{Field, Row as ParquetRow, reader::RowIter};
use serde_json::{Map, Value};

use super::{
    DatasetError, bounds,
    error::Unit,
    files::{Files, Part, Table},
    format::Format,
    quotes::Quotes,
    row::FieldMap,
    row::{Location, RawRow, Row, kind},
};

/// Rows of a table, file after file.
pub(super) struct Rows<'a> {
    label: String,
    parts: std::slice::Iter<'a, Part<'a>>,
    current: Option<Reader<'a>>,
    fields: Arc<FieldMap>,
}

enum Reader<'a> {
    Lines(Lines<'a>),
    Separated(Box<DelimitedReader<'a>>),
    Columns(Box<Columns>),
}

impl<'a> Rows<'a> {
    /// Opens a table by its name. All of its files must exist before the first row is read.
    pub(super) fn open(files: &'a Files<'a>, name: &str) -> Result<Self, DatasetError> {
        let table = files.table(name)?;
        for part in &table.parts {
            drop(Reader::open(part)?);
        }
        Ok(Self {
            label: files.label(name),
            parts: table.parts.iter(),
            current: None,
            fields: Arc::clone(&files.fields),
        })
    }

    /// Name of the table in messages.
    pub(super) fn file(&self) -> &str {
        &self.label
    }

    pub(super) fn next_row(&mut self) -> Result<Option<Row>, DatasetError> {
        loop {
            let reader = match &mut self.current {
                Some(reader) => reader,
                None => match self.parts.next() {
                    Some(part) => self.current.insert(Reader::open(part)?),
                    None => return Ok(None),
                },
            };
            match reader.next()? {
                Some(row) => return Ok(Some(Row::new(row, &self.fields))),
                None => self.current = None,
            }
        }
    }
}

impl<'a> Reader<'a> {
    fn open(part: &'a Part<'a>) -> Result<Self, DatasetError> {
        Ok(match part.form.format {
            Format::Jsonl => Self::Lines(Lines::of(part)?),
            Format::Separated(separator) => Self::Separated(Box::new(DelimitedReader::open(part, separator)?)),
            Format::Parquet => Self::Columns(Box::new(Columns::open(part)?)),
        })
    }

    fn next(&mut self) -> Result<Option<RawRow>, DatasetError> {
        match self {
            Self::Lines(lines) => lines.next_object(),
            Self::Separated(cells) => cells.next(),
            Self::Columns(columns) => columns.next(),
        }
    }
}

/// Lines of a UTF-8 file with their numbers, blank ones skipped.
pub(super) struct Lines<'a> {
    file: Arc<str>,
    reader: Box<dyn BufRead + 'a>,
    buffer: Vec<u8>,
    line: u64,
    offset: u64,
}

impl<'a> Lines<'a> {
    /// The lines of a table in one file.
    pub(super) fn open(table: &'a Table<'a>) -> Result<Self, DatasetError> {
        match table.parts.as_slice() {
            [part] => Self::of(part),
            parts => Err(DatasetError::Broken {
                file: parts.first().map(|part| part.label.clone()).unwrap_or_default(),
                problem: format!("{} shards where one file of lines is expected; join them", parts.len()),
            }),
        }
    }

    fn of(part: &'a Part<'a>) -> Result<Self, DatasetError> {
        Ok(Self {
            file: part.label.as_str().into(),
            reader: part.text()?,
            buffer: Vec::new(),
            line: 0,
            offset: 0,
        })
    }

    /// Name of the file in messages.
    pub(super) fn file(&self) -> Arc<str> {
        Arc::clone(&self.file)
    }

    /// The next line that is not blank, without its ending, and its number from 1.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &str)>, DatasetError> {
        loop {
            self.offset += self.buffer.len() as u64;
            self.buffer.clear();
            let unreadable = |source| DatasetError::Unreadable {
                file: self.file.to_string(),
                source,
            };
            if bounds::read_line(&mut self.reader, &mut self.buffer).map_err(unreadable)? == 0 {
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
                file: self.file.to_string(),
                line: self.line,
                offset: self.offset + e.valid_up_to() as u64,
            }),
        }
    }

    /// The next JSON object.
    fn next_object(&mut self) -> Result<Option<RawRow>, DatasetError> {
        let file = Arc::clone(&self.file);
        let Some((line, text)) = self.next()? else {
            return Ok(None);
        };
        let place = Location {
            file,
            unit: Unit::Line,
            number: line,
        };
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Ok(Some(RawRow {
                place,
                fields,
                typed: true,
            })),
            Ok(other) => Err(place.error(None, format!("{} where an object is expected", kind(&other)))),
            Err(e) => Err(match not_a_number(text) {
                Some((field, token)) => place.error(
                    field.as_deref(),
                    format!("{token} is not a number; JSON has no such value"),
                ),
                None => place.error(None, broken(&e)),
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

/// Finds a bare `NaN` or `Infinity`, as written by Python's json, with the preceding field.
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

/// Records of a CSV or TSV file. Cells have no types: a field's reader decides what a cell must be.
struct DelimitedReader<'a> {
    file: Arc<str>,
    header: Vec<String>,
    reader: csv::Reader<Box<dyn BufRead + 'a>>,
    record: csv::StringRecord,
    quotes: Quotes,
}

/// The meaning of quotes in a table, which is read once.
fn quotes_of(part: &Part<'_>, separator: u8) -> Result<Quotes, DatasetError> {
    Ok(match part.quotes.get() {
        Some(known) => *known,
        None if separator == b'\t' => {
            let found = Quotes::of_tsv(part.text()?);
            *part.quotes.get_or_init(|| found)
        }
        None => Quotes::Enclose,
    })
}

impl<'a> DelimitedReader<'a> {
    fn open(part: &'a Part<'a>, separator: u8) -> Result<Self, DatasetError> {
        let file: Arc<str> = part.label.as_str().into();
        let quotes = quotes_of(part, separator)?;
        let mut reader = quotes.reader(part.text()?, separator);
        let header = reader.headers().map_err(|error| cells_error(&file, error))?;
        let header: Vec<String> = header.iter().map(|name| quotes.text(name.trim())).collect();
        if let Some((_, twice)) = header.iter().enumerate().find(|(i, name)| header[..*i].contains(name)) {
            let place = Location {
                file,
                unit: Unit::Line,
                number: 1,
            };
            return Err(place.error(Some(twice), "the header has this column twice; rename one"));
        }
        Ok(Self {
            file,
            header,
            reader,
            record: csv::StringRecord::new(),
            quotes,
        })
    }

    fn next(&mut self) -> Result<Option<RawRow>, DatasetError> {
        let more = self.reader.read_record(&mut self.record);
        if !more.map_err(|error| cells_error(&self.file, error))? {
            return Ok(None);
        }
        let place = Location {
            file: Arc::clone(&self.file),
            unit: Unit::Line,
            number: self.record.position().map_or(0, csv::Position::line),
        };
        let cells = || self.header.iter().zip(self.record.iter());
        let doubts = cells().find_map(|(name, cell)| Some((name, self.quotes.doubt(cell, self.header.len())?)));
        if let Some((name, problem)) = doubts {
            return Err(place.error(Some(name), problem));
        }
        let fields = cells().map(|(name, cell)| (name.clone(), Value::String(self.quotes.text(cell))));
        Ok(Some(RawRow {
            place,
            fields: fields.collect(),
            typed: false,
        }))
    }
}

fn cells_error(file: &str, error: csv::Error) -> DatasetError {
    let place = |position: &Option<csv::Position>| Location {
        file: file.into(),
        unit: Unit::Line,
        number: position.as_ref().map_or(1, csv::Position::line),
    };
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => place(pos).error(
            None,
            format!("{len} cells where the header has {expected_len}; is a separator or a quote missing or too many?"),
        ),
        csv::ErrorKind::Utf8 { pos, .. } => place(pos).error(None, "not UTF-8; convert the file to UTF-8"),
        _ => match error.into_kind() {
            csv::ErrorKind::Io(source) => DatasetError::Unreadable {
                file: file.to_owned(),
                source,
            },
            other => DatasetError::Broken {
                file: file.to_owned(),
                problem: format!("cannot be read as separated cells: {other:?}"),
            },
        },
    }
}

/// Rows of a Parquet file.
struct Columns {
    file: Arc<str>,
    rows: RowIter<'static>,
    number: u64,
}

impl Columns {
    fn open(part: &Part<'_>) -> Result<Self, DatasetError> {
        let file = part.columns()?;
        let rows = sound(|| RowIter::from_file_into(file)).ok_or_else(|| DatasetError::Broken {
            file: part.label.clone(),
            problem: "not a sound Parquet file: its schema does not make sense".to_owned(),
        })?;
        Ok(Self {
            file: part.label.as_str().into(),
            rows,
            number: 0,
        })
    }

    fn next(&mut self) -> Result<Option<RawRow>, DatasetError> {
        let read = sound(|| self.rows.next().map(|row| row.map(|row| object(&row))));
        self.number += 1;
        let place = Location {
            file: Arc::clone(&self.file),
            unit: Unit::Row,
            number: self.number,
        };
        match read {
            Some(None) => Ok(None),
            Some(Some(Ok(fields))) => Ok(Some(RawRow {
                place,
                fields,
                typed: true,
            })),
            Some(Some(Err(error))) => Err(place.error(None, format!("cannot be read: {error}"))),
            None => Err(place.error(None, "cannot be read: the file's schema or pages do not make sense")),
        }
    }
}

fn object(row: &ParquetRow) -> Map<String, Value> {
    row.get_column_iter()
        .map(|(name, field)| (name.clone(), value(field)))
        .collect()
}

/// Converts a value. Many writers omit the mark that a column of bytes contains UTF-8, so bytes
/// that are valid UTF-8 become a text. Other bytes become an object that says so, which no reader
/// takes for a text.
fn value(field: &Field) -> Value {
    match field {
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => serde_json::json!({ "bytes that are not UTF-8": bytes.len() }),
        },
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::Group(row) => Value::Object(object(row)),
        field => field.to_json_value(),
    }
}

/// The library's result for a file; `None` if it panics, as it does for invalid schemas and pages.
/// Its state is not used again.
fn sound<T>(read: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok()
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
