//! Names: are the persons, places, organisations and products of the original still named?
//!
//! In English a tagger finds names. In languages that capitalise only names, a capital inside a
//! sentence marks one. German capitalises every noun: there only acronyms and names after a title
//! count, and the rest cannot be told. Scripts without capitals cannot be told at all.

mod places;

use std::collections::BTreeSet;

use isomer_tagger::{EntityLabel, Pos, Tagger};
use unicode_segmentation::UnicodeSegmentation;

use super::{Duty, Finding};

/// Languages in Latin, Greek or Cyrillic letters that write names, and no other nouns, with a
/// capital, and leave names as they are in every case.
const FIXED: [&str; 15] = [
    "fr", "es", "it", "pt", "nl", "ca", "gl", "sv", "da", "no", "id", "ms", "vi", "af", "tl",
];
/// The same, but a name has other endings in other cases.
const INFLECTED: [&str; 18] = [
    "pl", "cs", "sk", "sl", "hr", "sr", "bs", "ru", "uk", "bg", "el", "fi", "et", "hu", "tr", "lt", "lv", "ro",
];
/// Words that occur in names but name nothing on their own.
const GENERIC: &[&str] = &[
    "mr",
    "mrs",
    "ms",
    "miss",
    "dr",
    "prof",
    "professor",
    "sir",
    "lord",
    "lady",
    "king",
    "queen",
    "prince",
    "princess",
    "president",
    "chancellor",
    "minister",
    "senator",
    "governor",
    "mayor",
    "judge",
    "captain",
    "general",
    "st",
    "saint",
    "mount",
    "mt",
    "lake",
    "river",
    "sea",
    "ocean",
    "island",
    "islands",
    "city",
    "town",
    "state",
    "states",
    "county",
    "street",
    "avenue",
    "road",
    "bridge",
    "park",
    "stadium",
    "museum",
    "hospital",
    "school",
    "college",
    "university",
    "church",
    "hotel",
    "airport",
    "station",
    "bank",
    "company",
    "corporation",
    "corp",
    "inc",
    "ltd",
    "group",
    "party",
    "court",
    "council",
    "committee",
    "government",
    "senate",
    "congress",
    "parliament",
    "prize",
    "award",
    "cup",
    "league",
    "hurricane",
    "war",
    "world",
    "north",
    "south",
    "east",
    "west",
    "northern",
    "southern",
    "eastern",
    "western",
    "central",
    "new",
    "the",
    "of",
    "and",
    "for",
    "in",
    "on",
    "at",
    "de",
    "la",
    "le",
    "du",
    "von",
    "van",
    "ii",
    "iii",
    "iv",
    "jr",
    "sr",
    "i",
    "a",
    "an",
    "club",
    "team",
    "series",
    "act",
    "day",
    "times",
    "news",
    "post",
    "great",
    "national",
    "international",
    "federal",
    "union",
    "republic",
    "kingdom",
    "herr",
    "frau",
    "señor",
    "señora",
    "don",
    "doña",
    "monsieur",
    "madame",
    "rue",
    "río",
    "lago",
    "calle",
    "plaza",
    "s",
    "police",
    "english",
    "earth",
    "internet",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    "lol",
    "yo",
    "thx",
    "thanks",
    "hi",
    "hello",
    "hey",
    "ok",
    "yes",
    "no",
];
/// Labels that the number guard covers, or that name no particular thing.
const OTHER_LABELS: [EntityLabel; 7] = [
    EntityLabel::Date,
    EntityLabel::Time,
    EntityLabel::Percent,
    EntityLabel::Money,
    EntityLabel::Quantity,
    EntityLabel::Ordinal,
    EntityLabel::Cardinal,
];

/// A name: its words in lower case, as they are written.
type Name = Vec<String>;

pub(super) fn look(original: &str, rewrite: &str, language: Option<&str>, duty: Duty) -> Finding {
    let lost = if duty.lost {
        missing(original, rewrite, language)
    } else {
        Finding::Kept
    };
    let added = if duty.added {
        missing(rewrite, original, language)
    } else {
        Finding::Kept
    };
    match (lost, added) {
        (Finding::Broken, _) | (_, Finding::Broken) => Finding::Broken,
        (Finding::Untold, _) | (_, Finding::Untold) => Finding::Untold,
        _ => Finding::Kept,
    }
}

