//! Tables on a terminal.

use comfy_table::{ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY};

/// An empty table. If it would be wider than the terminal, the text of its cells is wrapped. Output
/// that goes to a file or a pipe is not wrapped.
pub(crate) fn new() -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// The widest line of a table on a terminal of 80 columns.
#[cfg(test)]
pub(crate) fn width_on_80(table: &mut Table) -> usize {
    table.set_width(80);
    let widest = table.lines().map(|line| line.chars().count()).max();
    widest.unwrap_or_default()
}
