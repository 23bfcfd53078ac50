//! Tables of numbers: CSV, TSV, JSON and JSONL with named columns.

use std::{io::Read, path::Path};

use serde_json::{Map, Value};

use crate::{args::stats::TableArgs, exit::Failure};

/// The cells of a column.
#[derive(Debug, Clone, PartialEq)]
enum Cells {
    /// Numbers; NaN for an empty cell.
    Numbers(Vec<f64>),
    /// Anything else.
    Labels(Vec<String>),
}

/// A table with named columns.
#[derive(Debug)]
pub(super) struct Table {
    source: String,
    columns: Vec<(String, Cells)>,
    /// Columns to use, in order.
    chosen: Vec<usize>,
}

impl Table {
    /// Reads the table named by the arguments.
    pub(super) fn read(args: &TableArgs) -> Result<Self, Failure> {
        let mut table = Self::open(args.input.as_deref())?;
        if !args.columns.is_empty() {
            table.chosen = args
                .columns
                .iter()
                .map(|name| table.position("--column", name))
                .collect::<Result<_, _>>()?;
        }
        Ok(table)
    }

    /// Reads a file, or stdin.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let (source, text) = match path.filter(|path| path.as_os_str() != "-") {
            Some(path) => {
                let source = path.display().to_string();
                let read = std::fs::read_to_string(path);
                (
                    source.clone(),
                    read.map_err(|e| failure(&source, format!("cannot be read: {e}")))?,
                )
            }
            None => {
                let mut text = String::new();
                let read = std::io::stdin().read_to_string(&mut text);
                read.map_err(|e| failure("stdin", format!("cannot be read: {e}")))?;
                ("stdin".to_owned(), text)
            }
        };
        let tabs =
            source.ends_with(".tsv") || (source == "stdin" && text.lines().next().is_some_and(|l| l.contains('\t')));
        let columns = if text.trim_start().starts_with(['{', '[']) {
            json(&text)
        } else {
            separated(&text, if tabs { b'\t' } else { b',' })
        };
        let typed = |(name, cells): Column| typed(&name, cells).map(|cells| (name, cells));
        let columns: Result<Vec<_>, String> = columns.and_then(|columns| columns.into_iter().map(typed).collect());
        let columns = columns.map_err(|why| failure(&source, why))?;
        let numeric = |at: &usize| matches!(columns[*at].1, Cells::Numbers(_));
        let chosen: Vec<usize> = (0..columns.len()).filter(numeric).collect();
        if chosen.is_empty() {
            return Err(failure(
                &source,
                "no column holds numbers; the first line names the columns".to_owned(),
            ));
        }
        Ok(Self {
            source,
            columns,
            chosen,
        })
    }

    fn position(&self, flag: &str, name: &str) -> Result<usize, Failure> {
        self.columns.iter().position(|(known, _)| known == name).ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(|(known, _)| known.as_str()).collect();
            let hint = isomer_config::suggest(name, &names);
            Failure::usage(format!("{flag}: {} has no column {name:?}; {hint}", self.source))
        })
    }

    /// The chosen columns with their numbers; empty cells are errors.
    pub(super) fn numbers(&self) -> Result<Vec<(String, Vec<f64>)>, Failure> {
        let columns = self.ratings()?;
        for (name, values) in &columns {
            if let Some(row) = values.iter().position(|value| value.is_nan()) {
                let why = format!(
                    "row {}: column {name:?} is empty; fill it in or leave the row out",
                    row + 1
                );
                return Err(failure(&self.source, why));
            }
        }
        Ok(columns)
    }

    /// The chosen columns with their numbers; NaN for an empty cell.
    pub(super) fn ratings(&self) -> Result<Vec<(String, Vec<f64>)>, Failure> {
        self.chosen
            .iter()
            .map(|at| match &self.columns[*at] {
                (name, Cells::Numbers(values)) => Ok((name.clone(), values.clone())),
                (name, Cells::Labels(_)) => Err(failure(&self.source, format!("column {name:?} holds no numbers"))),
            })
            .collect()
    }

    /// Takes a column as labels and removes it from the chosen ones.
    pub(super) fn take_labels(&mut self, flag: &str, name: &str) -> Result<Vec<String>, Failure> {
        let at = self.position(flag, name)?;
        self.chosen.retain(|chosen| *chosen != at);
        Ok(match &self.columns[at].1 {
            Cells::Labels(labels) => labels.clone(),
            Cells::Numbers(values) => values.iter().map(ToString::to_string).collect(),
        })
    }

    /// Names of rows: the first column of labels, or row numbers from 1.
    pub(super) fn row_names(&self) -> Vec<String> {
        let labels = self.columns.iter().find_map(|(_, cells)| match cells {
            Cells::Labels(labels) => Some(labels.clone()),
            Cells::Numbers(_) => None,
        });
        let rows = self.columns.first().map_or(0, |(_, cells)| match cells {
            Cells::Numbers(values) => values.len(),
            Cells::Labels(labels) => labels.len(),
        });
        labels.unwrap_or_else(|| (1..=rows).map(|row| row.to_string()).collect())
    }
}

fn failure(source: &str, why: String) -> Failure {
    Failure::dependency(format!("{source}: {why}"))
}

type Column = (String, Vec<String>);

fn separated(text: &str, delimiter: u8) -> Result<Vec<Column>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| e.to_string())?.clone();
    let mut columns: Vec<Column> = header.iter().map(|name| (name.to_owned(), Vec::new())).collect();
    for record in reader.records() {
        let record = record.map_err(|e| e.to_string())?;
        for (column, cell) in columns.iter_mut().zip(record.iter()) {
            column.1.push(cell.to_owned());
        }
    }
    named(columns)
}

