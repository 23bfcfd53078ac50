//! Sets of texts that are similar to an original but have a different meaning (CLSD). This module
//! reads them from an answer, checks them and measures them.

use isomer_proto::ProtoEnum;
use isomer_transformations::Declaration;
use std::collections::HashSet;

use crate::{
    checks::{self, Check},
    clean::unquoted,
    language::{self, Language, LanguageCheck},
    list,
    measures::{self, Measures},
    words,
};

/// A set read from an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Set {
    /// The texts: at most the requested number, all different, none equal to the original.
    pub texts: Vec<String>,
    /// Checks that fired on the set or on one of its texts.
    pub failed: Vec<Check>,
    /// The detector's verdict: the worst among the texts. `None` without texts or if the language
    /// is unknown.
    pub language: Option<LanguageCheck>,
}

/// Reads a set. Copies of the original and duplicates are dropped; if too few texts remain, the
/// checks give this as the reason.
pub fn read(kind: &Declaration, original: &str, answer: &str, count: usize, expected: Option<Language>) -> Set {
    let items = list::items(answer, count);
    let said = items.len();
    let (mut seen, mut texts) = (HashSet::new(), Vec::new());
    let (mut copied, mut repeated) = (false, false);
    let same = plain(original);
    for item in items {
        let text = unquoted(original, &item).to_owned();
        let key = plain(&text);
        if key == same {
            copied = true;
        } else if !seen.insert(key) {
            repeated = true;
        } else if texts.len() < count {
            texts.push(text);
        }
    }
    let mut language = None;
    let mut fired = HashSet::<Check>::new();
    for text in &texts {
        let judgement = expected.map(|expected| language::check(text, expected));
        fired.extend(checks::run_with_language(kind, original, text, judgement));
        language = [language, judgement].into_iter().flatten().max_by_key(severity);
    }
    if said == 0 {
        // The answer contains no list: the checks on the whole answer give the reason.
        fired.extend(checks::run(kind, original, answer, expected));
    }
    if texts.len() < count {
        fired.insert(Check::TooFew);
        fired.extend(copied.then_some(Check::Identical));
        fired.extend(repeated.then_some(Check::Duplicate));
    }
    Set {
        failed: Check::all().filter(|check| fired.contains(check)).collect(),
        texts,
        language,
    }
}

/// The order of the verdicts of several texts, of which the worst is reported.
fn severity(check: &LanguageCheck) -> u8 {
    match check {
        LanguageCheck::Unspecified => 0,
        LanguageCheck::Right => 1,
        LanguageCheck::TooShort => 2,
        LanguageCheck::Wrong => 3,
    }
}

/// Lower-case words, for comparing texts regardless of punctuation; the text itself if it has no
/// words.
fn plain(text: &str) -> String {
    let lower = text.trim().to_lowercase();
    let words = words::words(&lower);
    if words.is_empty() {
        lower.clone()
    } else {
        words.join(" ")
    }
}

/// The means over some measures; `None` if there are none.
pub fn mean(all: &[Measures]) -> Option<Measures> {
    let n = all.len() as f64;
    let mean = |value: fn(&Measures) -> f64| all.iter().map(value).sum::<f64>() / n;
    (!all.is_empty()).then(|| Measures {
        edit_distance: mean(|m| m.edit_distance),
        jaccard: mean(|m| m.jaccard),
        length_ratio: mean(|m| m.length_ratio),
    })
}

/// Mean word-level Jaccard similarity over all pairs of texts; `None` for fewer than two texts.
pub fn set_jaccard(texts: &[String]) -> Option<f64> {
    let pairs: Vec<f64> = texts
        .iter()
        .enumerate()
        .flat_map(|(at, a)| texts[at + 1..].iter().map(|b| measures::measure(a, b).jaccard))
        .collect();
    (!pairs.is_empty()).then(|| pairs.iter().sum::<f64>() / pairs.len() as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_transformations::declaration;

    use super::*;

    const ORIGINAL: &str = "Die Linkspartei beschließt in Bonn ihr Programm zur Europawahl.";

    fn read4(answer: &str) -> Set {
        read(row(), ORIGINAL, answer, 4, Language::parse("de"))
    }

    fn row() -> &'static Declaration {
        declaration("distractors").unwrap()
    }

    #[test]
    fn four_good_sentences_are_a_set() {
        let set = read4(
            "1. Die Linkspartei verwirft in Bonn ihr Programm zur Europawahl.\n2. Die Linkspartei beschließt in Berlin ihr Programm \
             zur Europawahl.\n3. \"Die Volkspartei beschließt in Bonn ihr Programm zur Europawahl.\"\n4. Die Linkspartei beschließt in \
             Bonn ihr Programm zur Bundestagswahl.\n5. Die Linkspartei druckt in Bonn ihr Programm zur Europawahl.",
        );
        assert_eq!(
            (set.texts.len(), set.failed.as_slice(), set.language),
            (4, [].as_slice(), Some(LanguageCheck::Right))
        );
        assert_eq!(
            set.texts[2],
            "Die Volkspartei beschließt in Bonn ihr Programm zur Europawahl."
        );
        let jaccard = set_jaccard(&set.texts).unwrap_or_default();
        assert!((0.4..0.9).contains(&jaccard), "{jaccard}");
    }

    #[test]
    fn copies_and_duplicates_do_not_count_and_are_named_when_they_are_missed() {
        let set = read4(
            "1. die Linkspartei beschließt in Bonn ihr Programm zur Europawahl!\n2. Die Linkspartei verwirft in Bonn ihr Programm zur \
             Europawahl.\n3. Die Linkspartei verwirft in Bonn ihr Programm zur Europawahl\n4. Die Linkspartei beschließt in Berlin \
             ihr Programm zur Europawahl.",
        );
        assert_eq!(set.texts.len(), 2);
        assert_eq!(set.failed, [Check::Identical, Check::TooFew, Check::Duplicate]);
        let spare = read(
            row(),
            "a red car",
            "1. a red car\n2. a blue car\n3. a red bike\n4. no red car\n5. a red cart",
            4,
            None,
        );
        assert_eq!(
            (spare.texts.len(), spare.failed.len()),
            (4, 0),
            "a fifth makes good for the copy"
        );
    }

    #[test]
    fn fewer_than_wanted_another_language_and_no_list_are_failures() {
        assert_eq!(
            read4("1. Die Linkspartei verwirft in Bonn ihr Programm zur Europawahl.").failed,
            [Check::TooFew]
        );
        assert_eq!(read4("").failed, [Check::Empty, Check::Truncated, Check::TooFew]);
        let set = read4(
            "1. The Left Party rejects its programme in Bonn for the European election.\n2. The Left Party prints its programme in \
             Bonn for the election.\n3. The Left Party adopts its programme in Berlin for the European election.\n4. The Green \
             Party adopts its programme in Bonn for the European election.",
        );
        assert_eq!(
            (set.failed.as_slice(), set.language),
            ([Check::WrongLanguage].as_slice(), Some(LanguageCheck::Wrong))
        );
    }

    #[test]
    fn a_set_of_one_has_no_pairs() {
        assert_eq!(set_jaccard(&["a b".to_owned()]), None);
        assert_eq!(mean(&[]), None);
        let jaccard = set_jaccard(&["a b".to_owned(), "a c".to_owned(), "a b".to_owned()]).unwrap_or_default();
        assert!((jaccard - (1.0 / 3.0 + 1.0 + 1.0 / 3.0) / 3.0).abs() < 1e-12);
    }
}
