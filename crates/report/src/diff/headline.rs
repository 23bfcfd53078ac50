//! The findings in sentences.

use super::{Diff, DiffRow, Flips, ThresholdOf};
use crate::format::{count, ends, p_value, share, signed};

/// A difference with a p-value below this is reported as one.
const ALPHA: f64 = 0.05;

pub(super) fn sentences(diff: &Diff) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(original) = diff.rows.first() {
        all.push(format!(
            "On the original texts {} scores {} points against {}{}.",
            diff.new.encoder,
            signed(original.change.value),
            diff.old.encoder,
            interval(original)
        ));
        all.extend(flipped(original, "On the original texts"));
    }
    let transformed = || diff.rows.iter().filter(|row| row.transformation.is_some());
    let most = transformed().filter_map(|row| Some((row, row.flips.as_ref()?)));
    let most = most.max_by(|(_, a), (_, b)| a.negative_rate().total_cmp(&b.negative_rate()));
    if let Some((row, _)) = most {
        all.extend(flipped(row, &format!("Under {}", name(row))));
    }
    let worse = transformed().filter_map(|row| Some((row, row.drop_change.as_ref()?)));
    if let Some((row, change)) = worse.max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value)) {
        let found = change.interval.as_ref();
        let flips_text = match found {
            Some(found) if found.low > 0.0 => "it loses more than the old encoder",
            Some(found) if found.high < 0.0 => "even there it loses less than the old encoder",
            Some(_) => "no difference in the drop is shown",
            None => "there is no interval",
        };
        let found = found.map_or_else(String::new, |found| format!(" {}", ends(found)));
        all.push(format!(
            "The drop of {} grows most under {}: {} points{found}; {flips_text}.",
            diff.new.encoder,
            name(row),
            signed(change.value)
        ));
    }
    let lists = diff.rows.iter().filter_map(|row| Some((row, row.lists.as_ref()?)));
    if let Some((row, least)) = lists.min_by(|(_, a), (_, b)| a.overlap.value.total_cmp(&b.overlap.value)) {
        all.push(format!(
            "Result lists agree least {}: {:.1} % of the first {} documents in common, rank-biased overlap {:.1} %.",
            match &row.transformation {
                None => "on the original texts".to_owned(),
                Some(label) => format!("under {label}"),
            },
            least.overlap.value,
            diff.options.k,
            least.rank_biased_overlap.value
        ));
    }
    let without = diff.datasets.iter().filter(|own| own.no_flips.is_some()).count();
    if without > 0 {
        all.push(format!(
            "{without} of {} data sets have no flips; their rows say why.",
            diff.datasets.len()
        ));
    }
    if !diff.left_out.is_empty() {
        all.push(format!(
            "The two runs do not have the same items: {} left out, listed below.",
            match diff.left_out.len() {
                1 => "one difference is".to_owned(),
                n => format!("{n} differences are"),
            }
        ));
    }
    if !diff.other_rewrites.is_empty() {
        let (old, new) = (diff.old.generators.join(", "), diff.new.generators.join(", "));
        let whose = if old == new || old.is_empty() || new.is_empty() {
            String::new()
        } else {
            format!(": OLD has those of {old}, NEW those of {new}")
        };
        all.push(format!(
            "The two runs have different rewrites of the same texts{whose}. They are a part of each difference under a transformation."
        ));
    }
    if diff.options.threshold == ThresholdOf::Each {
        all.push("Each encoder has a threshold of its own.".to_owned());
    }
    all
}

fn name(row: &DiffRow) -> &str {
    row.transformation.as_deref().unwrap_or("the original texts")
}

fn interval(row: &DiffRow) -> String {
    row.change
        .interval
        .as_ref()
        .map_or_else(String::new, |found| format!(" {}", ends(found)))
}

fn flipped(row: &DiffRow, begin: &str) -> Option<String> {
    let flips: &Flips = row.flips.as_ref()?;
    let verdict = match flips.negative.cmp(&flips.positive) {
        _ if flips.p >= ALPHA => "neither side is shown to be more likely",
        std::cmp::Ordering::Greater => "more become wrong than right",
        _ => "more become right than wrong",
    };
    Some(format!(
        "{begin}, {} of {} decisions ({}) became wrong and {} became right: {verdict} (p {}).",
        count(usize::try_from(flips.negative).unwrap_or(usize::MAX)),
        count(usize::try_from(flips.decisions).unwrap_or(usize::MAX)),
        share(flips.negative_rate()),
        count(usize::try_from(flips.positive).unwrap_or(usize::MAX)),
        match p_value(flips.p) {
            p if p.starts_with('<') => p,
            p => format!("= {p}"),
        }
    ))
}
