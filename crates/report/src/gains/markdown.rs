//! `gains.md`.

use super::{Gains, tables};
use crate::{markdown::plain, text_table::Section};

pub(super) fn render(gains: &Gains) -> String {
    let mut page = "# Gains by augmentation (GASE)\n\n".to_owned();
    for sentence in gains.headline.iter().chain(&gains.notes) {
        page.push_str(&format!("- {}\n", plain(sentence)));
    }
    page.push('\n');
    for table in tables(gains) {
        Section::from(table).markdown(&mut page);
    }
    page.push_str(&format!("Profile {}.\n", plain(&gains.profile)));
    page
}
