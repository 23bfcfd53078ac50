//! The error checks on a generated text, as pure functions: HTEB's ten error types (HTEB, appendix
//! A.2), and answers that are not a rewrite (`answers`).
//!
//! Several checks may fire on one text. [`Check::GeneratorError`], [`Check::Filtered`],
//! [`Check::ToolCall`] and [`Check::PromptCut`] are never found here; they are set when a generator
//! returned no usable text. [`Check::TooFew`] and [`Check::Duplicate`] apply to sets of texts
//! ([`crate::distractors`]).
//!
//! The paper does not define how words are counted; ours are those of [`crate::words`], so that
//! Chinese texts have more than one. Keywords (not part of HTEB) may have less than 20 % of the
//! words, as may summaries.

mod answers;
mod leaks;

use isomer_transformations::{Declaration, Length};

use crate::{
    language::{self, Language, LanguageCheck},
    words,
};
use isomer_proto::ProtoEnum;

/// A text with more than this many words of output per word of input is a runaway.
const RUNAWAY_FACTOR: usize = 5;
/// An output with fewer than one word per this many words of input is truncated (20 %).
const TRUNCATED_DIVISOR: usize = 5;
/// Inputs of at most this many words never count as truncated.
const TRUNCATED_MIN_WORDS: usize = 3;

pub use isomer_proto::transform::v1::Check;

/// The checks that fire on a text made from `original` by `kind`, in the order of [`Check::all`].
///
/// `expected` is the language that the text should be in: the target of a translation, else the
/// language of the original; `None` (unknown) skips that check. Transformations without a generator
/// are deterministic. Their text may validly lose most of its words or keep them all, so only
/// "empty" is checked.
pub fn run(kind: &Declaration, original: &str, transformed: &str, expected: Option<Language>) -> Vec<Check> {
    let language = expected
        .filter(|_| kind.needs_generator())
        .map(|expected| language::check(transformed, expected));
    run_with_language(kind, original, transformed, language)
}

/// Like [`run`], with the detector's verdict on the text; `None` skips that check.
pub fn run_with_language(
    kind: &Declaration,
    original: &str,
    transformed: &str,
    language: Option<LanguageCheck>,
) -> Vec<Check> {
    let text = transformed.trim();
    if !kind.needs_generator() {
        return if text.is_empty() {
            vec![Check::Empty]
        } else {
            Vec::new()
        };
    }
    let (before, after) = (words::count(original), words::count(text));
    // Texts with a different meaning are not rewrites.
    let answer = (!kind.gives_several).then(|| answers::AnswerContext::new(original, text, kind.changes_language()));
    let of_answer = |check: fn(&answers::AnswerContext<'_>) -> bool| answer.as_ref().is_some_and(check);
    let holds = |check: Check| match check {
        Check::Identical => text.to_lowercase() == original.trim().to_lowercase(),
        Check::Empty => text.is_empty(),
        Check::Ellipsis => is_ellipsis(text),
        Check::Structured => text.starts_with(['{', '[']),
        Check::ReasoningLeak => leaks::shows_reasoning(original, text),
        Check::InstructionPrefix => leaks::has_lead_in(original, text),
        Check::WrongLanguage => language == Some(LanguageCheck::Wrong),
        Check::Runaway => kind.length != Length::Longer && after > RUNAWAY_FACTOR * before.max(1),
        Check::Truncated => !kind.shortens() && before > TRUNCATED_MIN_WORDS && after * TRUNCATED_DIVISOR < before,
        Check::SummaryLonger => kind.length == Length::Shorter && after > before,
        Check::Refusal => of_answer(answers::is_refusal),
        Check::Remark => !leaks::has_lead_in(original, text) && of_answer(answers::has_remark),
        Check::Alternatives => of_answer(answers::offers_alternatives),
        Check::Note => of_answer(answers::has_note),
        Check::Garbled => of_answer(answers::is_garbled),
        Check::Placeholder => of_answer(answers::has_placeholder),
        Check::Unspecified | Check::GeneratorError | Check::TooFew | Check::Duplicate => false,
        Check::Filtered | Check::ToolCall | Check::PromptCut => false,
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
