//! The words of denial of `words.txt`.

use std::sync::LazyLock;

use crate::word_lists::WordLists;

/// The words of a language that express denial. All words are lower-case.
pub(super) struct Lexicon {
    pub(super) code: &'static str,
    /// Words that deny.
    pub(super) hard: Vec<&'static str>,
    /// Words that can replace a denial: "fail" for "not succeed", "empty" for "not full".
    pub(super) soft: Vec<&'static str>,
    /// Prefixes that can replace a denial, with the minimum number of letters that follow.
    pub(super) prefixes: Vec<(&'static str, usize)>,
    /// Suffixes that can replace a denial.
    pub(super) suffixes: Vec<&'static str>,
    /// Words in which a prefix or suffix denies nothing.
    pub(super) innocent: Vec<&'static str>,
    /// Phrases in which a denying word denies nothing, or that have an equivalent without it.
    pub(super) idioms: Vec<Vec<&'static str>>,
    /// Words that start a new clause.
    pub(super) breaks: Vec<&'static str>,
    /// Function words.
    pub(super) empty: Vec<&'static str>,
}

static LEXICONS: LazyLock<[Lexicon; 4]> = LazyLock::new(|| {
    let lists = WordLists::read(include_str!("words.txt"));
    ["en", "de", "fr", "es"].map(|code| {
        let list = |name: &str| lists.list(&format!("{code}.{name}")).to_vec();
        let prefixes = list("prefixes").into_iter().filter_map(|prefix| prefix.split_once(' '));
        Lexicon {
            code,
            hard: list("hard"),
            soft: list("soft"),
            prefixes: prefixes
                .filter_map(|(prefix, letters)| Some((prefix, letters.parse().ok()?)))
                .collect(),
            suffixes: list("suffixes"),
            innocent: list("innocent"),
            idioms: list("idioms")
                .into_iter()
                .map(|idiom| idiom.split(' ').collect())
                .collect(),
            breaks: list("breaks"),
            empty: list("empty"),
        }
    })
});

/// The lexicon of a language; `None` if there is none.
pub(super) fn lexicon(code: &str) -> Option<&'static Lexicon> {
    LEXICONS.iter().find(|lexicon| lexicon.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_of_the_file_is_read() {
        let lists = WordLists::read(include_str!("words.txt"));
        lists.assert_names(&[
            "hard", "soft", "prefixes", "suffixes", "innocent", "idioms", "breaks", "empty",
        ]);
        for lexicon in LEXICONS.iter() {
            let prefixes = lists.list(&format!("{}.prefixes", lexicon.code));
            assert!(!prefixes.is_empty(), "{}", lexicon.code);
            assert_eq!(lexicon.prefixes.len(), prefixes.len(), "{}", lexicon.code);
        }
    }
}
