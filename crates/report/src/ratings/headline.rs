//! The results in sentences.

use super::{Agreement, HumanRatings};
use crate::format::{counted, fine, share, signed_fine};

pub(super) fn sentences(ratings: &HumanRatings) -> Vec<String> {
    let Some(all) = ratings.rows.first() else {
        return Vec::new();
    };
    let rewrites = all.share.accepted.rewrites + all.share.not_accepted.rewrites;
    let mut sentences = Vec::new();
    if let Some(low) = all.share.low {
        let estimate = all
            .share
            .estimate
            .map_or_else(String::new, |estimate| format!("; estimate {}", share(estimate)));
        sentences.push(format!(
            "At least {} of {} are faithful with {:.0} % confidence{estimate}: {} rated by {}, with the verdicts of {} on all.",
            share(low),
            counted(size(rewrites), "rewrite"),
            100.0 * ratings.confidence,
            counted(size(all.rated), "rewrite"),
            counted(ratings.raters.len(), "rater"),
            ratings.judge
        ));
    }
    sentences.push(format!(
        "A rewrite is faithful if the mean of its raters is at least {} ({}).",
        fine(ratings.accept),
        ratings.scale.title()
    ));
    sentences.push(agreement(&all.agreement));
    sentences
}

/// The judge beside the raters.
fn agreement(found: &Agreement) -> String {
    let all = found.both + found.neither + found.judge_only + found.raters_only;
    let verdicts = format!(
        "Judge and raters agree on {} of {all} verdicts",
        found.both + found.neither
    );
    match (found.spearman, found.low, found.high) {
        (Some(rho), Some(low), Some(high)) => format!(
            "{verdicts}; Spearman's ρ of their ratings is {} [{}, {}].",
            signed_fine(rho),
            signed_fine(low),
            signed_fine(high)
        ),
        _ => match &found.note {
            Some(note) => format!("{verdicts}; their ratings have no correlation: {note}."),
            None => format!("{verdicts}."),
        },
    }
}

pub(super) fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
