//! Names: whether the persons, places, organisations and products of the original are still named.
//!
//! In English a tagger finds names. In languages that capitalise only names, a capital inside a
//! sentence marks a name. German capitalises every noun: there only acronyms and names after a
//! title are recognised. In scripts without capitals, names cannot be recognised at all.

mod places;
mod words;

use std::{collections::BTreeSet, sync::LazyLock};

use isomer_tagger::{EntityLabel, Pos, Tagger, Token};
use unicode_segmentation::UnicodeSegmentation;

use super::{Finding, Guard, GuardRow, Policy};
use crate::word_lists::WordLists;
use words::Words;

static NAMES: LazyLock<WordLists> = LazyLock::new(|| WordLists::read(include_str!("names.txt")));

/// Languages in Latin, Greek or Cyrillic letters that capitalise names and no other nouns, and do
/// not inflect names.
const FIXED: [&str; 15] = [
    "fr", "es", "it", "pt", "nl", "ca", "gl", "sv", "da", "no", "id", "ms", "vi", "af", "tl",
];
/// Languages like [`FIXED`], but with inflected names.
const INFLECTED: [&str; 18] = [
    "pl", "cs", "sk", "sl", "hr", "sr", "bs", "ru", "uk", "bg", "el", "fi", "et", "hu", "tr", "lt", "lv", "ro",
];
/// Labels that the number guard covers, or that do not name an individual thing.
const OTHER_LABELS: [EntityLabel; 7] = [
    EntityLabel::Date,
    EntityLabel::Time,
    EntityLabel::Percent,
    EntityLabel::Money,
    EntityLabel::Quantity,
    EntityLabel::Ordinal,
    EntityLabel::Cardinal,
];

/// The words of a name in lower case, otherwise as written.
type Name = Vec<String>;

pub(super) const GUARD: GuardRow = GuardRow {
    guard: Guard::Names,
    facts: "names of persons, places, organisations, products",
    languages: "en by the tagger; languages that capitalise only names by their capitals; German: acronyms and names after a title",
    elsewhere: "cannot tell",
    may_add: true,
    translates: false,
    look: |pair, policy| look(pair.original, pair.rewrite, pair.source, policy),
};

fn look(original: &str, rewrite: &str, language: Option<&str>, policy: Policy) -> Finding {
    let lost = if policy.lost {
        missing(original, rewrite, language)
    } else {
        Finding::Kept
    };
    let added = if policy.added {
        missing(rewrite, original, language)
    } else {
        Finding::Kept
    };
    match (lost, added) {
        (Finding::Broken, _) | (_, Finding::Broken) => Finding::Broken,
        (Finding::Unknown, _) | (_, Finding::Unknown) => Finding::Unknown,
        _ => Finding::Kept,
    }
}

/// Whether a name of a text is missing from the other.
fn missing(text: &str, other: &str, language: Option<&str>) -> Finding {
    let (names, sure) = match language {
        Some("en") if !headline(text) => match english(text) {
            Some(names) => (names, true),
            None => return Finding::Unknown,
        },
        Some("de") => german(text),
        Some(code) if (FIXED.contains(&code) || INFLECTED.contains(&code)) && !headline(text) => {
            (by_capitals(text), true)
        }
        _ => return Finding::Unknown,
    };
    let words = words_of(other);
    let words = Words::new(&words);
    let tokens = tokens_of(other);
    let inflected = language.is_some_and(|code| INFLECTED.contains(&code));
    let stands_there = |name: &Name| name.iter().all(|word| tokens.contains(word));
    if names
        .iter()
        .any(|name| !stands_there(name) && !words.keep(name, inflected))
    {
        Finding::Broken
    } else if sure {
        Finding::Kept
    } else {
        Finding::Unknown
    }
}

/// Whether all words begin with a capital or most are in capitals, so that capitals carry no
/// information.
fn headline(text: &str) -> bool {
    let mut long = text.unicode_words().filter(|word| word.chars().count() > 2);
    let titled = text.unicode_words().filter(|word| word.chars().count() > 2).count() >= 4
        && long.all(|word| word.chars().next().is_some_and(char::is_uppercase));
    let shouted = text
        .unicode_words()
        .filter(|word| word.chars().count() > 1 && word.chars().all(char::is_uppercase))
        .count();
    titled || shouted * 2 > text.unicode_words().count()
}

