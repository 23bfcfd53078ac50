//! `negation`: removes a negation from a text, or adds one to a text without any.
//!
//! English, by parts of speech. A text with negations loses the first one (`don't` → `do`, `not` →
//! nothing, `never` → `always`, `no` → `some`, `nobody` → `everybody`, `without` → `with`).
//! Otherwise `not` is inserted after the first finite auxiliary (`is not`, `can not`), or `never`
//! before the first finite verb, or `Do not` before an imperative. Questions get no negation:
//! `can I pay?` and `can I not pay?` have the same meaning.
//!
//! In other languages only single words are replaced, so that the sentence stays grammatical
//! ([`EXCHANGED`]); if none occurs, the rule does not apply.

use isomer_tagger::Pos;

use super::words::{English, capitalised, in_case_of, spliced, without};

/// Words of other languages, in lower case, that may be replaced with their opposite in any
/// position.
const EXCHANGED: &[(&str, &[(&str, &str)])] = &[
    (
        "de",
        &[
            ("kein", "ein"),
            ("keine", "eine"),
            ("keinen", "einen"),
            ("keinem", "einem"),
            ("keines", "eines"),
            ("nie", "immer"),
            ("niemals", "immer"),
            ("niemand", "jeder"),
        ],
    ),
    ("es", &[("nunca", "siempre"), ("sin", "con")]),
    ("fr", &[("sans", "avec")]),
    ("it", &[("senza", "con")]),
    ("pt", &[("nunca", "sempre"), ("sem", "com")]),
    ("nl", &[("nooit", "altijd"), ("zonder", "met"), ("niemand", "iedereen")]),
    ("sv", &[("aldrig", "alltid"), ("utan", "med"), ("ingen", "någon")]),
];

/// English words that are replaced with their opposite.
const OPPOSITE: &[(&str, &str)] = &[
    ("never", "always"),
    ("nobody", "everybody"),
    ("nothing", "everything"),
    ("nowhere", "everywhere"),
    ("none", "all"),
    ("without", "with"),
];

/// Auxiliaries that are finite in any position except after `to`.
const FINITE: &[&str] = &[
    "is", "are", "was", "were", "am", "can", "could", "will", "would", "shall", "should", "must", "may", "might",
    "has", "have", "had", "does", "do", "did", "'s", "'re", "'ll", "'ve", "'m", "'d",
];

/// Words after which `not` does not negate a clause.
const FIXED_BEFORE: &[&str] = &["or", "why", "if", "whether"];
/// Words before which `not` does not negate a clause.
const FIXED_AFTER: &[&str] = &["only", "just", "merely", "least", "to"];

/// An English text with one negation added or removed.
pub(super) fn english(text: &English<'_>) -> Option<String> {
    let negated = (0..text.words.len()).find(|at| is_negation(text, *at));
    match negated {
        Some(at) => affirmed(text, at),
        None if text.text.contains('?') => None,
        None => after_auxiliary(text)
            .or_else(|| before_verb(text))
            .or_else(|| order(text)),
    }
}

/// A text in another language with one negation removed, if its language has a rule that applies.
pub(super) fn other(text: &str, language: &str) -> Option<String> {
    let (_, words) = EXCHANGED.iter().find(|(known, _)| *known == language)?;
    let mut start = 0;
    for piece in text.split_inclusive(|c: char| !c.is_alphabetic()) {
        let word = piece.trim_end_matches(|c: char| !c.is_alphabetic());
        let span = start..start + word.len();
        start += piece.len();
        if let Some((_, opposite)) = words.iter().find(|(known, _)| *known == word.to_lowercase()) {
            return Some(spliced(text, span, &in_case_of(word, opposite)));
        }
    }
    None
}

/// Whether the word negates, even if no rule can remove it.
fn is_negation(text: &English<'_>, at: usize) -> bool {
    let word = text.lower(at);
    let opposite = OPPOSITE.iter().any(|(known, _)| *known == word);
    matches!(word, "not" | "n't" | "nt" | "no" | "neither" | "nor" | "cannot") || opposite
}

/// The text without the negation at a position.
fn affirmed(text: &English<'_>, at: usize) -> Option<String> {
    let word = text.words.get(at)?;
    let before = at.checked_sub(1).map_or("", |before| text.lower(before));
    let after = text.lower(at + 1);
    match word.lower.as_str() {
        "n't" => {
            let auxiliary = at.checked_sub(1).and_then(|before| text.words.get(before))?;
            let whole = match auxiliary.lower.as_str() {
                "ca" => "can",
                "wo" => "will",
                "sha" => "shall",
                "ai" => return None,
                other => other,
            };
            let span = auxiliary.span.start..word.span.end;
            let shown = in_case_of(&text.text[auxiliary.span.clone()], whole);
            Some(spliced(text.text, span, &shown))
        }
        "not" if FIXED_BEFORE.contains(&before) || FIXED_AFTER.contains(&after) => None,
        "not" => Some(without(text.text, word.span.clone())),
        "cannot" => text.replaced(at, "can"),
        // Not `no longer`, `no one` or `no, …`: only the determiner precedes a noun or its
        // adjective.
        "no" => {
            let noun = matches!(text.pos(at + 1), Some(Pos::Noun | Pos::Adj | Pos::Propn));
            let fixed = matches!(after, "longer" | "one" | "more" | "matter" | "doubt");
            (noun && !fixed && word.pos == Pos::Det)
                .then(|| text.replaced(at, "some"))
                .flatten()
        }
        "without" if after == "any" => None,
        other => {
            let (_, opposite) = OPPOSITE.iter().find(|(known, _)| *known == other)?;
            text.replaced(at, opposite)
        }
    }
}

/// The text with `not` after the first finite auxiliary.
fn after_auxiliary(text: &English<'_>) -> Option<String> {
    let finite = |at: &usize| {
        let before = at.checked_sub(1).map_or("", |before| text.lower(before));
        let lone = matches!(text.lower(at + 1), "," | "." | "!" | ";" | "");
        text.pos(*at) == Some(Pos::Aux) && FINITE.contains(&text.lower(*at)) && before != "to" && *at > 0 && !lone
    };
    let at = (0..text.words.len()).find(finite)?;
    let end = text.words.get(at)?.span.end;
    Some(spliced(text.text, end..end, " not"))
}

/// The text with `never` before the first verb that follows its subject.
fn before_verb(text: &English<'_>) -> Option<String> {
    let finite = |at: &usize| {
        let subject = at.checked_sub(1).and_then(|before| text.pos(before));
        let subject = matches!(subject, Some(Pos::Noun | Pos::Propn | Pos::Pron));
        // After a noun, a form in -ing is a participle, and one before `by` is most often passive.
        let participle = text.lower(*at).ends_with("ing") || text.lower(at + 1) == "by";
        text.pos(*at) == Some(Pos::Verb) && subject && !participle
    };
    let at = (0..text.words.len()).find(finite)?;
    let start = text.words.get(at)?.span.start;
    Some(spliced(text.text, start..start, "never "))
}

/// The text with `Do not` before a verb in its base form at the beginning.
fn order(text: &English<'_>) -> Option<String> {
    let first = text.words.first()?;
    let inflected = ["ing", "ed", "s"].iter().any(|end| first.lower.ends_with(end)) && !first.lower.ends_with("ss");
    if first.pos != Pos::Verb || inflected || first.span.start != 0 {
        return None;
    }
    let shown = &text.text[first.span.clone()];
    let lowered = if shown == capitalised(&first.lower) {
        first.lower.as_str()
    } else {
        shown
    };
    Some(spliced(text.text, first.span.clone(), &format!("Do not {lowered}")))
}
