//! The words of a text, indexed for finding names in another form. The cost of a lookup does not
//! grow with the text.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{NAMES, Name, places};

/// Number of letters of an acronym that may abbreviate words.
const ACRONYM: std::ops::RangeInclusive<usize> = 2..=5;
/// Number of letters by which short inflected names are compared.
const BEGINNING: usize = 3;

/// The words of a text.
pub(super) struct Words<'a> {
    all: BTreeSet<&'a str>,
    folded: HashSet<String>,
    /// The minimum number of letters among the words with the same beginning.
    shortest: HashMap<&'a str, usize>,
    /// The initials of successive words.
    initials: HashSet<String>,
    places: BTreeSet<usize>,
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [String]) -> Self {
        let mut shortest = HashMap::new();
        for word in words {
            if let Some(beginning) = beginning(word, BEGINNING) {
                let letters = word.chars().count();
                let least = shortest.entry(beginning).or_insert(letters);
                *least = letters.min(*least);
            }
        }
        let initials: Vec<char> = initials(words).collect();
        let runs = ACRONYM.flat_map(|letters| initials.windows(letters).map(|run| run.iter().collect()));
        Self {
            all: words.iter().map(String::as_str).collect(),
            folded: words.iter().map(|word| folded(word)).collect(),
            shortest,
            initials: runs.collect(),
            places: places::of(words),
        }
    }

    /// Whether a name occurs: as one of its own words, as its initials, as the words that its
    /// initials abbreviate, or as another name of the same place.
    pub(super) fn keep(&self, name: &Name, inflected: bool) -> bool {
        let own: Vec<&String> = name
            .iter()
            .filter(|word| !NAMES.has("generic", word.as_str()))
            .collect();
        let own: Vec<&String> = if own.is_empty() {
            name.iter().filter(|word| word.len() > 3).collect()
        } else {
            own
        };
        own.is_empty()
            || own.iter().any(|word| self.has_form(word, inflected))
            || self.abbreviate(name)
            || !self.places.is_disjoint(&places::of(name))
    }

    fn has_form(&self, word: &str, inflected: bool) -> bool {
        if self.all.contains(word) || self.folded.contains(&folded(word)) {
            return true;
        }
        let letters = word.chars().count();
        if inflected {
            let shared = 4.max(letters.saturating_sub(3));
            return beginning(word, shared).is_some_and(|shared| self.begin_with(shared))
                || letters <= 4
                    && beginning(word, BEGINNING)
                        .and_then(|shared| self.shortest.get(shared))
                        .is_some_and(|shortest| *shortest <= letters + 3);
        }
        // A plural or an adjective: Toyotas, Shakespearean.
        let longer = |ending: &&str| self.all.contains(format!("{word}{ending}").as_str());
        let shorter = |ending: &&str| {
            word.strip_suffix(*ending)
                .is_some_and(|stem| stem.chars().count() >= 4 && self.all.contains(stem))
        };
        letters >= 4 && ["s", "es", "ean", "esque"].iter().any(longer) || ["s", "es"].iter().any(shorter)
    }

    fn begin_with(&self, beginning: &str) -> bool {
        let mut from = self.all.range(beginning..);
        from.next().is_some_and(|word| word.starts_with(beginning))
    }

    /// Whether the text has a name's initials instead of the name, or the name instead of its
    /// initials.
    fn abbreviate(&self, name: &Name) -> bool {
        let short: String = initials(name).collect();
        short.chars().count() >= 2 && self.all.contains(short.as_str())
            || name
                .iter()
                .any(|word| ACRONYM.contains(&word.chars().count()) && self.initials.contains(word))
    }
}

/// The first `letters` letters of a word; `None` if the word is shorter.
fn beginning(word: &str, letters: usize) -> Option<&str> {
    let (last, c) = word.char_indices().nth(letters.checked_sub(1)?)?;
    Some(&word[..last + c.len_utf8()])
}

/// The initials of all words except function words.
fn initials(words: &[String]) -> impl Iterator<Item = char> {
    let small = |word: &str| {
        matches!(
            word,
            "of" | "the" | "and" | "for" | "de" | "des" | "del" | "la" | "du" | "y" | "et"
        )
    };
    words
        .iter()
        .filter(move |word| !small(word))
        .filter_map(|word| word.chars().next())
}

/// A word without accents.
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