/// A word without `'s` and the points of an acronym.
fn plain(word: &str) -> String {
    let lower = word.to_lowercase().replace('’', "'");
    let stem = lower
        .strip_suffix("'s")
        .or_else(|| lower.strip_suffix("s'"))
        .unwrap_or(&lower);
    // French and Italian articles: "l'italie".
    let stem = match stem.split_once('\'') {
        Some((article, name)) if article.chars().count() <= 2 && !name.is_empty() => name,
        _ => stem,
    };
    stem.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The words of a text, in order.
fn words_of(text: &str) -> Vec<String> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '-' | '/' | ',' | ';' | ':' | '(' | ')' | '"' | '–' | '—'))
        .map(plain)
        .filter(|word| !word.is_empty())
        .collect()
}

/// The words of names, as split by the tagger and by Unicode, which split `3.2M` and `B-12`
/// differently from [`words_of`]. With them, a name taken from a text is always found in that text.
fn tokens_of(text: &str) -> BTreeSet<String> {
    let tagged = isomer_tagger::tokenise(text);
    let tokens = tagged.into_iter().map(|span| &text[span]);
    tokens.chain(text.unicode_words()).map(plain).collect()
}

/// The names of an English text, if there is a tagger.
fn english(text: &str) -> Option<Vec<Name>> {
    let tagger = Tagger::english().ok()?;
    let tagged = tagger.tag(text);
    let at = |token: usize| tagged.tokens.get(token).map(|token| &text[token.span.clone()]);
    let mut names: Vec<Name> = Vec::new();
    let mut inside: BTreeSet<usize> = BTreeSet::new();
    for entity in tagged
        .entities
        .iter()
        .filter(|entity| !OTHER_LABELS.contains(&entity.label))
    {
        inside.extend(entity.tokens.clone());
        let name: Name = entity
            .tokens
            .clone()
            .filter_map(at)
            .map(plain)
            .filter(|word| !word.is_empty())
            .collect();
        let capital = entity
            .tokens
            .clone()
            .filter_map(at)
            .any(|word| word.chars().any(char::is_uppercase));
        if capital {
            names.push(name);
        }
    }
    let dated: BTreeSet<usize> = tagged
        .entities
        .iter()
        .filter(|entity| OTHER_LABELS.contains(&entity.label))
        .flat_map(|entity| entity.tokens.clone())
        .collect();
    // Proper nouns outside any entity; a run of them is one name. The first word of a sentence is
    // always capitalised, so it counts only if the tagger classifies it as a name without the
    // capital.
    let word = |place: usize| at(place).unwrap_or_default();
    let named = |place: usize| {
        tagged.tokens[place].pos == Pos::Propn
            && word(place).starts_with(char::is_uppercase)
            && !inside.contains(&place)
            && !dated.contains(&place)
    };
    let opens = |place: usize| place == 0 || matches!(word(place - 1), "." | "!" | "?" | ":" | "\"" | "“");
    let openers = (0..tagged.tokens.len()).filter(|place| named(*place) && opens(*place));
    let openers = names_without_capitals(tagger, text, &tagged.tokens, &openers.collect());
    let mut run: Name = Vec::new();
    for place in 0..tagged.tokens.len() {
        if named(place) && (!opens(place) || openers.contains(&place)) {
            run.push(plain(word(place)));
        } else if !run.is_empty() {
            names.push(std::mem::take(&mut run));
        }
    }
    names.push(run);
    Some(names.into_iter().filter(|name| !name.is_empty()).collect())
}

/// The tokens that the tagger classifies as names even without their capitals.
fn names_without_capitals(tagger: &Tagger, text: &str, tokens: &[Token], asked: &BTreeSet<usize>) -> BTreeSet<usize> {
    if asked.is_empty() {
        return BTreeSet::new();
    }
    let mut lower = String::with_capacity(text.len());
    let mut end = 0;
    let mut spans = Vec::with_capacity(tokens.len());
    for (place, token) in tokens.iter().enumerate() {
        lower.push_str(&text[end..token.span.start]);
        let start = lower.len();
        match &text[token.span.clone()] {
            word if asked.contains(&place) => lower.extend(word.chars().flat_map(char::to_lowercase)),
            word => lower.push_str(word),
        }
        spans.push(start..lower.len());
        end = token.span.end;
    }
    let tagged = tagger.tag_tokens(&lower, spans).tokens;
    let still = |place: &usize| tagged.get(*place).is_some_and(|token| token.pos == Pos::Propn);
    asked.iter().copied().filter(still).collect()
}

/// Acronyms and names after a title; also whether the text has no other noun that could be a name.
fn german(text: &str) -> (Vec<Name>, bool) {
    let words: Vec<&str> = text.unicode_words().collect();
    let mut names = Vec::new();
    let mut sure = true;
    for (at, word) in words.iter().enumerate() {
        let letters = word.chars().count();
        let capital = word.chars().next().is_some_and(char::is_uppercase);
        let acronym = letters > 1 && word.chars().all(char::is_uppercase);
        let titled = capital && at > 0 && matches!(words[at - 1], "Herr" | "Herrn" | "Frau" | "Dr" | "Prof");
        if acronym || titled {
            names.push(vec![plain(word)]);
        } else if capital && letters > 1 {
            sure = false;
        }
    }
    (names, sure && !headline(text))
}

