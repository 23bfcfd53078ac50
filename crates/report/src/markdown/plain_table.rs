//! Sections with one table: noise, and variants of encoders.

use super::{Report, header, plain, row};
use crate::{noise_view, search_view, variant_view};

/// Drops by dose of noise.
pub(super) fn noise(page: &mut String, report: &Report) {
    let doses = report.profile.doses();
    let head = noise_view::head(&doses);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    section(
        page,
        "Noise",
        noise_view::LEGEND,
        &head,
        noise_view::rows(report, &doses).collect(),
    );
}

/// Variants of the encoders.
pub(super) fn variants(page: &mut String, report: &Report) {
    section(
        page,
        "Variants",
        variant_view::LEGEND,
        &variant_view::HEAD,
        variant_view::rows(report),
    );
}

pub(super) fn searches(page: &mut String, report: &Report) {
    section(
        page,
        "Search by terms",
        search_view::LEGEND,
        &search_view::HEAD,
        search_view::rows(report),
    );
}

fn section(page: &mut String, title: &str, legend: &str, head: &[&str], rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    page.push_str(&format!("## {title}\n\n{legend}\n\n"));
    header(page, head, 2);
    for cells in rows {
        row(page, &cells.iter().map(|cell| plain(cell)).collect::<Vec<_>>());
    }
    page.push('\n');
}
