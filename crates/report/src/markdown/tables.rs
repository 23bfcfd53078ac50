//! The papers' tables, and the missing values.

use super::{Report, header, plain, row};
use crate::{RowKind, Table};

/// A heading, a table and its caption, for each table.
pub(super) fn write(page: &mut String, report: &Report) {
    if report.tables.is_empty() {
        return;
    }
    page.push_str("## The papers' tables\n\n");
    for table in &report.tables {
        one(page, table);
    }
}

fn one(page: &mut String, table: &Table) {
    page.push_str(&format!(
        "### As {}\n\n{}\n\n",
        plain(&table.paper),
        plain(&table.caption)
    ));
    let headings: Vec<String> = table
        .columns
        .iter()
        .map(|column| match column.group.as_str() {
            "" => plain(&column.name),
            group => format!("{} · {}", plain(group), plain(&column.name)),
        })
        .collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    header(page, &headings, words(table));
    for line in &table.rows {
        let cells: Vec<String> = line
            .cells
            .iter()
            .map(|cell| match (line.kind, cell.text.as_str()) {
                (_, "") => String::new(),
                (RowKind::Sum, text) => format!("**{}**", plain(text)),
                (_, text) => plain(text),
            })
            .collect();
        row(page, &cells);
    }
    page.push('\n');
}

/// The number of leading columns without numbers.
fn words(table: &Table) -> usize {
    let number = |c: usize| {
        let mut rows = table.rows.iter();
        rows.any(|row| row.cells.get(c).is_some_and(|cell| cell.value.is_some()))
    };
    (0..table.columns.len())
        .find(|c| number(*c))
        .unwrap_or(table.columns.len())
}

/// Values that a reader may look for, and the reasons why they are missing.
pub(super) fn missing(page: &mut String, report: &Report) {
    if report.not_computed.is_empty() {
        return;
    }
    page.push_str("## Not computed\n\n");
    for one in &report.not_computed {
        page.push_str(&format!("- {}: {}\n", plain(&one.what), plain(&one.why)));
    }
    page.push('\n');
}
