//! Tables of texts, which Markdown, HTML and the command line show alike.

use minijinja::Environment;

use crate::{
    html,
    markdown::{header, plain, row},
};

/// Adds `text-tables.html`, the part of a page that shows `tables`.
pub(crate) fn add_to(environment: &mut Environment<'_>) -> Result<(), minijinja::Error> {
    environment.add_filter("name", html::name);
    environment.add_template("text-tables.html", include_str!("page/text-tables.html"))
}

/// A table, ready for display.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TextTable {
    /// Heading above the table.
    pub title: String,
    /// A description of its numbers.
    pub note: String,
    pub head: Vec<String>,
    /// Number of leading columns that contain words.
    pub words: usize,
    /// Cells, row by row.
    pub rows: Vec<Vec<String>>,
    /// Whether it is a detail, which is not shown on a terminal.
    pub detail: bool,
}

impl TextTable {
    /// Adds the table to a page in Markdown.
    pub(crate) fn markdown(&self, page: &mut String) {
        page.push_str(&format!("## {}\n\n", plain(&self.title)));
        let head: Vec<&str> = self.head.iter().map(String::as_str).collect();
        header(page, &head, self.words);
        for cells in &self.rows {
            row(page, &cells.iter().map(|cell| plain(cell)).collect::<Vec<_>>());
        }
        page.push_str(&format!("\n{}\n\n", plain(&self.note)));
    }
}

pub(crate) fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The cell of a missing value.
pub(crate) fn dash() -> String {
    "–".to_owned()
}
