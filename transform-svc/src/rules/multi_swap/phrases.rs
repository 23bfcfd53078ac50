//! The phrases of a text that can be swapped: words and named entities of the supported kinds.

use std::ops::Range;

use isomer_tagger::{EntityLabel, Pos, TaggedText, Tagger};

use crate::language::Language;

/// Languages with a tagger.
pub const LANGUAGES: &str = "English (en)";

/// The group of a phrase. A phrase is swapped with others of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Common and proper nouns.
    Noun,
    /// Verbs in any form, except *be* and modals.
    Verb,
    Adjective,
    Adverb,
    /// Numbers outside any entity.
    Number,
    /// Named entities of one type.
    Entity(EntityLabel),
}

/// A word, or the words of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// Its bytes in the text.
    pub span: Range<usize>,
    pub group: Group,
    /// Whether the phrase starts a sentence.
    pub opens: bool,
    /// Whether its first word is a name, which keeps its capital in every position.
    pub name: bool,
}

/// Finds the phrases of texts in one language.
pub trait PhraseTagger: Send + Sync {
    /// The phrases in order; none overlaps another.
    fn phrases(&self, text: &str) -> Vec<Phrase>;
}

/// The tagger for a language. A text too short for detection is treated as English.
///
/// # Errors
/// If the language has no tagger. The model is compiled in, so an unreadable model is an error of
/// the build.
pub fn tagger_for(language: Option<Language>) -> Result<English, String> {
    match language {
        Some(language) if language.code() != "en" => Err(format!(
            "multi_swap needs parts of speech and named entities, and there is no tagger for {}",
            language.name()
        )),
        _ => Tagger::english()
            .map(English)
            .map_err(|error| format!("the tagger of this program cannot be read: {error}")),
    }
}

/// The built-in English tagger.
#[derive(Debug, Clone, Copy)]
pub struct English(&'static Tagger);

impl PhraseTagger for English {
    fn phrases(&self, text: &str) -> Vec<Phrase> {
        of_tagged(text, &self.0.tag(text))
    }
}

fn of_tagged(text: &str, tagged: &TaggedText) -> Vec<Phrase> {
    let mut phrases = Vec::new();
    let mut entities = tagged.entities.iter().peekable();
    let mut opens = true;
    let mut at = 0;
    while let Some(token) = tagged.tokens.get(at) {
        let word = &text[token.span.clone()];
        let (end, group) = match entities.next_if(|entity| entity.tokens.start == at) {
            Some(entity) => (entity.tokens.end, Some(Group::Entity(entity.label))),
            None => (at + 1, group_of(word, token.pos)),
        };
        let last = tagged.tokens.get(end - 1).unwrap_or(token);
        let negated = tagged
            .tokens
            .get(end)
            .is_some_and(|next| next.span.start == last.span.end && is_negation(&text[next.span.clone()]));
        if let Some(group) = group.filter(|_| !negated) {
            phrases.push(Phrase {
                span: token.span.start..last.span.end,
                group,
                opens,
                name: token.pos == Pos::Propn,
            });
        }
        let after = &text[last.span.clone()];
        opens =
            matches!(after, "." | "!" | "?") || (opens && end == at + 1 && !word.chars().any(char::is_alphanumeric));
        at = end;
    }
    phrases
}

/// `n't`: the verb before it must stay adjacent.
fn is_negation(word: &str) -> bool {
    matches!(word.to_lowercase().replace('’', "'").as_str(), "n't" | "nt" | "not")
}

fn group_of(word: &str, pos: Pos) -> Option<Group> {
    // Clitics (`'s`) attach to the word before them. A punctuation mark tagged as a word is not a
    // word.
    if !word.chars().next().is_some_and(char::is_alphanumeric) {
        return None;
    }
    match pos {
        Pos::Noun | Pos::Propn => Some(Group::Noun),
        Pos::Verb | Pos::Aux => (!is_be_or_modal(&word.to_lowercase())).then_some(Group::Verb),
        Pos::Adj => Some(Group::Adjective),
        Pos::Adv => Some(Group::Adverb),
        Pos::Num => Some(Group::Number),
        _ => None,
    }
}

fn is_be_or_modal(lower: &str) -> bool {
    matches!(
        lower,
        "be" | "am"
            | "is"
            | "are"
            | "was"
            | "were"
            | "been"
            | "being"
            | "can"
            | "could"
            | "may"
            | "might"
            | "must"
            | "shall"
            | "should"
            | "will"
            | "would"
            | "ought"
            | "ca"
            | "wo"
            | "sha"
    )
}