/// Whether a name of a text is missing from the other.
fn missing(text: &str, other: &str, language: Option<&str>) -> Finding {
    let (names, sure) = match language {
        Some("en") if !headline(text) => match english(text) {
            Some(names) => (names, true),
            None => return Finding::Untold,
        },
        Some("de") => german(text),
        Some(code) if (FIXED.contains(&code) || INFLECTED.contains(&code)) && !headline(text) => {
            (by_capitals(text), true)
        }
        _ => return Finding::Untold,
    };
    let words = words_of(other);
    let tokens = tokens_of(other);
    let inflected = language.is_some_and(|code| INFLECTED.contains(&code));
    let stands_there = |name: &Name| name.iter().all(|word| tokens.contains(word));
    if names
        .iter()
        .any(|name| !stands_there(name) && !kept(name, &words, inflected))
    {
        Finding::Broken
    } else if sure {
        Finding::Kept
    } else {
        Finding::Untold
    }
}

/// Whether all words begin with a capital or most are in capitals: capitals then tell nothing.
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

/// Without the `'s` and the points of an acronym.
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

/// The words as names are made of them, by the tagger and by Unicode, which split `3.2M` and `B-12`
/// differently from [`words_of`]. With them, a name taken from a text is always found in that text.
fn tokens_of(text: &str) -> BTreeSet<String> {
    let tagged = isomer_tagger::tokenise(text);
    let tokens = tagged.into_iter().map(|span| &text[span]);
    tokens.chain(text.unicode_words()).map(plain).collect()
}

/// The names of an English text, where there is a tagger.
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
    // skipped, since it is capitalised anyway.
    let mut run: Name = Vec::new();
    for (place, token) in tagged.tokens.iter().enumerate() {
        let word = &text[token.span.clone()];
        let capital = word.chars().next().is_some_and(char::is_uppercase);
        let opens =
            place == 0 || at(place - 1).is_some_and(|before| matches!(before, "." | "!" | "?" | ":" | "\"" | "“"));
        let named = token.pos == Pos::Propn && capital && !inside.contains(&place) && !dated.contains(&place);
        if named && (!opens || still_a_name(tagger, text, token.span.clone())) {
            run.push(plain(word));
        } else if !run.is_empty() {
            names.push(std::mem::take(&mut run));
        }
    }
    names.push(run);
    Some(names.into_iter().filter(|name| !name.is_empty()).collect())
}

/// Whether the tagger takes a word for a name even without its capital.
fn still_a_name(tagger: &Tagger, text: &str, span: std::ops::Range<usize>) -> bool {
    let lower = format!(
        "{}{}{}",
        &text[..span.start],
        text[span.clone()].to_lowercase(),
        &text[span.end..]
    );
    let tagged = tagger.tag(&lower);
    tagged
        .tokens
        .iter()
        .any(|token| token.span.start == span.start && token.pos == Pos::Propn)
}

/// Acronyms, and names after a title; also whether the text has no other noun that might be a name.
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

/// Runs of words with a capital that do not open a sentence.
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
            // García Márquez: the word before opened the sentence.
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

/// Whether a name occurs in the other text: by one of its own words, its initials, or the words
/// that its initials stand for.
fn kept(name: &Name, words: &[String], inflected: bool) -> bool {
    let own: Vec<&String> = name.iter().filter(|word| !GENERIC.contains(&word.as_str())).collect();
    let own: Vec<&String> = if own.is_empty() {
        name.iter().filter(|word| word.len() > 3).collect()
    } else {
        own
    };
    if own.is_empty() {
        return true;
    }
    own.iter()
        .any(|word| words.iter().any(|other| same(word, other, inflected)))
        || abbreviated(name, words)
        || places::same_place(name, words)
}

