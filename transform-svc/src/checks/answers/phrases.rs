//! The words of `phrases.txt`, by class and concept.

use std::{collections::HashMap, sync::LazyLock};

use super::is_unspaced;

/// Words that occur alone between two rewrites, or before a colon.
pub(super) const OR: [&str; 14] = [
    "or",
    "oder",
    "ou",
    "o",
    "oppure",
    "или",
    "либо",
    "或",
    "或者",
    "او",
    "veya",
    "of",
    "lub",
    "または",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// The vocabulary of the task: text, summary, style.
    Task,
    /// Inability and apology.
    Unable,
    /// Statements of a model about itself.
    Machine,
    /// Questions and requests to the user.
    Ask,
    /// Closing offers.
    Offer,
    /// Labels of notes.
    Label,
    /// Contents of notes.
    Manner,
    /// Words that introduce another rewrite.
    Alternative,
    /// Names of slots to be filled in.
    Slot,
    /// Words that begin an introduction.
    Opener,
    /// Machines as a topic of a text.
    Bot,
}

isomer_names::names!(Class {
    Task = "task", Unable = "unable", Machine = "machine", Ask = "ask", Offer = "offer", Label = "label",
    Manner = "manner", Alternative = "alternative", Slot = "slot", Opener = "opener", Bot = "bot"
});

struct Concept {
    class: Class,
    name: &'static str,
}

struct Word {
    text: String,
    /// Whether any ending may follow the word.
    is_stem: bool,
    concept: usize,
}

/// The words, indexed by their first two characters.
struct Phrases {
    concepts: Vec<Concept>,
    words: Vec<Word>,
    by_start: HashMap<(char, Option<char>), Vec<usize>>,
}

static PHRASES: LazyLock<Phrases> = LazyLock::new(|| {
    let (mut class, mut concepts, mut words) = (None, Vec::new(), Vec::new());
    for line in include_str!("phrases.txt").lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            class = Class::named(name);
        } else if let (Some(class), Some((name, own))) = (class, line.split_once(':')) {
            words.extend(own.split('|').map(|word| {
                let word = plain(word.trim());
                Word {
                    is_stem: word.ends_with('*'),
                    text: word.trim_end_matches('*').to_owned(),
                    concept: concepts.len(),
                }
            }));
            concepts.push(Concept { class, name });
        }
    }
    let mut by_start = HashMap::<_, Vec<usize>>::new();
    for (index, word) in words.iter().enumerate() {
        let mut chars = word.text.chars();
        if let Some(first) = chars.next() {
            by_start.entry((first, chars.next())).or_default().push(index);
        }
    }
    Phrases {
        concepts,
        words,
        by_start,
    }
});

/// Lower case, with straight apostrophes and without the optional marks of Arabic.
pub(super) fn plain(text: &str) -> String {
    let kept = text.trim().chars().filter_map(|c| match c {
        '\u{64B}'..='\u{652}' | '\u{640}' => None,
        'أ' | 'إ' | 'آ' => Some('ا'),
        '’' | '‘' => Some('\''),
        _ => Some(c),
    });
    kept.collect::<String>().to_lowercase()
}

/// The concepts that occur in a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Concepts(u64);

impl Concepts {
    /// Finds the concepts of a text.
    pub(super) fn of(text: &str) -> Self {
        let text = plain(text);
        let phrases = &*PHRASES;
        let mut found = 0;
        let mut before = None;
        let mut chars = text.char_indices().peekable();
        while let Some((at, first)) = chars.next() {
            let inside = joins(first) && before.is_some_and(joins);
            before = Some(first);
            if inside {
                continue;
            }
            let second = chars.peek().map(|(_, second)| *second);
            for key in [(first, second), (first, None)] {
                let words = phrases.by_start.get(&key).into_iter().flatten();
                let held = words
                    .map(|index| &phrases.words[*index])
                    .filter(|word| word.begins(&text[at..]));
                found |= held.fold(0, |found, word| found | 1 << word.concept);
            }
        }
        Self(found)
    }

    /// The concepts that another text lacks.
    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn of_class(self, class: Class) -> Self {
        let concepts = PHRASES.concepts.iter().enumerate();
        let own = concepts.filter(|(_, concept)| concept.class == class);
        Self(own.fold(0, |own, (index, _)| own | self.0 & 1 << index))
    }

    /// The number of concepts of a class.
    pub(super) fn count(self, class: Class) -> usize {
        self.of_class(class).0.count_ones() as usize
    }

    /// Whether a concept of a class occurs.
    pub(super) fn has(self, class: Class) -> bool {
        self.of_class(class).0 != 0
    }

    /// Whether one of these concepts occurs.
    pub(super) fn has_any(self, names: &[&str]) -> bool {
        let mut concepts = PHRASES.concepts.iter().enumerate();
        concepts.any(|(index, concept)| self.0 >> index & 1 == 1 && names.contains(&concept.name))
    }
}

/// Whether words before a colon, or alone on a line, announce another rewrite.
pub(super) fn begins_other(head: &str) -> bool {
    let head = plain(head);
    let head = head.trim_matches(['*', '_', '-', '(', ',', '、', ':', ' ']);
    begins_with(Class::Alternative, head) || OR.contains(&head)
}

/// Whether a normalised text begins with a word of the class.
pub(super) fn begins_with(class: Class, text: &str) -> bool {
    let phrases = &*PHRASES;
    let mut words = phrases.words.iter();
    words.any(|word| phrases.concepts[word.concept].class == class && word.begins(text))
}

impl Word {
    /// Whether a text begins with the word.
    fn begins(&self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(self.text.as_str()) else {
            return false;
        };
        let last = self.text.chars().next_back().is_some_and(joins);
        self.is_stem || !last || !rest.starts_with(joins)
    }
}

/// Whether a letter belongs to the same word as its neighbours. In Arabic, articles and
/// conjunctions are written together with the word.
fn joins(c: char) -> bool {
    c.is_alphanumeric() && !is_unspaced(c) && !('\u{600}'..='\u{6FF}').contains(&c)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_class_has_words_and_a_bit_for_each_concept() {
        let Phrases { concepts, words, .. } = &*PHRASES;
        assert!(concepts.len() <= u64::BITS as usize, "{}", concepts.len());
        for class in Class::ALL {
            let name = class.name();
            assert!(concepts.iter().any(|concept| concept.class == class), "{name}");
        }
        let mut names = HashSet::new();
        for (index, concept) in concepts.iter().enumerate() {
            assert!(names.insert(concept.name), "{} is there twice", concept.name);
            assert!(words.iter().any(|word| word.concept == index), "{}", concept.name);
        }
        assert!(words.iter().all(|word| word.text.chars().count() > 0), "an empty word");
    }

    #[test]
    fn words_are_found_whole_and_stems_with_any_ending() {
        let has = |text: &str| Concepts::of(text).has_any(&["text"]);
        assert!(has("Send me the TEXT, please.") && has("текста нет") && has("请给我原文。") && has("أين النَّص؟"));
        assert!(!has("the context of it") && !has("texture"));
    }
}