/// Runs of capitalised words that are not at the start of a sentence.
fn by_capitals(text: &str) -> Vec<Name> {
    let mut names: Vec<Name> = Vec::new();
    let mut run: Name = Vec::new();
    let mut opens = true;
    let mut first: Option<String> = None;
    for piece in text.split_word_bounds() {
        let is_word = piece.chars().any(char::is_alphanumeric);
        if !is_word {
            let ends = matches!(piece, "." | "!" | "?" | ":" | "¿" | "¡" | "«" | "\"" | "“");
            if !piece.trim().is_empty() && piece != "-" && !run.is_empty() {
                names.push(std::mem::take(&mut run));
            }
            opens |= ends;
            continue;
        }
        // The part after an elided article: l'Italie.
        let named = piece.rsplit(['\'', '’']).next().unwrap_or(piece);
        let capital = named.chars().next().is_some_and(char::is_uppercase) && named.chars().count() > 1;
        let acronym = capital && named.chars().all(|c| c.is_uppercase() || c.is_numeric());
        if capital && (!opens || acronym || named.len() < piece.len()) {
            // García Márquez: the previous word started the sentence.
            run.extend(first.take());
            run.push(plain(piece));
        } else {
            if !run.is_empty() {
                names.push(std::mem::take(&mut run));
            }
            first = (capital && opens)
                .then(|| plain(piece))
                .filter(|word| word.chars().count() > 3);
        }
        opens = false;
    }
    names.push(run);
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_lacks_its_own_names() {
        let both = Policy {
            lost: true,
            added: true,
        };
        for text in [
            "Version 2.10.3, phone +44 20 7946 0958, room B-12, ISO 9001, F16, 192.168.0.1",
            "10 million, 5bn, 3.2M, 7k, $5m, £3 thousand, ¥100",
            "We met Dr. Anna Smith-Jones of the B.B.C. in room B-12.",
        ] {
            for language in ["en", "de", "fr", "pl"] {
                let found = look(text, text, Some(language), both);
                assert!(!matches!(found, Finding::Broken), "{language}: {text}");
            }
        }
        let met = look(
            "We met Anna Smith in room B-12.",
            "We met her in room B-12.",
            Some("en"),
            both,
        );
        assert!(matches!(met, Finding::Broken), "a name that is gone is missed");
    }

    const LOST: Policy = Policy {
        lost: true,
        added: false,
    };

    fn finding(language: &str, original: &str, rewrite: &str) -> Finding {
        look(original, rewrite, Some(language), LOST)
    }

    #[test]
    fn a_name_in_another_form_is_kept() {
        for (original, rewrite) in [
            (
                "The World Health Organization warned Kenya.",
                "Kenya was warned by the WHO.",
            ),
            (
                "Yesterday Barack Obama spoke in Berlin.",
                "In Berlin Obama gave a speech yesterday.",
            ),
            ("The Swedish army bought it.", "Sweden's army bought it."),
            ("He works at Toyota.", "Toyota's his employer."),
        ] {
            assert_eq!(
                finding("en", original, rewrite),
                Finding::Kept,
                "{original} / {rewrite}"
            );
        }
        assert_eq!(
            finding("fr", "Il habite à Genève.", "Genève est sa ville."),
            Finding::Kept
        );
        assert_eq!(
            finding("pl", "Mieszka w Warszawie.", "Warszawa to jego miasto."),
            Finding::Kept
        );
    }

    #[test]
    fn a_name_that_is_gone_is_found() {
        assert_eq!(
            finding(
                "en",
                "Yesterday Barack Obama spoke in Berlin.",
                "Yesterday Obama spoke in Madrid."
            ),
            Finding::Broken
        );
        assert_eq!(finding("es", "Vive en Bogotá.", "Vive en la capital."), Finding::Broken);
        assert_eq!(
            finding("de", "Heute kommt Herr Krüger.", "Heute kommt Herr Schmidt."),
            Finding::Broken
        );
    }

    #[test]
    fn where_capitals_say_nothing_names_are_untold() {
        assert_eq!(finding("de", "Der Hund bellt.", "Ein Köter bellt."), Finding::Unknown);
        assert_eq!(
            finding("ar", "يعيش محمد في القاهرة.", "يسكن محمد هناك."),
            Finding::Unknown
        );
        assert_eq!(
            finding("en", "MAN ARRESTED IN DALLAS", "A man was arrested."),
            Finding::Unknown
        );
    }
}
