//! `history.md`: the releases as a table.

use super::{History, tables::sections};
use crate::markdown::plain;

pub(super) fn render(history: &History) -> String {
    let mut page = format!("# Releases of {}\n\n", plain(&history.encoder));
    for sentence in history.headline.iter().chain(&history.notes) {
        page.push_str(&format!("- {}\n", plain(sentence)));
    }
    page.push('\n');
    for section in sections(history) {
        section.markdown(&mut page);
    }
    page
}
