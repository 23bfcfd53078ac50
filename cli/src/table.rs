//! Tables on a terminal.

pub(crate) use isomer_eval::report::terminal::{TextTable as Table, empty_table as new};

/// Maximum width of a table's lines on a terminal of 80 columns.
#[cfg(test)]
pub(crate) fn width_on_80(table: &mut Table) -> usize {
    table.set_width(80);
    let text = table.to_string();
    text.lines().map(|line| line.chars().count()).max().unwrap_or_default()
}
