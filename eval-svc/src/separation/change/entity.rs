//! `entity`: replaces a named entity with another of the same type that occurs in the same data
//! set.
//!
//! English only, with the tagger. People, places, organisations, nationalities and languages are
//! replaced with others of the data set ([`Names`]), days of the week and months with other days
//! and months. Every occurrence of the name in the text is replaced.

use std::collections::BTreeMap;

use isomer_tagger::{EntityLabel, Pos};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use super::words::{English, drawn};

/// Types of entities that are replaced.
const TYPES: [EntityLabel; 6] = [
    EntityLabel::Person,
    EntityLabel::Gpe,
    EntityLabel::Loc,
    EntityLabel::Org,
    EntityLabel::Norp,
    EntityLabel::Language,
];

/// Names from a closed list. `May` and `March` also have other meanings, and count only as proper
/// nouns.
const CALENDAR: [&[&str]; 2] = [
    &[
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ],
    &[
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ],
];

/// Maximum number of words of a name: longer names are usually a mistake of the tagger.
const MOST_WORDS: usize = 4;

/// The names of a data set, by type and the part of speech of their last word (`French` and
/// `Germans` are both nationalities).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    all: BTreeMap<(EntityLabel, Pos), Vec<String>>,
}

/// An entity of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EntityMention {
    kind: (EntityLabel, Pos),
    name: String,
}

/// The entities of a text that may be replaced.
fn found(text: &English<'_>) -> Vec<EntityMention> {
    let one = |entity: &isomer_tagger::Entity| {
        let mut tokens = entity.tokens.clone();
        // The article and the possessive are not part of the name.
        if text.lower(tokens.start) == "the" {
            tokens.start += 1;
        }
        if matches!(text.lower(tokens.end.saturating_sub(1)), "'s" | "'") {
            tokens.end -= 1;
        }
        let (first, last) = (
            text.words.get(tokens.start)?,
            text.words.get(tokens.end.checked_sub(1)?)?,
        );
        let name = text.text.get(first.span.start..last.span.end)?;
        let plain = name.starts_with(char::is_uppercase) && name.chars().any(char::is_lowercase);
        (TYPES.contains(&entity.label) && plain && tokens.len() <= MOST_WORDS).then(|| EntityMention {
            kind: (entity.label, last.pos),
            name: name.to_owned(),
        })
    };
    text.entities.iter().filter_map(one).collect()
}

impl Names {
    pub(super) fn add(&mut self, text: &English<'_>) {
        for one in found(text) {
            let names = self.all.entry(one.kind).or_default();
            if let Err(place) = names.binary_search(&one.name) {
                names.insert(place, one.name);
            }
        }
    }
}

/// The text with one entity replaced; `parts` determine the draw.
pub(super) fn exchanged(text: &English<'_>, names: &Names, parts: &[&str], seed: u64) -> Option<String> {
    let mut places: Vec<(String, Vec<&str>)> = Vec::new();
    for one in found(text) {
        let known = names.all.get(&one.kind).into_iter().flatten();
        let others: Vec<&str> = known
            .map(String::as_str)
            .filter(|other| fits(text.text, &one.name, other))
            .collect();
        places.push((one.name, others));
    }
    for word in text.words.iter().filter(|word| word.pos == Pos::Propn) {
        let shown = &text.text[word.span.clone()];
        if let Some(class) = CALENDAR.iter().find(|class| class.contains(&shown)) {
            let others = class.iter().copied().filter(|other| !text.text.contains(other));
            places.push((shown.to_owned(), others.collect()));
        }
    }
    places.retain(|(_, others)| !others.is_empty());
    let (name, others) = places.get(drawn(parts, seed, places.len()))?;
    let other = others.get(drawn(&[parts, &["name"]].concat(), seed, others.len()))?;
    Some(replaced(text.text, name, other))
}

/// Whether a name can replace another in a text: it has as many words, and none of them is already
/// in the text, ignoring letter case and accents. `Zürich` and `Zurich` are the same name, and the
/// same text for an encoder that drops accents.
fn fits(text: &str, name: &str, other: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let plain: String = text.nfkd().filter(|c| !is_combining_mark(*c)).collect();
        let words = plain
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let there = words(text);
    words(name).len() == words(other).len() && words(other).iter().all(|word| !there.contains(word))
}

/// Replaces every occurrence of a name between word boundaries.
fn replaced(text: &str, name: &str, other: &str) -> String {
    let mut out = String::with_capacity(text.len() + other.len());
    let mut rest = 0;
    for (at, _) in text.match_indices(name) {
        let open = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
        if open(before) && open(after) {
            out.push_str(&text[rest..at]);
            out.push_str(other);
            rest = at + name.len();
        }
    }
    out.push_str(&text[rest..]);
    out
}
