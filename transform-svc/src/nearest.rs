//! The nearest of some names to a misspelt one, for error messages.

use rapidfuzz::distance::osa;

/// Longest name, in bytes, that is compared with others.
const LONGEST: usize = 200;

/// The name at the smallest edit distance (transpositions count one), if at most half of the longer one's letters differ; the first
/// of several equally near; none for a name of more than 200 bytes. Letter case and the choice between `-`, `_` and space are no difference.
pub fn nearest<'a>(asked: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing takes time in proportion to the length, and no known name is nearly so long.
    if asked.len() > LONGEST {
        return None;
    }
    let plain = |name: &str| name.to_lowercase().replace(['-', ' '], "_");
    let asked = plain(asked);
    names
        .into_iter()
        .map(|name| (osa::distance(asked.chars(), plain(name).chars()), name))
        .filter(|(distance, name)| 2 * distance <= asked.chars().count().max(name.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_from_another_word() {
        let names = ["paraphrase", "backtranslation", "translation", "style_change"];
        assert_eq!(nearest("parafrase", names), Some("paraphrase"));
        assert_eq!(nearest("Style-Change", names), Some("style_change"));
        assert_eq!(nearest("back-translation", names), Some("backtranslation"));
        assert_eq!(nearest("xyz", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("tarnslation", names), Some("translation"));
    }
}
