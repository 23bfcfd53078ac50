//! PARTIAL's multi-swap: pairs of words or phrases of one kind are swapped, so that all words are
//! kept and the meaning changes (section 4 there).
//!
//! 1. Tag: each word by part of speech, each named entity as one phrase by its type; an entity
//!    takes precedence.
//! 2. Group phrases with the same tag. All verb tags are one group and all noun tags are one; forms
//!    of *be* are in no group. Equal words are included once, ignoring case. A group of fewer than
//!    two is dropped.
//! 3. Draw three groups, and a pair from each. With fewer than three groups the text has no
//!    variant.
//! 4. Swap the pairs in turn: the first variant has one swap, the second two, the third three.
//!
//! The paper does not list the tags that are used. Here they are nouns, verbs, adjectives, adverbs,
//! numbers and entities: its examples swap these, and they reproduce its yield (39.1 % of
//! PAWS-Wiki's positive pairs). With prepositions and determiners nearly twice as many pairs would
//! have three groups. Modals are not verbs here (their tag, `MD`, is not a verb tag); `have` and
//! `do` are, also as auxiliaries.

mod phrases;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use rand::{Rng, seq::index};

pub use phrases::{English, Group, LANGUAGES, Phrase, PhraseTagger, tagger_for};

use isomer_transformations::Parameters;

use super::{Row, Rule, RuleRefusal, Subject, UnsupportedLanguage, any};
use crate::{checks::Check, language::Language, seed};

/// Number of groups needed and drawn.
pub const GROUPS: usize = 3;
/// Maximum number of draws until all variants differ. More than one is rarely needed: a swap would
/// have to produce the same text again, as with `no` and `no no` in `no no no`.
const DRAWS: u32 = 8;

pub(super) const ROW: Row = Row {
    name: "multi_swap",
    read: |given| Ok(Arc::new(MultiSwap::new(given))),
    values: any,
};

/// The rule: up to this many swaps, at most one per group.
#[derive(Debug)]
pub struct MultiSwap {
    swaps: usize,
}

impl MultiSwap {
    fn new(given: Parameters<'_>) -> Self {
        Self {
            swaps: given.whole("swaps") as usize,
        }
    }
}

impl Rule for MultiSwap {
    fn check_language(&self, language: Language) -> Result<(), UnsupportedLanguage> {
        tagger_for(Some(language))
            .map(|_| ())
            .map_err(|problem| UnsupportedLanguage {
                problem,
                hint: format!("the languages with a tagger: {LANGUAGES}"),
            })
    }

    fn apply(&self, text: &Subject<'_>) -> Result<Vec<String>, RuleRefusal> {
        let tagger = tagger_for(text.language).map_err(|reason| RuleRefusal {
            check: Check::GeneratorError,
            reason,
        })?;
        multi_swap(&tagger, text.text, self.swaps, text.seed, text.run, text.id).map_err(|error| RuleRefusal {
            check: Check::TooFew,
            reason: error.to_string(),
        })
    }
}

/// The reason why a text has no variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// Too few groups with at least two members.
    #[error(
        "of the kinds of words (nouns, verbs, names …) {found} occur at least twice in it; {GROUPS} are needed to swap"
    )]
    TooFewGroups {
        /// Number of groups found.
        found: usize,
    },
    /// Every draw repeated an earlier text.
    #[error("its words make the same text again when they change places")]
    NothingChanges,
}

/// The variants with one, two, … `swaps` swaps. The draw is a function of `(seed, run, text_id)`
/// and the text.
///
/// # Errors
/// If the text has too few groups.
pub fn multi_swap(
    tagger: &dyn PhraseTagger,
    text: &str,
    swaps: usize,
    seed: u64,
    run: &str,
    text_id: &str,
) -> Result<Vec<String>, SwapError> {
    let phrases = tagger.phrases(text);
    let groups = groups(text, &phrases);
    if groups.len() < GROUPS {
        return Err(SwapError::TooFewGroups { found: groups.len() });
    }
    let mut rng = seed::rng(seed, &["multi-swap", run, text_id]);
    for _ in 0..DRAWS {
        let pairs = draw(&groups, &mut rng);
        let mut order: Vec<usize> = (0..phrases.len()).collect();
        let mut variants = Vec::with_capacity(GROUPS);
        for (a, b) in pairs {
            order.swap(a, b);
            variants.push(rebuilt(text, &phrases, &order));
        }
        let different: HashSet<&str> = variants.iter().map(String::as_str).chain([text]).collect();
        if different.len() == variants.len() + 1 {
            variants.truncate(swaps);
            return Ok(variants);
        }
    }
    Err(SwapError::NothingChanges)
}

/// The groups of at least two different phrases, each in order of the text.
fn groups(text: &str, phrases: &[Phrase]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<Group, Vec<usize>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for (at, phrase) in phrases.iter().enumerate() {
        if seen.insert((phrase.group, text[phrase.span.clone()].to_lowercase())) {
            groups.entry(phrase.group).or_default().push(at);
        }
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
}

/// Draws a pair from each of three groups.
fn draw(groups: &[Vec<usize>], rng: &mut impl Rng) -> Vec<(usize, usize)> {
    let drawn = index::sample(rng, groups.len(), GROUPS.min(groups.len()));
    drawn
        .into_iter()
        .filter_map(|group| {
            let group = &groups[group];
            let pair = index::sample(rng, group.len(), 2);
            Some((*group.get(pair.index(0))?, *group.get(pair.index(1))?))
        })
        .collect()
}

/// The text with phrase `order[n]` in place of phrase n. Spaces and punctuation keep their
/// positions. A capital that only marks the start of a sentence keeps its position too.
fn rebuilt(text: &str, phrases: &[Phrase], order: &[usize]) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut next = 0;
    for (place, &from) in phrases.iter().zip(order) {
        out.push_str(&text[next..place.span.start]);
        next = place.span.end;
        let phrase = &phrases[from];
        let words = &text[phrase.span.clone()];
        let capital = text[place.span.clone()].starts_with(char::is_uppercase);
        if phrase.span == place.span {
            out.push_str(words);
        } else if place.opens && capital {
            push_with_first(&mut out, words, |c| c.to_uppercase().collect());
        } else if phrase.opens && !phrase.name && is_capitalised(words) {
            push_with_first(&mut out, words, |c| c.to_lowercase().collect());
        } else {
            out.push_str(words);
        }
    }
    out.push_str(&text[next..]);
    out
}

/// Whether the words are capitalised as `Xxxx`, not written in capitals throughout.
fn is_capitalised(words: &str) -> bool {
    let mut letters = words.split(char::is_whitespace).next().unwrap_or_default().chars();
    letters.next().is_some_and(char::is_uppercase) && !letters.any(char::is_uppercase)
}

fn push_with_first(out: &mut String, words: &str, change: impl Fn(char) -> String) {
    let mut rest = words.chars();
    if let Some(first) = rest.next() {
        out.push_str(&change(first));
    }
    out.push_str(rest.as_str());
}

#[cfg(test)]
mod tests;
