//! Tables on a terminal.

pub(crate) use isomer_eval::report::terminal::empty_table as new;

/// Maximum width of a table's lines on a terminal of 80 columns.
#[cfg(test)]
pub(crate) fn width_on_80(table: &mut comfy_table::Table) -> usize {
    table.set_width(80);
    let widest = table.lines().map(|line| line.chars().count()).max();
    widest.unwrap_or_default()
}