/// `{"a": [1, 2]}`, `[{"a": 1}, {"a": 2}]`, or such objects one per line.
fn json(text: &str) -> Result<Vec<Column>, String> {
    let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let documents = documents.map_err(|e| format!("broken JSON: {e}"))?;
    match documents.as_slice() {
        [Value::Object(table)] if table.values().all(Value::is_array) => named(
            table
                .iter()
                .map(|(name, cells)| (name.clone(), cells.as_array().into_iter().flatten().map(cell).collect()))
                .collect(),
        ),
        [Value::Array(rows)] => objects(rows),
        rows => objects(rows),
    }
}

fn objects(rows: &[Value]) -> Result<Vec<Column>, String> {
    let row = |number: usize| -> Result<&Map<String, Value>, String> {
        rows[number].as_object().ok_or_else(|| {
            format!(
                "row {}: found {}, should be an object such as {{\"a\": 0.81}}",
                number + 1,
                rows[number]
            )
        })
    };
    let mut names: Vec<&String> = Vec::new();
    for number in 0..rows.len() {
        for name in row(number)?.keys() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let column = |name: &String| -> Result<Column, String> {
        let cells: Result<Vec<String>, String> = (0..rows.len())
            .map(|number| Ok(row(number)?.get(name).map(cell).unwrap_or_default()))
            .collect();
        Ok((name.clone(), cells?))
    };
    named(names.into_iter().map(column).collect::<Result<_, _>>()?)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Checks that names are unique, columns have equal length and there is at least one row.
fn named(columns: Vec<Column>) -> Result<Vec<Column>, String> {
    for (at, (name, cells)) in columns.iter().enumerate() {
        if columns[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(format!("two columns are called {name:?}"));
        }
        let rows = columns[0].1.len();
        if cells.len() != rows {
            let first = &columns[0].0;
            return Err(format!(
                "column {name:?} has {} rows, {first:?} has {rows}",
                cells.len()
            ));
        }
    }
    match columns.first() {
        Some((_, cells)) if !cells.is_empty() => Ok(columns),
        _ => Err("there are no rows under the names of the columns".to_owned()),
    }
}

/// A column of numbers, or of labels. A mixed column is refused, because it is probably a mistake
/// that would go unnoticed.
fn typed(name: &str, cells: Vec<String>) -> Result<Cells, String> {
    let numbers: Vec<Option<f64>> = cells
        .iter()
        .map(|cell| {
            if cell.is_empty() {
                Some(f64::NAN)
            } else {
                cell.parse().ok()
            }
        })
        .collect();
    let are_numbers = |at: usize| numbers[at].is_some() && !cells[at].is_empty();
    if !(0..cells.len()).any(are_numbers) {
        return Ok(Cells::Labels(cells));
    }
    if let Some(at) = numbers.iter().position(Option::is_none) {
        return Err(format!(
            "row {}: column {name:?}: {:?} is not a number, but other rows have numbers",
            at + 1,
            cells[at]
        ));
    }
    if let Some(at) = numbers
        .iter()
        .zip(&cells)
        .position(|(number, cell)| !cell.is_empty() && !number.is_some_and(f64::is_finite))
    {
        return Err(format!(
            "row {}: column {name:?}: {} is not a finite number",
            at + 1,
            cells[at]
        ));
    }
    Ok(Cells::Numbers(numbers.into_iter().flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<Table, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Table::open(Some(file.path()))
    }

    fn refusal(text: &str) -> String {
        format!("{:?}", table(text).unwrap_err())
    }

    #[test]
    fn csv_and_json_say_the_same() {
        let expected = vec![("a".to_owned(), vec![0.5, 0.25]), ("b".to_owned(), vec![1.0, -2.0])];
        for text in [
            "dataset,a,b\nx,0.5,1\ny, 0.25 ,-2\n",
            r#"{"dataset": ["x", "y"], "a": [0.5, 0.25], "b": [1, -2]}"#,
            r#"[{"dataset": "x", "a": 0.5, "b": 1}, {"dataset": "y", "a": 0.25, "b": -2}]"#,
            "{\"dataset\": \"x\", \"a\": 0.5, \"b\": 1}\n{\"dataset\": \"y\", \"a\": 0.25, \"b\": -2}\n",
        ] {
            let table = table(text).unwrap();
            assert_eq!(table.numbers().unwrap(), expected);
            assert_eq!(table.row_names(), ["x", "y"]);
        }
    }

    #[test]
    fn an_empty_cell_is_a_missing_rating_and_no_score() {
        let table = table("a,b\n1,\n2,3\n").unwrap();
        assert!(table.ratings().unwrap()[1].1[0].is_nan());
        let error = format!("{:?}", table.numbers().unwrap_err());
        assert!(error.contains("row 1: column \\\"b\\\" is empty"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_row() {
        assert!(refusal("a,b\n1,2\n3,4x\n").contains("row 2: column \\\"b\\\": \\\"4x\\\" is not a number"));
        assert!(refusal("a,b\n1,2\n3,nan\n").contains("is not a finite number"));
        assert!(refusal("a,a\n1,2\n").contains("two columns are called"));
        assert!(refusal("a,b\n").contains("no rows"));
        assert!(refusal("name\nx\n").contains("no column holds numbers"));
        assert!(refusal(r#"{"a": [1, 2], "b": [1]}"#).contains("has 1 rows"));
    }

    #[test]
    fn a_column_that_is_not_there_is_named_with_the_nearest() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "minilm,mpnet\n1,2\n").unwrap();
        let args = TableArgs {
            input: Some(file.path().to_owned()),
            columns: vec!["mpnt".to_owned()],
        };
        let error = format!("{:?}", Table::read(&args).unwrap_err());
        assert!(error.contains("did you mean `mpnet`?"), "{error}");
    }
}
