//! `history.md`: the releases as a table.

use super::{History, Release, ReleaseTest};
use crate::{
    GateVerdict,
    format::{ends, p_value, points, signed},
    markdown::{header, plain, row},
};

pub(super) fn render(history: &History) -> String {
    let mut page = format!("# Releases of {}\n\n", plain(&history.encoder));
    for sentence in history.headline.iter().chain(&history.notes) {
        page.push_str(&format!("- {}\n", plain(sentence)));
    }
    page.push_str("\n## Releases\n\n");
    header(
        &mut page,
        &[
            "Release",
            "Report made",
            "Run",
            "Original",
            "Transformed",
            "Difference",
            "Gate",
            "Verdict",
            "Shift",
            "p",
            "Look",
            "Alpha",
            "Revision",
            "Weights",
        ],
        3,
    );
    for one in &history.releases {
        row(&mut page, &cells(one).map(|cell| plain(&cell)));
    }
    page.push_str(&format!("\n{}\n", plain(&method(history))));
    if !history.left_out.is_empty() {
        page.push_str("\n## Left out\n\n");
        for one in &history.left_out {
            page.push_str(&format!("- {}: {}\n", plain(&one.run), plain(&one.why)));
        }
    }
    page
}

pub(super) fn cells(one: &Release) -> [String; 14] {
    let dash = || "–".to_owned();
    let test = one.test.as_ref();
    let of = |shown: &dyn Fn(&ReleaseTest) -> String| test.map_or_else(dash, shown);
    let day = one.finished.to_string();
    [
        one.name.clone(),
        day.get(..16)
            .map_or(day.clone(), |start| format!("{} UTC", start.replace('T', " "))),
        one.run.clone(),
        points(one.original),
        one.transformed.map_or_else(dash, points),
        match (one.delta, &one.delta_interval) {
            (Some(delta), Some(interval)) => format!("{} {}", signed(delta), ends(interval)),
            (Some(delta), None) => signed(delta),
            _ => dash(),
        },
        one.gate.map_or_else(dash, |verdict| word(verdict).to_owned()),
        of(&|test| match &test.note {
            Some(note) => format!("{}: {note}", word(test.verdict)),
            None => word(test.verdict).to_owned(),
        }),
        of(&|test| signed(test.shift)),
        of(&|test| test.p_value.map_or_else(dash, p_value)),
        of(&|test| test.look.to_string()),
        of(&|test| format!("{:.1e}", test.alpha).replace('-', "−")),
        if one.revision.is_empty() {
            dash()
        } else {
            one.revision.clone()
        },
        match one.weights_digest.get(..12).unwrap_or(&one.weights_digest) {
            "" => dash(),
            digest => digest.to_owned(),
        },
    ]
}

fn word(verdict: GateVerdict) -> &'static str {
    match verdict {
        GateVerdict::Pass => "pass",
        GateVerdict::Undecided => "undecided",
        GateVerdict::Invalid => "invalid",
        GateVerdict::Fail => "fail",
    }
}

/// A description of the tests.
pub(super) fn method(history: &History) -> String {
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
