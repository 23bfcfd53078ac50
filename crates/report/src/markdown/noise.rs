//! Drops by dose of noise.

use super::{Report, header, plain, row};
use crate::noise_view::{self, LEGEND};

pub(super) fn write(page: &mut String, report: &Report) {
    let doses = report.profile.doses();
    if doses.is_empty() {
        return;
    }
    page.push_str(&format!("## Noise\n\n{LEGEND}\n\n"));
    let head = noise_view::head(&doses);
    header(page, &head.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    for cells in noise_view::rows(report, &doses) {
        row(page, &cells.iter().map(|cell| plain(cell)).collect::<Vec<_>>());
    }
    page.push('\n');
}
