//! Numbers in words, in English, German, French and Spanish. `numerals.txt` has the words.

use std::sync::LazyLock;

use crate::word_lists::WordLists;

/// A number in words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Numeral {
    pub(super) value: f64,
    pub(super) words: usize,
    /// An ordinal that can also be a fraction: third, fourth.
    pub(super) ordinal: bool,
    /// Whether the word also has another meaning, such as "one", "both" or "second". Its loss is
    /// not a fault.
    pub(super) weak: bool,
}

/// Languages whose number words are known.
pub(super) const LANGUAGES: [&str; 4] = ["en", "de", "fr", "es"];

/// The value of a word that multiplies the preceding number.
pub(super) fn scale(word: &str) -> Option<f64> {
    Some(match word {
        "hundred" | "cent" | "cents" => 100.0,
        "thousand" | "tausend" | "mille" | "mil" => 1e3,
        "million" | "millions" | "millionen" | "millón" | "millones" | "mn" => 1e6,
        "billion" | "billions" | "milliarde" | "milliarden" | "milliard" | "milliards" | "bn" => 1e9,
        "trillion" | "trillions" => 1e12,
        _ => return None,
    })
}

static NUMERALS: LazyLock<WordLists> = LazyLock::new(|| WordLists::read(include_str!("numerals.txt")));

fn find(list: &str, word: &str) -> Option<f64> {
    NUMERALS.value(list, word)
}

fn cardinal(language: &str, word: &str) -> Option<f64> {
    match language {
        "en" => find("en", word),
        "de" => german(word),
        "fr" => find(
            "fr",
            word.strip_suffix('s').filter(|stem| *stem == "vingt").unwrap_or(word),
        ),
        "es" => find("es", word),
        _ => None,
    }
}

/// German writes numbers below a million as one word.
fn german(word: &str) -> Option<f64> {
    if let Some(value) = find("de", word) {
        return Some(value);
    }
    for (mark, factor) in [("tausend", 1e3), ("hundert", 100.0)] {
        if let Some((left, right)) = word.split_once(mark) {
            let part = |text: &str, empty: f64| match text.strip_prefix("und").unwrap_or(text) {
                "" => Some(empty),
                "ein" | "eins" => Some(1.0),
                text => german(text),
            };
            return Some(part(left, 1.0)? * factor + part(right, 0.0)?);
        }
    }
    let (units, tens) = word.split_once("und")?;
    let units = if units == "ein" { 1.0 } else { find("de", units)? };
    let tens = find("de", tens)?;
    (units < 10.0 && tens >= 20.0).then_some(units + tens)
}

fn ordinal(language: &str, word: &str) -> Option<f64> {
    match language {
        "en" => find("en.ordinal", word),
        "de" => ["e", "en", "er", "es", "em"]
            .iter()
            .find_map(|ending| find("de.ordinal", word.strip_suffix(ending)?)),
        "fr" => find("fr.ordinal", word),
        "es" => find("es.ordinal", word),
        _ => None,
    }
}

fn weak(language: &str, word: &str) -> Option<f64> {
    match language {
        "en" => find("en.weak", word),
        "de" => find("de.weak", word),
        "fr" => find("fr.weak", word),
        "es" => find("es.weak", word),
        _ => None,
    }
}

/// Value of a fraction's name, singular or plural, for words that have no other meaning.
pub(super) fn fraction(language: &str, word: &str) -> Option<f64> {
    let third = 1.0 / 3.0;
    Some(match (language, word) {
        ("en", "half" | "halves") => 0.5,
        ("en", "thirds") => third,
        ("en", "quarters") => 0.25,
        ("en", "fifths") => 0.2,
        ("en", "tenths") => 0.1,
        ("de", "hälfte" | "halb" | "halbe" | "halben" | "halbes" | "halber") => 0.5,
        ("de", "drittel") => third,
        ("de", "viertel") => 0.25,
        ("de", "fünftel") => 0.2,
        ("fr", "moitié" | "demi" | "demie") => 0.5,
        ("fr", "tiers") => third,
        ("fr", "quart" | "quarts") => 0.25,
        ("es", "mitad") => 0.5,
        ("es", "tercio" | "tercios") => third,
        _ => return None,
    })
}

