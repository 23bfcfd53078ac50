//! Tables on a terminal.

use isomer_eval::report::TableColumns;
pub(crate) use isomer_eval::report::{
    TextTable,
    terminal::{TerminalTable as Table, empty_table as new},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Rows as a table and as objects of a document, declared field by field.
pub(crate) struct Records<R> {
    rows: Vec<R>,
    columns: TableColumns<R>,
    objects: Vec<Map<String, Value>>,
}

impl<R: Copy> Records<R> {
    /// Rows without fields.
    pub(crate) fn of(rows: impl IntoIterator<Item = R>) -> Self {
        let rows: Vec<R> = rows.into_iter().collect();
        Self {
            columns: TextTable::of(rows.iter().copied()),
            objects: vec![Map::new(); rows.len()],
            rows,
        }
    }

    /// Adds a name.
    #[must_use]
    pub(crate) fn name(self, head: &str, key: &str, value: impl Fn(R) -> String) -> Self {
        self.words(head, &value).key(key, value)
    }

    /// Adds a value, which `shown` writes for the table.
    #[must_use]
    pub(crate) fn value<T: Serialize>(
        self,
        head: &str,
        key: &str,
        value: impl Fn(R) -> T,
        shown: impl Fn(T) -> String,
    ) -> Self {
        self.number(head, |row| shown(value(row))).key(key, value)
    }

    /// Adds a value to the document alone.
    #[must_use]
    pub(crate) fn key<T: Serialize>(mut self, key: &str, value: impl Fn(R) -> T) -> Self {
        for (object, row) in self.objects.iter_mut().zip(&self.rows) {
            object.insert(key.to_owned(), json!(value(*row)));
        }
        self
    }

    /// Adds a column of words to the table alone.
    #[must_use]
    pub(crate) fn words(mut self, head: &str, cell: impl Fn(R) -> String) -> Self {
        self.columns = self.columns.words(head, cell);
        self
    }

    /// Adds a column of numbers to the table alone.
    #[must_use]
    pub(crate) fn number(mut self, head: &str, cell: impl Fn(R) -> String) -> Self {
        self.columns = self.columns.number(head, cell);
        self
    }

    /// The object of each row.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Value> {
        self.objects.iter().cloned().map(Value::Object)
    }

    /// A list of the objects.
    pub(crate) fn document(&self) -> Value {
        self.objects().collect()
    }

    pub(crate) fn table(self) -> Table {
        self.columns.into()
    }
}

/// Maximum width of a table's lines on a terminal of 80 columns.
#[cfg(test)]
pub(crate) fn width_on_80(table: &mut Table) -> usize {
    table.set_width(80);
    let text = table.to_string();
    text.lines().map(|line| line.chars().count()).max().unwrap_or_default()
}
