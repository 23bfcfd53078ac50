//! `ratings.md`.

use super::{HumanRatings, tables::tables};
use crate::{markdown::plain, text_table::Section};

pub(super) fn render(ratings: &HumanRatings) -> String {
    let mut page = "# Ratings by people\n\n".to_owned();
    for sentence in &ratings.headline {
        page.push_str(&format!("- {}\n", plain(sentence)));
    }
    for note in &ratings.notes {
        page.push_str(&format!("- {}.\n", plain(note)));
    }
    page.push('\n');
    for table in tables(ratings) {
        Section::from(table).markdown(&mut page);
    }
    page.push_str(&format!(
        "Run {}, suite {}.\n",
        plain(&ratings.run),
        plain(&ratings.suite)
    ));
    page
}
