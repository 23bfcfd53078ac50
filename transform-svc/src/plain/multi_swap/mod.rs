//! PARTIAL's multi-swap: pairs of words or phrases of one kind change places, so that every word
//! stays and the meaning does not (section 4 there).
//!
//! 1. Tag: each word by part of speech, each named entity as one phrase by its type; where both
//!    hold, the entity.
//! 2. Group what has one tag. All verb tags are one group and all noun tags are one; forms of *be*
//!    are in none. Equal words are taken once, letter case aside. A group of fewer than two is
//!    none.
//! 3. Draw three groups, and of each a pair. With fewer than three groups there is no variant.
//! 4. Change places, one pair after the other: the first variant has one swap, the second two, the
//!    third three.
//!
//! What has a tag that counts the paper does not list. Here: nouns, verbs, adjectives, adverbs,
//! numbers and entities, which is what its examples swap and what gives its yield (39.1 % of
//! PAWS-Wiki's positive pairs): with prepositions and determiners nearly twice as many pairs would
//! have three groups. Modals are not verbs here (their tag, `MD`, is none of the verb tags), `have`
//! and `do` are, as auxiliaries too.

mod phrases;

use std::collections::{BTreeMap, HashSet};

use rand::{Rng, seq::index};

pub use phrases::{English, Group, LANGUAGES, Phrase, PhraseTagger, tagger_for};

use crate::seed;

/// Groups that are needed, and drawn.
pub const GROUPS: usize = 3;
/// Most swaps, therefore.
pub const MAX_SWAPS: usize = GROUPS;
/// Draws until all variants differ. Hardly ever more than one: two phrases that change places would
/// have to make the same text again, as `no` and `no no` in `no no no`.
const DRAWS: u32 = 8;

/// Why a text has no variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// Too few groups of at least two.
    #[error(
        "of the kinds of words (nouns, verbs, names …) {found} occur at least twice in it; {GROUPS} are needed to swap"
    )]
    TooFewGroups {
        /// How many there are.
        found: usize,
    },
    /// Every draw made a text that was there already.
    #[error("its words make the same text again when they change places")]
    NothingChanges,
}

/// The variants with one, two, … `swaps` swaps. The draw is a function of `(seed, run, text_id)`
/// and the text.
///
/// # Errors
/// A text without enough groups.
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

/// A pair of each of three groups.
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

/// The text with phrase `order[n]` in the place of phrase n. Spaces and marks stay where they are;
/// a capital that a word has only because it begins a sentence stays there too.
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

/// `Xxxx`, but for what is written in capitals throughout.
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
