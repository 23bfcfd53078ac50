//! `diff.md`: the comparison as tables.

use super::{Diff, tables::sections};
use crate::markdown::plain;

pub(super) fn render(diff: &Diff) -> String {
    let mut page = format!(
        "# {} against {}\n\n",
        plain(&diff.new.encoder),
        plain(&diff.old.encoder)
    );
    for sentence in &diff.headline {
        page.push_str(&format!("- {}\n", plain(sentence)));
    }
    page.push('\n');
    for section in sections(diff) {
        section.markdown(&mut page);
    }
    page
}
