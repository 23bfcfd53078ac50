//! The releases as a table, and the runs that are left out.

use super::{History, Release, ReleaseTest};
use crate::{
    format::{ends, p_value, points, signed},
    html::{day, short_digest},
    text_table::{Section, TextTable, dash},
};

pub(super) fn sections(history: &History) -> Vec<Section> {
    let mut all = vec![releases(history).into()];
    if !history.left_out.is_empty() {
        let left_out = history.left_out.iter();
        all.push(Section {
            title: "Left out".to_owned(),
            list: left_out.map(|one| format!("{}: {}", one.run, one.why)).collect(),
            ..Section::default()
        });
    }
    all
}

fn releases(history: &History) -> TextTable {
    let test = |one: &Release, shown: fn(&ReleaseTest) -> String| one.test.as_ref().map_or_else(dash, shown);
    let known = |text: String| if text.is_empty() { dash() } else { text };
    TextTable::of(&history.releases)
        .words("Release", |one| one.name.clone())
        .words("Report made", |one| day(one.finished.to_string()))
        .words("Run", |one| one.run.clone())
        .number("Original", |one| points(one.original))
        .number("Transformed", |one| one.transformed.map_or_else(dash, points))
        .number("Difference", |one| match (one.delta, &one.delta_interval) {
            (Some(delta), Some(interval)) => format!("{} {}", signed(delta), ends(interval)),
            (Some(delta), None) => signed(delta),
            _ => dash(),
        })
        .words("Gate", |one| {
            one.gate.map_or_else(dash, |verdict| verdict.name().to_owned())
        })
        .words("Verdict", |one| {
            test(one, |test| match &test.note {
                Some(note) => format!("{}: {note}", test.verdict.name()),
                None => test.verdict.name().to_owned(),
            })
        })
        .number("Shift", |one| test(one, |test| signed(test.shift)))
        .number("p", |one| test(one, |test| test.p_value.map_or_else(dash, p_value)))
        .number("Look", |one| test(one, |test| test.look.to_string()))
        .number("Alpha", |one| {
            test(one, |test| format!("{:.1e}", test.alpha).replace('-', "−"))
        })
        .words("Revision", |one| known(one.revision.clone()))
        .words("Weights", |one| known(short_digest(one.weights_digest.clone())))
        .titled("Releases", method(history))
}

/// A description of the tests.
fn method(history: &History) -> String {
    let of = match history.options.of {
        super::HistoryQuantity::Original => "the score of the original texts",
        super::HistoryQuantity::Total => "the mean over the axes' transformed texts",
    };
    let reference = if history.reference.baseline {
        format!("the baseline {} in the same check", history.reference.encoder)
    } else {
        "the first release".to_owned()
    };
    format!(
        "Scores x 100. Test: {of}, release less {reference}, paired over {} groups of data sets; the signed-rank test against \"worse by {} points \
         or more\". Look k spends alpha / (k (k + 1)) of alpha {}, which add up to alpha over any number of releases: the chance that any inferior release \
         is ever called non-inferior. Verdict: pass, not worse by the margin; fail, worse by it; undecided, neither is shown.",
        history.groups.len(),
        history.options.margin,
        history.options.alpha
    )
}
