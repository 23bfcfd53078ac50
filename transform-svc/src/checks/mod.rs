//! The error checks on a generated text, as pure functions: HTEB's ten error types (HTEB, appendix
//! A.2), and answers that are not a rewrite (`answers`).
//!
//! Several may hold of one text. [`Check::GeneratorError`] and [`Check::Filtered`] are never found
//! here but set where a generator gave no text at all. [`Check::TooFew`] and [`Check::Duplicate`]
//! are of sets of texts ([`crate::distractors`]).
//!
//! The paper counts words without saying how; ours are those of [`crate::words`], so that Chinese
//! has more than one. Keywords (not of HTEB) are free to be under 20 % of the words, as a summary
//! is.

mod answers;
mod leaks;

use crate::{
    catalogue::Kind,
    language::{self, Language, LanguageCheck},
    words,
};
use isomer_proto::ProtoEnum;

/// Words of output per word of input above which a text has run away.
const RUNAWAY_FACTOR: usize = 5;
/// An output under one word per this many words of input is truncated (20 %).
const TRUNCATED_DIVISOR: usize = 5;
/// Inputs of so many words or fewer are never "truncated".
const TRUNCATED_MIN_WORDS: usize = 3;

pub use isomer_proto::transform::v1::Check;

/// The checks that fire on a text made from `original` by `kind`, in the order of [`Check::all`].
///
/// `expected` is the language the text should be in: the target of a translation, else that of the
/// original; `None` (unknown) skips that check. Transformations without a generator are defined,
/// not generated: a text may rightly lose most of its words or keep them all, so that only "empty"
/// is asked of them.
pub fn run(kind: Kind, original: &str, transformed: &str, expected: Option<Language>) -> Vec<Check> {
    let language = expected
        .filter(|_| kind.needs_generator())
        .map(|expected| language::check(transformed, expected));
    run_told(kind, original, transformed, language)
}

/// The same, told what the detector says of the text; `None` skips that check.
pub fn run_told(kind: Kind, original: &str, transformed: &str, language: Option<LanguageCheck>) -> Vec<Check> {
    let text = transformed.trim();
    if !kind.needs_generator() {
        return if text.is_empty() {
            vec![Check::Empty]
        } else {
            Vec::new()
        };
    }
    let (before, after) = (words::count(original), words::count(text));
    // Texts of these kinds mean something else than their original.
    let rewrites = !matches!(kind, Kind::Distractors | Kind::Continuation);
    let answer = rewrites.then(|| answers::Answer::new(original, text, kind.changes_language()));
    let of_answer = |check: fn(&answers::Answer<'_>) -> bool| answer.as_ref().is_some_and(check);
    let holds = |check: Check| match check {
        Check::Identical => text.to_lowercase() == original.trim().to_lowercase(),
        Check::Empty => text.is_empty(),
        Check::Ellipsis => is_ellipsis(text),
        Check::Structured => text.starts_with(['{', '[']),
        Check::ReasoningLeak => leaks::shows_reasoning(original, text),
        Check::InstructionPrefix => leaks::has_lead_in(original, text),
        Check::WrongLanguage => language == Some(LanguageCheck::Wrong),
        Check::Runaway => !kind.expands() && after > RUNAWAY_FACTOR * before.max(1),
        Check::Truncated => !kind.shortens() && before > TRUNCATED_MIN_WORDS && after * TRUNCATED_DIVISOR < before,
        Check::SummaryLonger => kind == Kind::Summarisation && after > before,
        Check::Refusal => of_answer(answers::is_refusal),
        Check::Remark => !leaks::has_lead_in(original, text) && of_answer(answers::has_remark),
        Check::Alternatives => of_answer(answers::offers_alternatives),
        Check::Note => of_answer(answers::has_note),
        Check::Garbled => of_answer(answers::is_garbled),
        Check::Placeholder => of_answer(answers::has_placeholder),
        Check::Unspecified | Check::GeneratorError | Check::TooFew | Check::Duplicate | Check::Filtered => false,
    };
    Check::all().filter(|check| holds(*check)).collect()
}

fn is_ellipsis(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| matches!(c, '.' | '…' | '。' | '⋯') || c.is_whitespace())
        && text != "."
        && text != "。"
}

#[cfg(test)]
mod tests;
