//! The valid name that a typo most likely meant.

use rapidfuzz::distance::damerau_levenshtein;

/// Longest name, in bytes, that is compared with others.
const LONGEST: usize = 200;

/// The candidate closest to `name` by Damerau-Levenshtein distance (letter case aside), if it is close enough to be what
/// the writer meant: at most a third of the name's letters changed, and always at least two allowed. None
/// for a name of more than 200 bytes.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing takes time in proportion to the length, and no known name is nearly so long.
    if name.len() > LONGEST {
        return None;
    }
    let wanted = name.trim().to_lowercase();
    let allowed = (wanted.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|c| {
            (
                damerau_levenshtein::distance(wanted.chars(), c.to_lowercase().chars()),
                c,
            )
        })
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typo_finds_its_name() {
        let names = ["paraphrase", "expansion", "summarisation", "translation"];
        assert_eq!(nearest("paraprhase", names), Some("paraphrase"));
        assert_eq!(nearest("summarization", names), Some("summarisation"));
        assert_eq!(nearest("Expansion", names), Some("expansion"));
    }

    #[test]
    fn a_name_unlike_all_others_finds_none() {
        assert_eq!(nearest("quantum", ["paraphrase", "expansion"]), None);
        assert_eq!(nearest("", ["sts"]), None);
    }
}
