//! Known encoders on the built-in data sets, so that a first score means something.

use super::{Report, format::points};

/// Digests of the data sets that the scores are means over: those of the suites `quick` and
/// `noise`.
const DATASETS: [&str; 3] = [
    "9cf1634c4f0bd976bcc78f2014346ba90878480f6e0e3c94edb61ee175d592cd",
    "e42224d264928d219d913b5cd2acf2ad2b678b61259744c83b9825a4c6de2448",
    "f677892523d33b4e3d0acadd7e4249c2b2dc27529b45304d590d4c72f2189e86",
];
/// Mean scores of the original texts, lowest first. `docs/measurements/noise.md` has them; random
/// vectors of words are the floor that `eval-svc/suites/quick.toml` names.
const ENCODERS: [(&str, f64); 6] = [
    ("random vectors of words", 28.1),
    ("glove-6b-50d", 50.0),
    ("paraphrase-MiniLM-L3-v2", 70.5),
    ("multilingual-e5-small-q4", 76.8),
    ("all-MiniLM-L6-v2", 81.9),
    ("all-mpnet-base-v2", 85.5),
];
/// Scores closer than this read the same.
const SAME: f64 = 0.05;

/// Known encoders with their scores, lowest first; empty where the report has other data sets.
pub(super) fn known(report: &Report) -> &'static [(&'static str, f64)] {
    let own = report.datasets.iter().map(|one| one.digest.as_str());
    let is_known = own.clone().count() == DATASETS.len() && own.clone().all(|digest| DATASETS.contains(&digest));
    if is_known { &ENCODERS } else { &[] }
}

/// The known encoders next to a score, in a sentence.
pub(super) fn place(known: &[(&str, f64)], score: f64) -> Option<String> {
    let named = |(name, score): &(&str, f64)| format!("{name} ({})", points(*score));
    if let Some(same) = known.iter().find(|(_, other)| (other - score).abs() <= SAME) {
        return Some(format!("as {}", named(same)));
    }
    let below = known.iter().rev().find(|(_, other)| *other < score);
    let above = known.iter().find(|(_, other)| *other > score);
    match (below, above) {
        (Some(below), Some(above)) => Some(format!("between {} and {}", named(below), named(above))),
        (Some(below), None) => Some(format!("above {}", named(below))),
        (None, Some(above)) => Some(format!("below {}", named(above))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_has_its_place_among_the_known_ones() {
        let shown = |score| place(&ENCODERS, score).unwrap_or_default();
        assert_eq!(
            shown(65.5),
            "between glove-6b-50d (50.0) and paraphrase-MiniLM-L3-v2 (70.5)"
        );
        assert_eq!(shown(81.91), "as all-MiniLM-L6-v2 (81.9)");
        assert_eq!(shown(90.0), "above all-mpnet-base-v2 (85.5)");
        assert_eq!(shown(12.0), "below random vectors of words (28.1)");
        assert_eq!(place(&[], 50.0), None);
    }

    #[test]
    fn the_scores_are_those_of_the_measurements() {
        let page = std::fs::read_to_string("../../docs/measurements/noise.md").unwrap();
        for (name, score) in &ENCODERS[1..] {
            assert!(page.contains(&format!("| {name} | {score:.1} |")), "{name}");
        }
        assert!(ENCODERS.is_sorted_by(|a, b| a.1 < b.1));
    }
}
