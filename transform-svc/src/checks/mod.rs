//! The error checks on a generated text: HTEB's ten error types (HTEB, appendix A.2), as pure
//! functions.
//!
//! Several may hold of one text. [`Check::GeneratorError`] is the eleventh; it is never found here
//! but set where a generator gave no text at all. [`Check::TooFew`] and [`Check::Duplicate`] are of
//! sets of texts ([`crate::distractors`]).
//!
//! The paper counts words without saying how; ours are those of [`crate::words`], so that Chinese
//! has more than one. Keywords (not of HTEB) are free to be under 20 % of the words, as a summary
//! is.

mod leaks;

use crate::{
    catalogue::Kind,
    language::{self, Language, LanguageCheck},
    words,
};

/// Words of output per word of input above which a text has run away.
const RUNAWAY_FACTOR: usize = 5;
/// An output under one word per this many words of input is truncated (20 %).
const TRUNCATED_DIVISOR: usize = 5;
/// Inputs of so many words or fewer are never "truncated".
const TRUNCATED_MIN_WORDS: usize = 3;

/// An error type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Check {
    /// Equal to the original, letter case and surrounding whitespace aside.
    Identical,
    /// Nothing, or whitespace.
    Empty,
    /// Nothing but dots or ellipsis characters.
    Ellipsis,
    /// Starts with `{` or `[`.
    Structured,
    /// Shows a model's reasoning, such as `<think>` or "Let me think", that the original does not.
    ReasoningLeak,
    /// Begins with a lead-in, such as "Paraphrased text:", that the original does not.
    InstructionPrefix,
    /// Told to be in another language than it should be (never when too short to tell).
    WrongLanguage,
    /// More than five times the words of its original; the two expansions are free to.
    Runaway,
    /// Under 20 % of the words of an original longer than 3 words, or cut off in the middle of its
    /// reasoning; a summary and keywords are free to be short.
    Truncated,
    /// A summary of more words than its original.
    SummaryLonger,
    /// The generator answered with an error, or not in time.
    GeneratorError,
    /// Fewer texts than asked for.
    TooFew,
    /// Two texts of a set are the same.
    Duplicate,
}

impl Check {
    /// Every check.
    pub const ALL: [Self; 13] = [
        Self::Identical,
        Self::Empty,
        Self::Ellipsis,
        Self::Structured,
        Self::ReasoningLeak,
        Self::InstructionPrefix,
        Self::WrongLanguage,
        Self::Runaway,
        Self::Truncated,
        Self::SummaryLonger,
        Self::GeneratorError,
        Self::TooFew,
        Self::Duplicate,
    ];

    /// The ten of HTEB, in the order of its table 5.
    pub const HTEB: [Self; 10] = [
        Self::Identical,
        Self::Empty,
        Self::Ellipsis,
        Self::Structured,
        Self::ReasoningLeak,
        Self::InstructionPrefix,
        Self::WrongLanguage,
        Self::Runaway,
        Self::Truncated,
        Self::SummaryLonger,
    ];

    /// Lower-case name, as counted in a summary: that of the protocol's enum without its prefix.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Empty => "empty",
            Self::Ellipsis => "ellipsis",
            Self::Structured => "structured",
            Self::ReasoningLeak => "reasoning_leak",
            Self::InstructionPrefix => "instruction_prefix",
            Self::WrongLanguage => "wrong_language",
            Self::Runaway => "runaway",
            Self::Truncated => "truncated",
            Self::SummaryLonger => "summary_longer",
            Self::GeneratorError => "generator_error",
            Self::TooFew => "too_few",
            Self::Duplicate => "duplicate",
        }
    }
}

/// The checks that fire on a text made from `original` by `kind`, in the order of [`Check::ALL`].
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
        Check::GeneratorError | Check::TooFew | Check::Duplicate => false,
    };
    Check::ALL.into_iter().filter(|check| holds(*check)).collect()
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