fn same(word: &str, other: &str, inflected: bool) -> bool {
    if word == other || folded(word) == folded(other) {
        return true;
    }
    let (a, b) = (word.chars().count(), other.chars().count());
    let shared = word.chars().zip(other.chars()).take_while(|(x, y)| x == y).count();
    if inflected {
        return shared >= 4.max(a.saturating_sub(3)) || (a <= 4 && shared >= 3 && b <= a + 3);
    }
    // A plural or an adjective: Toyotas, Shakespearean.
    let ending = |longer: &str, at: usize| {
        matches!(
            longer.chars().skip(at).collect::<String>().as_str(),
            "s" | "es" | "an" | "ian" | "n"
        )
    };
    let _ = b;
    a >= 4
        && shared == a
        && matches!(
            other.chars().skip(a).collect::<String>().as_str(),
            "s" | "es" | "ean" | "esque"
        )
        || (b >= 4 && shared == b && ending(word, b) && word.ends_with('s'))
}

/// Without accents.
fn folded(word: &str) -> String {
    word.chars()
        .map(|c| match c {
            'á' | 'à' | 'â' | 'ä' | 'ã' | 'å' => 'a',
            'é' | 'è' | 'ê' | 'ë' => 'e',
            'í' | 'ì' | 'î' | 'ï' => 'i',
            'ó' | 'ò' | 'ô' | 'ö' | 'õ' | 'ø' => 'o',
            'ú' | 'ù' | 'û' | 'ü' => 'u',
            'ç' => 'c',
            'ñ' => 'n',
            other => other,
        })
        .collect()
}

/// Whether the other text has a name's initials instead of the name, or the name instead of its
/// initials.
fn abbreviated(name: &Name, words: &[String]) -> bool {
    let initials = |words: &[String]| words.iter().filter_map(|word| word.chars().next()).collect::<String>();
    let small = |word: &String| {
        matches!(
            word.as_str(),
            "of" | "the" | "and" | "for" | "de" | "des" | "del" | "la" | "du" | "y" | "et"
        )
    };
    let long: Vec<String> = name.iter().filter(|word| !small(word)).cloned().collect();
    if long.len() >= 2 {
        let short = initials(&long);
        if words.contains(&short) {
            return true;
        }
    }
    let others: Vec<String> = words.iter().filter(|word| !small(word)).cloned().collect();
    name.iter()
        .filter(|word| (2..=5).contains(&word.chars().count()))
        .any(|word| others.windows(word.chars().count()).any(|run| initials(run) == *word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_lacks_its_own_names() {
        let both = Duty {
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

    const LOST: Duty = Duty {
        lost: true,
        added: false,
    };

    fn told(language: &str, original: &str, rewrite: &str) -> Finding {
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
            assert_eq!(told("en", original, rewrite), Finding::Kept, "{original} / {rewrite}");
        }
        assert_eq!(told("fr", "Il habite à Genève.", "Genève est sa ville."), Finding::Kept);
        assert_eq!(
            told("pl", "Mieszka w Warszawie.", "Warszawa to jego miasto."),
            Finding::Kept
        );
    }

    #[test]
    fn a_name_that_is_gone_is_found() {
        assert_eq!(
            told(
                "en",
                "Yesterday Barack Obama spoke in Berlin.",
                "Yesterday Obama spoke in Madrid."
            ),
            Finding::Broken
        );
        assert_eq!(told("es", "Vive en Bogotá.", "Vive en la capital."), Finding::Broken);
        assert_eq!(
            told("de", "Heute kommt Herr Krüger.", "Heute kommt Herr Schmidt."),
            Finding::Broken
        );
    }

    #[test]
    fn where_capitals_say_nothing_names_are_untold() {
        assert_eq!(told("de", "Der Hund bellt.", "Ein Köter bellt."), Finding::Untold);
        assert_eq!(told("ar", "يعيش محمد في القاهرة.", "يسكن محمد هناك."), Finding::Untold);
        assert_eq!(
            told("en", "MAN ARRESTED IN DALLAS", "A man was arrested."),
            Finding::Untold
        );
    }
}
