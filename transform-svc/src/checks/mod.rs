//! The error checks on a generated text: HTEB's ten error types (HTEB, appendix A.2), as pure functions.
//!
//! Several may hold of one text. [`Check::GeneratorError`] is the eleventh; it is never found here but set where a
//! generator gave no text at all.

mod leaks;

use crate::{catalogue::Kind, language, language::Language, words};

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
    /// Under 20 % of the words of an original longer than 3 words; a summary is free to.
    Truncated,
    /// A summary of more words than its original.
    SummaryLonger,
    /// The generator answered with an error, or not in time.
    GeneratorError,
}

impl Check {
    /// Every check.
    pub const ALL: [Self; 11] = [
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
        }
    }
}

/// The checks that fire on a text made from `original` by `kind`, in the order of [`Check::ALL`].
///
/// `expected` is the language the text should be in: the target of a translation, else that of the original; `None`
/// (unknown) skips that check. Transformations without a generator are defined, not generated: a text may rightly lose
/// most of its words or keep them all, so that only "empty" is asked of them.
pub fn run(kind: Kind, original: &str, transformed: &str, expected: Option<Language>) -> Vec<Check> {
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
        Check::WrongLanguage => is_wrong_language(text, expected),
        Check::Runaway => !kind.expands() && after > RUNAWAY_FACTOR * before.max(1),
        Check::Truncated => {
            kind != Kind::Summarisation && before > TRUNCATED_MIN_WORDS && after * TRUNCATED_DIVISOR < before
        }
        Check::SummaryLonger => kind == Kind::Summarisation && after > before,
        Check::GeneratorError => false,
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

fn is_wrong_language(text: &str, expected: Option<Language>) -> bool {
    match (expected, language::detect(text)) {
        (Some(expected), Some(found)) => !found.matches(expected),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const ORIGINAL: &str = "A man is playing the guitar on a busy street in town.";

    fn lang(code: &str) -> Option<Language> {
        Some(Language::parse(code).unwrap())
    }

    fn paraphrase(text: &str) -> Vec<Check> {
        run(Kind::Paraphrase, ORIGINAL, text, lang("en"))
    }

    #[test]
    fn a_good_paraphrase_passes() {
        assert_eq!(paraphrase("Someone plays guitar along a crowded road in the city."), []);
    }

    #[test]
    fn a_copy_is_identical_whatever_its_case() {
        assert_eq!(
            paraphrase(" a MAN is playing the guitar on a busy street in town. "),
            [Check::Identical]
        );
    }

    #[test]
    fn no_text_is_empty_and_truncated() {
        assert_eq!(paraphrase("  \n"), [Check::Empty, Check::Truncated]);
        assert_eq!(run(Kind::Paraphrase, "Hello there", "", None), [Check::Empty]);
    }

    #[test]
    fn an_empty_original_and_an_empty_text_are_identical_and_empty() {
        assert_eq!(run(Kind::Paraphrase, "", "", None), [Check::Identical, Check::Empty]);
    }

    #[test]
    fn dots_alone_are_an_ellipsis_and_one_full_stop_is_not() {
        for dots in ["...", "…", "..", ". . .", "……"] {
            assert!(paraphrase(dots).contains(&Check::Ellipsis), "{dots}");
        }
        assert!(!paraphrase(".").contains(&Check::Ellipsis));
        assert!(!paraphrase("Well... someone plays guitar in a street.").contains(&Check::Ellipsis));
    }

    #[test]
    fn structured_output_starts_with_a_brace_or_bracket() {
        assert_eq!(
            paraphrase("{\"text\": \"Someone plays guitar in a street.\"}"),
            [Check::Structured]
        );
        assert!(paraphrase("[Someone plays guitar in a street]").contains(&Check::Structured));
        assert_eq!(paraphrase("Someone {a man} plays guitar in a street."), []);
    }

    #[test]
    fn reasoning_is_a_leak() {
        for text in [
            "<think>The user wants a paraphrase.</think> Someone plays guitar.",
            "Let me think about how to say this. Someone plays guitar.",
            "Step 1: replace the subject. Someone plays guitar in a street.",
            "I'll rephrase the text: someone plays guitar in a street.",
        ] {
            assert!(paraphrase(text).contains(&Check::ReasoningLeak), "{text}");
        }
    }

    #[test]
    fn reasoning_words_of_the_original_are_no_leak() {
        let original = "Let me think about it, she said to the manager.";
        assert_eq!(
            run(
                Kind::Paraphrase,
                original,
                "Let me think it over, she told the boss.",
                lang("en")
            ),
            []
        );
        let original = "I will go to the market with her tomorrow.";
        assert_eq!(
            run(
                Kind::Paraphrase,
                original,
                "I'll head to the market with her tomorrow.",
                lang("en")
            ),
            []
        );
    }

    #[test]
    fn a_lead_in_is_a_leak_unless_the_original_has_it() {
        for text in [
            "Paraphrased text: Someone plays guitar in a crowded street.",
            "Here is the paraphrase: Someone plays guitar in a street.",
            "Sure, here's a rephrased version:\nSomeone plays guitar in a street.",
            "**Paraphrase:** Someone plays guitar in a crowded street.",
        ] {
            assert!(paraphrase(text).contains(&Check::InstructionPrefix), "{text}");
        }
        let original = "Summary: the profits of the company rose last year.";
        assert_eq!(
            run(
                Kind::Paraphrase,
                original,
                "Summary: last year the company earned more money.",
                lang("en")
            ),
            []
        );
    }

    #[test]
    fn the_wrong_language_is_told_and_a_short_text_is_not_judged() {
        let german = "Ein Mann spielt auf einer belebten Straße in der Stadt Gitarre.";
        assert_eq!(paraphrase(german), [Check::WrongLanguage]);
        assert_eq!(run(Kind::Translation, ORIGINAL, german, lang("de")), []);
        assert_eq!(
            run(
                Kind::Translation,
                ORIGINAL,
                "Someone plays guitar on the street in town.",
                lang("de")
            ),
            [Check::WrongLanguage]
        );
        assert_eq!(run(Kind::Paraphrase, "Guten Tag", "Hello you", lang("de")), []);
        assert_eq!(run(Kind::Paraphrase, ORIGINAL, german, None), []);
    }

    #[test]
    fn more_than_five_times_the_words_is_runaway_but_not_for_expansions() {
        let (five, six) = ("word ".repeat(10), "word ".repeat(11));
        assert!(!run(Kind::Paraphrase, "two words", &five, None).contains(&Check::Runaway));
        assert!(run(Kind::Paraphrase, "two words", &six, None).contains(&Check::Runaway));
        assert!(run(Kind::Translation, "🎉", "one two three four five six", None).contains(&Check::Runaway));
        for kind in [Kind::Expansion, Kind::SummarisedExpansion] {
            assert!(!run(kind, "two words", &six, None).contains(&Check::Runaway));
        }
    }

    #[test]
    fn under_a_fifth_of_the_words_is_truncated_but_not_for_summaries_or_short_inputs() {
        let ten = "one two three four five six seven eight nine ten";
        assert_eq!(run(Kind::Paraphrase, ten, "digit", None), [Check::Truncated]);
        assert_eq!(run(Kind::Paraphrase, ten, "digit row", None), []);
        assert_eq!(run(Kind::Summarisation, ten, "digit", None), []);
        assert_eq!(run(Kind::Paraphrase, "one two three", "1", None), []);
        assert_eq!(run(Kind::Paraphrase, "one two three four", "1", None), []);
    }

    #[test]
    fn lengths_count_characters_where_chinese_has_no_spaces() {
        let original = "今天天气很好我们一起去公园散步吧";
        assert_eq!(run(Kind::Paraphrase, original, "公园", None), [Check::Truncated]);
        assert_eq!(
            run(Kind::Paraphrase, original, "天气不错，去公园走走吧", lang("zh")),
            []
        );
        assert!(run(Kind::Paraphrase, "天气", &"好".repeat(11), None).contains(&Check::Runaway));
    }

    #[test]
    fn a_summary_longer_than_its_input_is_one_but_a_paraphrase_may_grow() {
        let longer = format!("{ORIGINAL} Really.");
        assert_eq!(
            run(Kind::Summarisation, ORIGINAL, &longer, lang("en")),
            [Check::SummaryLonger]
        );
        assert_eq!(paraphrase(&longer), []);
        assert_eq!(run(Kind::Summarisation, "a b c d", "e f g h", None), []);
    }

    #[test]
    fn several_checks_may_hold_of_one_text() {
        let fired = run(
            Kind::Summarisation,
            "ok go",
            "[Let me think] one two three four five six seven eight nine ten",
            None,
        );
        assert_eq!(
            fired,
            [
                Check::Structured,
                Check::ReasoningLeak,
                Check::Runaway,
                Check::SummaryLonger
            ]
        );
    }

    #[test]
    fn a_control_may_keep_or_lose_words_but_not_all() {
        assert_eq!(
            run(Kind::StopwordRemoval, "one two three four five six", "one", None),
            []
        );
        assert_eq!(
            run(Kind::RandomKeywords, "three short words", "three short words", None),
            []
        );
        assert_eq!(
            run(Kind::StopwordRemoval, "to be or not to be", "", None),
            [Check::Empty]
        );
    }
}
