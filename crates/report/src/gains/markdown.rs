//! `gains.md`.

use super::{Gains, tables};
use crate::markdown::{header, plain, row};

pub(super) fn render(gains: &Gains) -> String {
    let mut page = "# Gains by augmentation (GASE)\n\n".to_owned();
    for sentence in gains.headline.iter().chain(&gains.notes) {
        page.push_str(&format!("- {}\n", plain(sentence)));
    }
    page.push('\n');
    for table in tables(gains) {
        page.push_str(&format!("## {}\n\n", plain(&table.title)));
        let head: Vec<&str> = table.head.iter().map(String::as_str).collect();
        header(&mut page, &head, table.words);
        for cells in &table.rows {
            row(&mut page, &cells.iter().map(|cell| plain(cell)).collect::<Vec<_>>());
        }
        page.push_str(&format!("\n{}\n\n", plain(&table.note)));
    }
    page.push_str(&format!("Profile {}.\n", plain(&gains.profile)));
    page
}