/// The number of a decade word, such as "nineties".
pub(super) fn decade(language: &str, word: &str) -> Option<f64> {
    let stem = match language {
        "en" => word.strip_suffix("ies").map(|stem| format!("{stem}y"))?,
        "de" => word.strip_suffix("er").or_else(|| word.strip_suffix("ern"))?.to_owned(),
        _ => return None,
    };
    cardinal(language, &stem).filter(|value| (20.0..100.0).contains(value))
}

/// Whether a number word may extend the preceding number.
fn joins(language: &str, so_far: f64, value: f64) -> Option<f64> {
    let below = so_far % 100.0;
    if so_far == 0.0 || (so_far >= 100.0 && below == 0.0 && value < 100.0) {
        return Some(so_far + value);
    }
    let tens = below >= 20.0 && below % 10.0 == 0.0;
    let french = language == "fr";
    if french && below == 4.0 && value == 20.0 {
        return Some(so_far + 76.0);
    }
    let room = if french && (below == 60.0 || below == 80.0) {
        20.0
    } else {
        10.0
    };
    (tens && value < room).then_some(so_far + value)
}

/// Reads the number at the start of lower-case words. Words joined by a hyphen are separate words;
/// `before` is the preceding word.
pub(super) fn read(language: &str, words: &[&str], before: Option<&str>) -> Option<Numeral> {
    let first = *words.first()?;
    let starts_with_article = matches!((language, first), ("en", "a"))
        && words
            .get(1)
            .is_some_and(|word| *word == "dozen" || scale(word).is_some_and(|scale| scale < 1e12));
    let (mut total, mut current, mut used, mut any) = (0.0, 0.0, 0, false);
    if starts_with_article {
        (current, used, any) = (1.0, 1, true);
    }
    let mut ordinal_end = false;
    while let Some(word) = words.get(used) {
        let linked = any
            && is_link(language, word)
            && words.get(used + 1).is_some_and(|next| {
                let value = cardinal(language, next)
                    .or_else(|| ordinal(language, next))
                    .or_else(|| one(language, next));
                let rounds = current % 100.0 == 0.0 || (language != "en" && current % 10.0 == 0.0 && current >= 20.0);
                value.is_some_and(|value| rounds && joins(language, current, value).is_some())
                    && (current > 0.0 || total > 0.0)
            });
        if linked {
            used += 1;
            continue;
        }
        let after_tens = any && current % 100.0 >= 20.0;
        let joined = |value: f64| {
            if any && current == 0.0 && total > 0.0 {
                Some(value)
            } else {
                joins(language, current, value)
            }
        };
        if language == "en" && *word == "dozen" && any {
            current = current.max(1.0) * 12.0;
        } else if let Some(factor) =
            scale(word).filter(|factor| any && !(language != "fr" && *word == "cents") && *factor > 0.0)
        {
            if factor == 100.0 {
                if current >= 100.0 || current == 0.0 {
                    break;
                }
                current *= 100.0;
            } else {
                total = if total > 0.0 && factor > 1e3 {
                    (total + current) * factor
                } else {
                    total + current.max(1.0) * factor
                };
                current = 0.0;
            }
        } else if let Some(next) = cardinal(language, word).and_then(joined) {
            current = next;
        } else if let Some(next) = one(language, word)
            .filter(|_| after_tens || (any && current >= 100.0))
            .and_then(joined)
        {
            current = next;
        } else if let Some(next) = ordinal(language, word)
            .or_else(|| {
                (language == "en")
                    .then(|| find("en.unit", word).filter(|_| after_tens))
                    .flatten()
            })
            .and_then(joined)
        {
            current = next;
            ordinal_end = true;
            used += 1;
            any = true;
            break;
        } else if !any && matches!((language, *word), ("fr", "mille" | "cent") | ("es", "mil")) {
            if *word == "cent" { current = 100.0 } else { total = 1e3 }
        } else {
            break;
        }
        any = true;
        used += 1;
    }
    if any && !(starts_with_article && used == 1) {
        return Some(Numeral {
            value: total + current,
            words: used,
            ordinal: ordinal_end,
            weak: false,
        });
    }
    let value = weak(language, first)?;
    // "No one", "the one", "this one" are not numbers. Roman numerals follow a name, which is not
    // visible here.
    let pronoun = language == "en"
        && first == "one"
        && matches!(before, Some("no" | "the" | "this" | "that" | "which" | "any" | "every"));
    (!pronoun).then_some(Numeral {
        value,
        words: 1,
        ordinal: false,
        weak: true,
    })
}

