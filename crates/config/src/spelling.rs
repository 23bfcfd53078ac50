//! The known names that a misspelt one most likely means, for "did you mean" in errors.
//!
//! Two names are close if at most a third of the longer one's letters, rounded up, have to be
//! changed to make one of the other. Inserting, removing and replacing a letter and swapping two
//! neighbours each count as one change (optimal string alignment). Letter case does not count, nor
//! does the choice between `-`, `_` and space. [`similar`], which lists several names, also takes
//! names that contain the given one or are contained in it.
//!
//! Comparing takes time in proportion to the product of both lengths, and names come from requests.
//! So names of more than [`LONGEST`] bytes are close to none.

use rapidfuzz::distance::osa;

/// Longest name, in bytes, that is compared with others. No name of Isomer's is nearly so long.
pub const LONGEST: usize = 200;

/// Longest id of an encoder, in bytes. An id may be a path. Errors quote an id, so a longer one is
/// refused before it is looked up.
pub const LONGEST_ID: usize = 4096;

/// Maximum number of names that [`similar`] returns.
pub const MOST: usize = 3;

/// Letters, digits, `.`, `_`, `-`, starting with a letter or digit, so that the name is safe as a
/// file name and as an argument of a command.
pub fn is_plain_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// Whether these name a repository of a hub: `org/name` of plain names, and a commit, tag or
/// branch, which may have slashes (`refs/convert/parquet`).
pub fn is_repository(name: &str, revision: Option<&str>) -> bool {
    name.split_once('/')
        .is_some_and(|(org, name)| is_plain_name(org) && is_plain_name(name))
        && revision.is_none_or(|revision| revision.split('/').all(is_plain_name))
}

/// The known name closest to `name`, or `None` if none is close. The first of several that are
/// equally close.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = plain(name)?;
    let scored = known
        .into_iter()
        .filter_map(|known| Some((distance(&name, known)?, known)));
    scored.min_by_key(|(score, _)| *score).map(|(_, known)| known)
}

/// The hint for an unknown name: the closest known name, or all names if none is close.
pub fn suggest(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "remove it".to_owned(),
        None => format!("use one of {}", known.join(", ")),
    }
}

/// At most [`MOST`] of the known names close to `name`, closest first. A name that contains the
/// other one counts as close too, if both have at least three letters: a person who writes a part
/// of an id is shown the ids that have it.
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let Some(name) = plain(name) else {
        return Vec::new();
    };
    let scored = known.into_iter().filter_map(|known| {
        let score = shared(&name, known).or_else(|| distance(&name, known))?;
        Some((score, known))
    });
    let mut scored: Vec<_> = scored.collect();
    scored.sort_by_key(|(score, _)| *score);
    scored.into_iter().take(MOST).map(|(_, known)| known).collect()
}

/// The part of a name that is compared, or `None` if it is too long.
fn plain(name: &str) -> Option<String> {
    (name.len() <= LONGEST).then(|| name.trim().to_lowercase().replace(['-', ' '], "_"))
}

/// Changes that make `known` of a name as [`plain`] gives it, or `None` if they are too many for
/// both to be close.
fn distance(name: &str, known: &str) -> Option<usize> {
    let known = plain(known)?;
    let longer = name.chars().count().max(known.chars().count());
    let distance = osa::distance(name.chars(), known.chars());
    (distance <= longer.div_ceil(3) && distance < longer).then_some(distance)
}

/// A quarter of the letters that only one of two names has, where one is a part of the other: such
/// letters weigh less than letters that differ.
fn shared(name: &str, known: &str) -> Option<usize> {
    let known = plain(known)?;
    let (length, known_length) = (name.chars().count(), known.chars().count());
    let part = known.contains(name) || name.contains(known.as_str());
    (part && length.min(known_length) >= 3).then_some(length.abs_diff(known_length) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_proposed_and_a_far_one_lists_the_choices() {
        assert_eq!(suggest("adress", &["address", "tls"]), "did you mean `address`?");
        assert_eq!(suggest("colour", &["address", "tls"]), "use one of address, tls");
    }

    #[test]
    fn a_typo_finds_its_name() {
        let names = ["paraphrase", "expansion", "summarisation", "translation"];
        assert_eq!(nearest("paraprhase", names), Some("paraphrase"));
        assert_eq!(nearest("summarization", names), Some("summarisation"));
        assert_eq!(nearest("Expansion", names), Some("expansion"));
        assert_eq!(nearest("adress", ["tls", "address"]), Some("address"));
        assert_eq!(nearest("même", ["meme"]), Some("meme"));
    }

    #[test]
    fn a_name_unlike_all_others_finds_none() {
        assert_eq!(nearest("quantum", ["paraphrase", "expansion"]), None);
        assert_eq!(nearest("colour", ["address", "tls"]), None);
        assert_eq!(nearest("", ["sts"]), None);
        assert_eq!(nearest("x", ["y", "", "zz"]), None);
        assert_eq!(nearest("sts", []), None);
    }

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

    #[test]
    fn a_third_of_the_letters_may_differ_and_no_more() {
        assert_eq!(nearest("abcdxx", ["abcdef"]), Some("abcdef"));
        assert_eq!(nearest("abcxxx", ["abcdef"]), None);
        // Two changes of seven letters are under a third, and three are a third rounded up.
        assert_eq!(nearest("abcdxxx", ["abcdefg"]), Some("abcdefg"));
        assert_eq!(nearest("abcxxxx", ["abcdefg"]), None);
    }

    #[test]
    fn the_closest_come_first_and_the_first_of_equals_is_taken() {
        let known = [
            "smollm2-360m",
            "all-MiniLM-L6-v2",
            "all-MiniLM-L12-v2",
            "all-MiniLM-L3-v2",
        ];
        assert_eq!(
            similar("all-minilm-l6-v2", known),
            ["all-MiniLM-L6-v2", "all-MiniLM-L3-v2", "all-MiniLM-L12-v2"]
        );
        assert_eq!(nearest("set9", ["set1", "set2"]), Some("set1"));
        assert!(similar("zzzz", known).is_empty());
    }

    #[test]
    fn a_part_of_a_name_finds_it() {
        assert_eq!(similar("smollm2", ["smollm2-135m-instruct"]), ["smollm2-135m-instruct"]);
        assert_eq!(similar("listen-address", ["listen"]), ["listen"]);
        assert!(similar("in", ["incorporated"]).is_empty());
        assert_eq!(
            nearest("judge", ["judge_similarity"]),
            None,
            "a part may be one of another name"
        );
    }

    #[test]
    fn very_long_names_are_not_compared() {
        let long = "a".repeat(LONGEST);
        let longer = "a".repeat(100_000);
        assert_eq!(nearest(&long, [&*long]), Some(&*long));
        // Comparing these letter by letter would be ten thousand million steps.
        assert_eq!(nearest(&longer, [&*longer]), None);
        assert_eq!(nearest("aaa", [&*longer]), None);
        assert!(similar(&longer, [&*longer, "aaa"]).is_empty());
    }
}
