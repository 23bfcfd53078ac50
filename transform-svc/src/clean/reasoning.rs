//! Removes the reasoning that models write around their answer, with one rule per model family.
//!
//! A rule applies if its marks are in the answer but not in the original: a text about `<think>`
//! keeps it. Marks without a rule are left to the leak check.

/// A block that is not part of the answer, or a block that is the answer.
#[derive(Debug)]
struct Rule {
    /// The model family that writes the block; for readers and tests.
    family: &'static str,
    open: &'static str,
    close: &'static str,
    /// Whether the closing mark alone ends a block that started before the answer, because some
    /// templates open the block in the prompt.
    opened_by_template: bool,
}

const fn block(family: &'static str, open: &'static str, close: &'static str) -> Rule {
    Rule {
        family,
        open,
        close,
        opened_by_template: false,
    }
}

const fn templated(family: &'static str, open: &'static str, close: &'static str) -> Rule {
    Rule {
        family,
        open,
        close,
        opened_by_template: true,
    }
}

/// Blocks of reasoning, which are removed with their contents.
const REASONING: &[Rule] = &[
    templated(
        "DeepSeek-R1, Qwen3, QwQ, Olmo-3-Think, Phi-4-reasoning, SmolLM3, GLM, Nemotron",
        "<think>",
        "</think>",
    ),
    templated("Hermes, Reflection", "<thinking>", "</thinking>"),
    templated("EXAONE Deep", "<thought>", "</thought>"),
    templated("Seed-OSS", "<seed:think>", "</seed:think>"),
    templated("Magistral, Ministral-3-Reasoning", "[THINK]", "[/THINK]"),
    templated("Kimi", "◁think▷", "◁/think▷"),
    templated("Command A Reasoning", "<|START_THINKING|>", "<|END_THINKING|>"),
    templated("various", "<reasoning>", "</reasoning>"),
    // gpt-oss (harmony): analysis and commentary end at the start of the next message.
    block("gpt-oss", "<|channel|>analysis<|message|>", "<|end|>"),
    block("gpt-oss", "<|channel|>commentary<|message|>", "<|end|>"),
    block("Gemma 4", "<|channel>thought", "<channel|>"),
    // The block is recognised by its beginning and ends at the beginning of the answer.
    block(
        "Apriel-1.5, -1.6",
        "Here are my reasoning steps:",
        "[BEGIN FINAL RESPONSE]",
    ),
    block("Granite 3.2", "Here is my thought process:", "Here is my response:"),
];

