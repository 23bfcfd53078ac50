//! Tables of texts, which Markdown, HTML and the command line show alike.

use minijinja::{Environment, HtmlEscape, Value};

use crate::{
    html,
    markdown_table::{plain, row},
};

/// Adds `text-tables.html`, the part of a page that shows `sections`.
pub(crate) fn add_to(environment: &mut Environment<'_>) -> Result<(), minijinja::Error> {
    environment.add_filter("name", html::name);
    environment.add_filter("number", number);
    environment.add_template("text-tables.html", include_str!("page/text-tables.html"))
}

/// A number with its interval below it.
fn number(cell: String) -> Value {
    match cell.strip_suffix(']').and_then(|cell| cell.split_once(" [")) {
        Some((value, ends)) => Value::from_safe_string(format!(
            "{}<span class=\"under\">[{}]</span>",
            HtmlEscape(value),
            HtmlEscape(ends)
        )),
        None => html::name(cell),
    }
}

/// A table, ready for display.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct TextTable {
    /// Heading above the table. In a section, only details show it.
    pub title: String,
    /// A description of its numbers.
    pub note: String,
    pub head: Vec<String>,
    /// Whether each column contains numbers, not words.
    pub numbers: Vec<bool>,
    /// Cells, row by row.
    pub rows: Vec<Vec<String>>,
    /// Whether it is a detail, which is not shown on a terminal.
    pub detail: bool,
}

/// A table whose columns are added one by one, each heading beside its cells.
pub struct TableColumns<R> {
    rows: Vec<R>,
    pub(crate) table: TextTable,
}

impl TextTable {
    /// A table with a row for each item, and no columns yet.
    pub fn of<R: Copy>(rows: impl IntoIterator<Item = R>) -> TableColumns<R> {
        let rows: Vec<R> = rows.into_iter().collect();
        let table = Self {
            rows: vec![Vec::new(); rows.len()],
            ..Self::default()
        };
        TableColumns { rows, table }
    }

    fn markdown(&self, page: &mut String) {
        if self.detail {
            page.push_str(&format!("{}:\n\n", plain(&self.title)));
        }
        self.cells(page, escaped);
        if !self.note.is_empty() {
            page.push_str(&format!("{}\n\n", plain(&self.note)));
        }
    }

    fn cells(&self, page: &mut String, shown: fn(&str) -> String) {
        row(page, &self.head);
        let rule = |number: &bool| if *number { "--:" } else { "---" }.to_owned();
        row(page, &self.numbers.iter().map(rule).collect::<Vec<_>>());
        for cells in &self.rows {
            row(page, &cells.iter().map(|cell| shown(cell)).collect::<Vec<_>>());
        }
        page.push('\n');
    }
}

impl<R: Copy> TableColumns<R> {
    /// Adds a column of words.
    #[must_use]
    pub fn words(self, head: impl Into<String>, cell: impl Fn(R) -> String) -> Self {
        self.column(head.into(), false, cell)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn number(self, head: impl Into<String>, cell: impl Fn(R) -> String) -> Self {
        self.column(head.into(), true, cell)
    }

    /// Adds columns of numbers that have one source.
    #[must_use]
    pub(crate) fn numbers<const N: usize>(self, heads: [&str; N], cells: impl Fn(R) -> [String; N]) -> Self {
        let each = |table: Self, (i, head): (usize, &str)| table.number(head, |row| cells(row)[i].clone());
        heads.into_iter().enumerate().fold(self, each)
    }

    fn column(mut self, head: String, number: bool, cell: impl Fn(R) -> String) -> Self {
        self.table.head.push(head);
        self.table.numbers.push(number);
        for (cells, row) in self.table.rows.iter_mut().zip(&self.rows) {
            cells.push(cell(*row));
        }
        self
    }

    /// Adds the table to a page; its cells are in Markdown already.
    pub(crate) fn write(self, page: &mut String) {
        self.table.cells(page, str::to_owned);
    }

    /// The finished table.
    pub fn titled(self, title: impl Into<String>, note: impl Into<String>) -> TextTable {
        TextTable {
            title: title.into(),
            note: note.into(),
            ..self.table
        }
    }
}

/// A section of a page: paragraphs, a list, then tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Section {
    pub title: String,
    pub paragraphs: Vec<String>,
    pub list: Vec<String>,
    pub tables: Vec<TextTable>,
}

impl From<TextTable> for Section {
    /// A section for a table that is a detail on terminals only.
    fn from(table: TextTable) -> Self {
        Self {
            title: table.title.clone(),
            tables: vec![TextTable { detail: false, ..table }],
            ..Self::default()
        }
    }
}

impl Section {
    /// Adds the section to a page in Markdown.
    pub(crate) fn markdown(&self, page: &mut String) {
        page.push_str(&format!("## {}\n\n", plain(&self.title)));
        for paragraph in &self.paragraphs {
            page.push_str(&format!("{}\n\n", plain(paragraph)));
        }
        for one in &self.list {
            page.push_str(&format!("- {}\n", plain(one)));
        }
        if !self.list.is_empty() {
            page.push('\n');
        }
        for table in &self.tables {
            table.markdown(page);
        }
    }
}

/// A cell in Markdown. Numbers cannot form a link, so that intervals keep their brackets.
fn escaped(cell: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || " .,+−%[]".contains(c);
    if cell.chars().all(is_number) {
        cell.to_owned()
    } else {
        plain(cell)
    }
}

/// The cell of a missing value.
pub(crate) fn dash() -> String {
    "–".to_owned()
}
