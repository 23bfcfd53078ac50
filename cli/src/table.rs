//! Tables on a terminal.

use comfy_table::{ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY};

/// An empty table. Where it would be wider than the terminal, it wraps the text of its cells.
/// Output that goes to a file or a pipe is not wrapped.
pub(crate) fn new() -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// The most columns that a line of a table takes on a terminal of 80.
#[cfg(test)]
pub(crate) fn width_on_80(table: &mut Table) -> usize {
    table.set_width(80);
    let widest = table.lines().map(|line| line.chars().count()).max();
    widest.unwrap_or_default()
}