/// Marks around an answer. The marks and everything outside them are removed; the text between them
/// is kept. If the closing mark is missing, the answer extends to the end of the text.
const ENVELOPES: &[Rule] = &[
    block("gpt-oss", "<|channel|>final<|message|>", "<|return|>"),
    block("Apriel-1.5, -1.6", "[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"),
    block("Command A Reasoning", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    block("Granite 3.3", "<response>", "</response>"),
    block("Hunyuan, GLM-4.1V", "<answer>", "</answer>"),
    block("Reflection", "<output>", "</output>"),
    block("GLM-4.1V", "<|begin_of_box|>", "<|end_of_box|>"),
];

/// End-of-turn marks that a server failed to remove.
const ENDS: &[&str] = &[
    "<|im_end|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|return|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
    "<eos>",
    "[/INST]",
];

/// The answer without its reasoning, and whether the reasoning is unterminated. An unterminated one
/// leaves no answer.
pub(super) fn strip(original: &str, answer: &str) -> (String, bool) {
    let mut text = answer.trim().to_owned();
    // A quick test first: few answers have a mark.
    let applies =
        |rule: &Rule, text: &str| (has(text, rule.open) || has(text, rule.close)) && !has(original, rule.open);
    for rule in REASONING {
        if !applies(rule, &text) {
            continue;
        }
        match without(rule, &text) {
            Some(ReasoningEnd::Ended(rest)) => text = rest,
            Some(ReasoningEnd::Unended) => {
                tracing::trace!(family = rule.family, "the reasoning never ended");
                return (String::new(), true);
            }
            None => {}
        }
    }
    // A server that drops special tokens leaves the words of harmony: "analysis… assistantfinal…".
    if let Some(rest) = text
        .strip_prefix("analysis")
        .filter(|_| !original.starts_with("analysis"))
        && let Some((_, last)) = rest.rsplit_once("assistantfinal")
    {
        text = last.to_owned();
    }
    for rule in ENVELOPES {
        if let Some((at, length)) = find(&text, rule.open).filter(|_| !has(original, rule.open)) {
            let inside = text[at + length..].to_owned();
            text = find(&inside, rule.close).map_or(inside.clone(), |(end, _)| inside[..end].to_owned());
        }
    }
    let mut rest = text.trim();
    while let Some(shorter) = ENDS
        .iter()
        .filter(|end| !original.contains(**end))
        .find_map(|end| rest.strip_suffix(end))
    {
        rest = shorter.trim_end();
    }
    (rest.to_owned(), false)
}

enum ReasoningEnd {
    Ended(String),
    Unended,
}

/// The text without any block of a rule; `None` if the text has no block.
fn without(rule: &Rule, text: &str) -> Option<ReasoningEnd> {
    let mut text = text.to_owned();
    let mut found = false;
    loop {
        let close = find(&text, rule.close);
        match (find(&text, rule.open), close) {
            (Some((open, opening)), _) => {
                let after = open + opening;
                let Some((close, closing)) = find(&text[after..], rule.close) else {
                    // The mark that ends the reasoning may also begin the answer. Without the mark
                    // the answer is missing.
                    return Some(ReasoningEnd::Unended);
                };
                // A closing mark that also opens an envelope is kept for that envelope.
                let end = after + close + if rule.close.starts_with("[BEGIN") { 0 } else { closing };
                text.replace_range(open..end, "");
                found = true;
            }
            (None, Some((close, closing))) if rule.opened_by_template => {
                text.replace_range(..close + closing, "");
                found = true;
            }
            _ => break,
        }
    }
    found.then_some(ReasoningEnd::Ended(text))
}

fn has(text: &str, mark: &str) -> bool {
    find(text, mark).is_some()
}

/// The position of a mark, ignoring ASCII case, and its length.
fn find(text: &str, mark: &str) -> Option<(usize, usize)> {
    // UTF-8 guarantees that a whole mark is found only at a character boundary.
    let (text, mark) = (text.as_bytes(), mark.as_bytes());
    let first = mark.first()?;
    text.windows(mark.len())
        .position(|here| here[0].eq_ignore_ascii_case(first) && here.eq_ignore_ascii_case(mark))
        .map(|at| (at, mark.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "Someone plays guitar.";

    #[test]
    fn each_family_gives_its_answer_alone() {
        for (family, raw) in [
            (
                "R1, Qwen3",
                "<think>\nThe user wants…\n</think>\n\nSomeone plays guitar.",
            ),
            ("Qwen3 without thinking", "<think>\n\n</think>\n\nSomeone plays guitar."),
            (
                "R1, opened by the template",
                "The user wants a paraphrase.\n</think>\nSomeone plays guitar.",
            ),
            ("two blocks", "<think>a</think><think>b</think>Someone plays guitar."),
            ("upper case", "<THINK>a</THINK>Someone plays guitar."),
            ("Hermes", "<thinking>a</thinking> Someone plays guitar."),
            (
                "Reflection",
                "<thinking>a</thinking>\n<output>Someone plays guitar.</output>",
            ),
            ("EXAONE Deep", "<thought>\na\n</thought>\nSomeone plays guitar."),
            ("Seed-OSS", "<seed:think>a</seed:think>Someone plays guitar."),
            ("Magistral", "[THINK]a[/THINK]Someone plays guitar."),
            ("Kimi", "◁think▷a◁/think▷Someone plays guitar."),
            (
                "Command A",
                "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>Someone plays guitar.<|END_RESPONSE|>",
            ),
            (
                "gpt-oss",
                "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Someone plays guitar.<|return|>",
            ),
            (
                "gpt-oss, answer only",
                "<|channel|>final<|message|>Someone plays guitar.",
            ),
            (
                "gpt-oss, marks dropped",
                "analysisThe user wants…assistantfinalSomeone plays guitar.",
            ),
            ("Gemma 4", "<|channel>thought\na<channel|>Someone plays guitar."),
            (
                "Apriel",
                "Here are my reasoning steps:\na\n[BEGIN FINAL RESPONSE]\nSomeone plays guitar.\n[END FINAL RESPONSE]",
            ),
            (
                "Apriel, end missing",
                "Here are my reasoning steps:\na\n[BEGIN FINAL RESPONSE]Someone plays guitar.",
            ),
            (
                "Granite 3.2",
                "Here is my thought process: a\nHere is my response: Someone plays guitar.",
            ),
            (
                "Granite 3.3",
                "<think>a</think><response>Someone plays guitar.</response>",
            ),
            (
                "Hunyuan",
                "<think>\na\n</think>\n<answer>\nSomeone plays guitar.\n</answer>",
            ),
            (
                "GLM-4.1V",
                "<think>a</think><|begin_of_box|>Someone plays guitar.<|end_of_box|>",
            ),
            ("an end of turn", "Someone plays guitar.<|im_end|>"),
            ("two ends of turn", "Someone plays guitar. <|eot_id|></s>"),
        ] {
            assert_eq!(strip("A man.", raw), (ANSWER.to_owned(), false), "{family}");
        }
    }

    #[test]
    fn reasoning_that_never_ends_leaves_no_answer() {
        for raw in [
            "<think>The user wants a paraphrase of",
            "<think>a</think><think>b",
            "[THINK]a",
            "◁think▷a",
            "<|channel|>analysis<|message|>We need to",
            "<|START_THINKING|>a",
            "Here are my reasoning steps:\nFirst I",
        ] {
            assert_eq!(strip("A man.", raw), (String::new(), true), "{raw}");
        }
    }

    #[test]
    fn marks_that_the_original_has_are_text() {
        let original = "The tag <think> opens a block.";
        let text = "A block is opened by the tag <think>.";
        assert_eq!(strip(original, text), (text.to_owned(), false));
        let original = "Write </s> at the end </s>";
        assert_eq!(
            strip(original, "Put this last: </s>"),
            ("Put this last: </s>".to_owned(), false)
        );
    }

    #[test]
    fn an_answer_without_marks_stays_as_it_is() {
        for text in [
            "Someone plays guitar.",
            "The analysis shows that it assists finally.",
            "Let me think about it.",
            "a < b and c > d",
            "Sure: here it is",
            "日本語の文です。",
            "",
        ] {
            assert_eq!(strip("x", text), (text.to_owned(), false));
        }
    }
}
