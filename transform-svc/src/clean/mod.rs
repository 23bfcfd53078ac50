//! Cleaning of a generated text before the checks. It removes formatting around the text, never a
//! leak:
//!
//! 1. the blocks of reasoning and the marks that a model family is known to write (`reasoning.rs`);
//! 2. whitespace and a Markdown fence around the whole text;
//! 3. our own delimiters (`<text>` … `</text>`) around the whole text, which small models copy from
//!    the prompt;
//! 4. one pair of quotation marks and Markdown's emphasis, heading, block quote or bullet around
//!    the whole text, if the original has none;
//! 5. for keywords: punctuation and line breaks (GASE requires this).
//!
//! A lead-in such as "Here is the paraphrase:" is not removed; the leak check finds it.

mod reasoning;

use isomer_transformations::AnswerForm;

use crate::{list::without_mark, prompt::Purpose};

/// Opening and closing quotation marks.
const QUOTES: &[(char, char)] = &[
    ('"', '"'),
    ('\'', '\''),
    ('“', '”'),
    ('‘', '’'),
    ('„', '“'),
    ('„', '”'),
    ('«', '»'),
    ('»', '«'),
    ('`', '`'),
    ('「', '」'),
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanedAnswer {
    /// The text without the surrounding formatting.
    pub text: String,
    /// Whether the answer was cut off in the middle of its reasoning. The text is then empty.
    pub unfinished: bool,
}

/// The answer without the surrounding formatting. `delimiters` are the lines around `{text}` in the
/// prompt; empty if there are none.
pub fn clean(purpose: Purpose, original: &str, raw: &str, delimiters: (&str, &str)) -> CleanedAnswer {
    let (answer, unfinished) = reasoning::strip(original, raw);
    let mut text = answer.as_str();
    if !original.trim_start().starts_with(FENCE) {
        text = without_fence(text);
    }
    let (open, close) = delimiters;
    if !open.is_empty() && !close.is_empty() {
        text = text.strip_prefix(open).map_or(text, str::trim_start);
        text = text.strip_suffix(close).map_or(text, str::trim_end);
    }
    if purpose.answer() != AnswerForm::List {
        text = without_markdown(original, text);
        text = without_markdown(original, unquoted(original, text));
    }
    let text = if purpose.answer() == AnswerForm::Words {
        keywords(text)
    } else {
        text.to_owned()
    };
    CleanedAnswer { text, unfinished }
}

const FENCE: &str = "```";

/// The content of a Markdown fence that encloses the whole text, with or without a language name.
fn without_fence(text: &str) -> &str {
    let inside = text
        .strip_prefix(FENCE)
        .and_then(|rest| rest.strip_suffix(FENCE))
        .filter(|inside| !inside.contains(FENCE));
    let Some(inside) = inside else {
        return text;
    };
    let inside = match inside.split_once('\n') {
        // The rest of the opening line is a language name or empty.
        Some((name, rest)) if !name.trim().contains(char::is_whitespace) => rest,
        _ => inside,
    };
    inside.trim()
}

/// Markdown's emphasis marks, the longest first.
const EMPHASIS: [&str; 5] = ["***", "**", "__", "*", "_"];
/// Marks of a heading, a block quote or the only item of a list.
const OPENINGS: [&str; 11] = [
    "# ", "## ", "### ", "#### ", "##### ", "###### ", "> ", "- ", "* ", "• ", "・",
];

/// A text without Markdown around the whole of it, if the original has none.
fn without_markdown<'a>(original: &str, text: &'a str) -> &'a str {
    let original = original.trim();
    let mut text = text;
    if let Some(opening) = OPENINGS.iter().find(|opening| text.starts_with(**opening))
        && !original.starts_with(opening.trim_end())
        && !text.contains('\n')
        && !text.ends_with(opening.trim_end())
    {
        text = text[opening.len()..].trim();
    }
    match emphasised(original) {
        None => emphasised(text).unwrap_or(text),
        Some(_) => text,
    }
}

/// The content of a text that one pair of emphasis marks encloses: `*a* or *b*` is not enclosed.
fn emphasised(text: &str) -> Option<&str> {
    EMPHASIS.iter().find_map(|mark| {
        let inner = text.strip_prefix(mark)?.strip_suffix(mark)?;
        let is_whole = !inner.contains(&mark[..1]) && !inner.trim().is_empty() && inner.trim() == inner;
        is_whole.then_some(inner)
    })
}

/// A text without one pair of quotation marks around it, if the original has none.
pub(crate) fn unquoted<'a>(original: &str, text: &'a str) -> &'a str {
    match unquote(original.trim()) {
        None => unquote(text).unwrap_or(text),
        Some(_) => text,
    }
}