fn one(language: &str, word: &str) -> Option<f64> {
    let is = match language {
        "en" => word == "one",
        "fr" => matches!(word, "un" | "une"),
        "es" => matches!(word, "un" | "uno" | "una"),
        _ => false,
    };
    is.then_some(1.0)
}

fn is_link(language: &str, word: &str) -> bool {
    matches!((language, word), ("en", "and") | ("fr", "et") | ("es", "y"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::float_cmp)]
    use super::*;

    fn value(language: &str, text: &str) -> f64 {
        let words: Vec<&str> = text.split([' ', '-']).collect();
        let numeral = read(language, &words, None).unwrap();
        assert_eq!(numeral.words, words.len(), "{text}");
        numeral.value
    }

    #[test]
    fn number_words_have_their_values() {
        for (text, expected) in [
            ("twenty-one", 21.0),
            ("two hundred and five", 205.0),
            ("a hundred", 100.0),
            ("a dozen", 12.0),
            ("three million two hundred thousand", 3_200_000.0),
            ("forty-second", 42.0),
            ("two dozen", 24.0),
        ] {
            assert_eq!(value("en", text), expected, "{text}");
        }
        for (text, expected) in [
            ("einundzwanzig", 21.0),
            ("zweihundertfünfzig", 250.0),
            ("dreitausend", 3000.0),
            ("dritten", 3.0),
        ] {
            assert_eq!(value("de", text), expected, "{text}");
        }
        for (text, expected) in [
            ("quatre-vingt-dix", 90.0),
            ("soixante et onze", 71.0),
            ("vingt et un", 21.0),
            ("quatre-vingts", 80.0),
            ("deux cents", 200.0),
            ("mille", 1000.0),
            ("quatre-vingt-dix-sept", 97.0),
        ] {
            assert_eq!(value("fr", text), expected, "{text}");
        }
        for (text, expected) in [
            ("treinta y cinco", 35.0),
            ("veintidós", 22.0),
            ("doscientos", 200.0),
            ("dos mil", 2000.0),
        ] {
            assert_eq!(value("es", text), expected, "{text}");
        }
    }

    #[test]
    fn every_word_of_the_file_has_a_value() {
        NUMERALS.assert_names(&["en", "de", "fr", "es", "ordinal", "weak", "unit"]);
        for (list, words) in NUMERALS.iter() {
            for word in words.iter().map(|row| row.split(' ').next().unwrap()) {
                assert!(find(list, word).is_some(), "{list}: {word}");
            }
        }
    }

    #[test]
    fn neighbours_that_make_no_number_stay_apart() {
        assert_eq!(read("en", &["two", "and", "three"], None).unwrap().value, 2.0);
        assert!(read("en", &["one", "of", "them"], None).unwrap().weak);
        assert!(read("en", &["one", "likes"], Some("no")).is_none());
        assert!(read("en", &["hundreds"], None).is_none());
        assert!(read("ha", &["uku"], None).is_none());
    }
}
