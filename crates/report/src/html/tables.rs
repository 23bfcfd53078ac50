//! Headings of the papers' tables.

use minijinja::{Value, context};

/// Neighbouring columns of one group: the group's name and the number of columns.
pub(super) fn spans(columns: &Value) -> Vec<Value> {
    let mut spans: Vec<(String, usize)> = Vec::new();
    for column in columns.try_iter().into_iter().flatten() {
        let group = column
            .get_attr("group")
            .map(|group| group.to_string())
            .unwrap_or_default();
        match spans.last_mut() {
            Some((last, n)) if *last == group => *n += 1,
            _ => spans.push((group, 1)),
        }
    }
    spans.into_iter().map(|(group, n)| context! { group, n }).collect()
}

/// The beginning of a caption, for the collapsible section that contains the table.
pub(super) fn brief(caption: String) -> String {
    let ends = [". ", ": ", " (", "; "].into_iter().filter_map(|end| caption.find(end));
    let end = ends.min().unwrap_or(caption.len());
    caption[..end].trim_end_matches('.').to_owned()
}

/// The number of leading columns without numbers.
pub(super) fn words(table: &Value) -> usize {
    let number = |row: &Value, c: usize| {
        let value = row.get_attr("cells").and_then(|cells| cells.get_item_by_index(c));
        value
            .and_then(|cell| cell.get_attr("value"))
            .is_ok_and(|value| !value.is_none() && !value.is_undefined())
    };
    let columns = table
        .get_attr("columns")
        .ok()
        .and_then(|columns| columns.len())
        .unwrap_or_default();
    let rows: Vec<Value> = table
        .get_attr("rows")
        .and_then(|rows| rows.try_iter().map(Iterator::collect))
        .unwrap_or_default();
    (0..columns)
        .find(|c| rows.iter().any(|row| number(row, *c)))
        .unwrap_or(columns)
}