/// Keywords on one line: no commas, full stops, bullets, numbering or line breaks. Punctuation
/// inside a word (`3.5`, `rock-n-roll`, `U.S`) is kept. A colon is kept too, so that the leak check
/// finds "Keywords:".
fn keywords(text: &str) -> String {
    text.lines()
        .flat_map(|line| {
            without_mark(line).split(|c: char| {
                c.is_whitespace() || matches!(c, ',' | ';' | '、' | '，' | '；' | '،' | '؛' | '|' | '•' | '·')
            })
        })
        .map(|word| {
            word.trim_matches(|c: char| {
                matches!(
                    c,
                    '.' | '。' | '!' | '?' | '？' | '！' | '"' | '*' | '-' | '–' | '—' | '…'
                )
            })
        })
        .filter(|word| !word.is_empty() && !is_number_of_a_list(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Whether a word is the number of a list item, such as `1)`.
fn is_number_of_a_list(word: &str) -> bool {
    word.strip_suffix(')')
        .is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}

/// The content of a text that one pair of quotation marks encloses: `"a" or "b"` is not enclosed.
fn unquote(text: &str) -> Option<&str> {
    QUOTES.iter().find_map(|&(open, close)| {
        let inner = text.strip_prefix(open)?.strip_suffix(close)?;
        (!inner.contains([open, close]) && !inner.trim().is_empty()).then(|| inner.trim())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TAGS: (&str, &str) = ("<text>", "</text>");

    fn text(original: &str, raw: &str, delimiters: (&str, &str)) -> String {
        clean(Purpose::of_id("paraphrase").unwrap(), original, raw, delimiters).text
    }

    #[test]
    fn the_envelope_goes_and_the_text_stays() {
        assert_eq!(text("a", "  b \n", TAGS), "b");
        assert_eq!(text("a", "<text>\nb\n</text>", TAGS), "b");
        assert_eq!(text("a", "b\n</text>", TAGS), "b");
        assert_eq!(text("a", "\"b c.\"", TAGS), "b c.");
        assert_eq!(text("a", "„b c“", ("", "")), "b c");
        assert_eq!(text("a", "<think>x</think>\n<text>\n\"b c.\"\n</text>", TAGS), "b c.");
    }

    #[test]
    fn a_fence_around_the_whole_goes_and_one_inside_stays() {
        for raw in ["```\nb c\n```", "```text\nb c\n```", "```b c```", "```markdown\nb c```"] {
            assert_eq!(text("a", raw, TAGS), "b c", "{raw}");
        }
        assert_eq!(text("a", "use ```x``` here", TAGS), "use ```x``` here");
        assert_eq!(text("```a```", "```b c```", TAGS), "```b c```");
    }

    #[test]
    fn markdown_around_the_whole_goes_and_marks_of_parts_stay() {
        for raw in [
            "**b c.**",
            "*b c.*",
            "__b c.__",
            "_b c._",
            "***b c.***",
            "# b c.",
            "### **b c.**",
            "> b c.",
            "**\"b c.\"**",
            "\"**b c.**\"",
            "```\n**b c.**\n```",
        ] {
            assert_eq!(text("a", raw, TAGS), "b c.", "{raw}");
        }
        for raw in [
            "**b** or **c**",
            "b **c**.",
            "*b",
            "2 * 3 * 4",
            "* b *",
            "#b c",
            "__init__ and __new__",
            "**",
            "> b\n> c",
        ] {
            assert_eq!(text("a", raw, TAGS), raw);
        }
        assert_eq!(text("*a*", "*b*", TAGS), "*b*");
        assert_eq!(text("# a", "# b", TAGS), "# b");
        assert_eq!(text("> a", "> b", TAGS), "> b");
    }

    #[test]
    fn quotes_stay_where_the_original_has_them_or_where_they_enclose_only_parts() {
        assert_eq!(text("\"a\"", "\"b\"", TAGS), "\"b\"");
        assert_eq!(text("a", "\"b\" or \"c\"", TAGS), "\"b\" or \"c\"");
        assert_eq!(text("a", "'tis b", TAGS), "'tis b");
    }

    #[test]
    fn a_lead_in_is_left_for_the_checks() {
        assert_eq!(text("a", "Summary: b", TAGS), "Summary: b");
        assert_eq!(
            text("a", "Here is the paraphrase: b", TAGS),
            "Here is the paraphrase: b"
        );
        assert_eq!(text("a", "\"\"", TAGS), "\"\"");
    }

    #[test]
    fn an_answer_cut_off_in_its_reasoning_is_unfinished() {
        let cleaned = clean(Purpose::of_id("paraphrase").unwrap(), "a", "<think>The user", TAGS);
        assert_eq!((cleaned.text.as_str(), cleaned.unfinished), ("", true));
        assert!(!clean(Purpose::of_id("paraphrase").unwrap(), "a", "<think>x</think>b", TAGS).unfinished);
    }

    #[test]
    fn keywords_are_one_line_without_punctuation() {
        let keywords = |raw| clean(Purpose::of_id("keywords").unwrap(), "a", raw, TAGS).text;
        for raw in [
            "committee, decision, members, ill.",
            "- committee\n- decision\n- members\n- ill",
            "1) committee 2) decision 3) members 4) ill",
            "1. committee\n2. decision\n3. members\n4. ill",
            "* **committee**\n* decision; members; ill",
        ] {
            assert_eq!(keywords(raw), "committee decision members ill", "{raw}");
        }
        assert_eq!(keywords("3.5 rock-n-roll, U.S."), "3.5 rock-n-roll U.S");
        assert_eq!(keywords("委员会、决定，成员"), "委员会 决定 成员");
        assert_eq!(keywords("اللجنة، القرار"), "اللجنة القرار");
        assert_eq!(keywords("Keywords: a, b"), "Keywords: a b", "left for the leak check");
    }
}
