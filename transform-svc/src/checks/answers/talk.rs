//! Refusals, questions and remarks: answers that address the user.

use super::{
    answer::{AnswerContext, DISTINCT, is_question},
    garbled::is_garbled,
    phrases::{Class, Concepts},
    several::offers_alternatives,
};

/// Minimum number of characters of an opening, which ends with a sentence.
const OPENING: usize = 60;
/// Concepts of the task that occur in refusals.
const OF_TASK: [&str; 15] = [
    "text",
    "sentence",
    "paraphrase",
    "rewrite",
    "summary",
    "translation",
    "style",
    "wording",
    "request",
    "content",
    "help",
    "advice",
    "topic",
    "answer",
    "grammar",
];

/// Whether an answer is a refusal or a question to the user.
pub(in crate::checks) fn is_refusal(answer: &AnswerContext<'_>) -> bool {
    let parts = &answer.parts;
    let declines = declines(answer.text);
    if !declines && offers_alternatives(answer) {
        return false;
    }
    // The text after an introduction is a rewrite, unless it is a refusal.
    if parts.is_announced {
        return talks(answer, parts.rewrite, false);
    }
    let questions = |text: &str| is_question(text) && !is_question(answer.original);
    // A real translation is not followed by a question: a question after text in another language
    // means that the answer contains no rewrite.
    let asks_for = answer.fresh(parts.rewrite).has(Class::Ask);
    let asks_back =
        parts.has_remark && (questions(parts.rewrite) || (answer.translated || asks_for) && questions(answer.text));
    let has_rewrite = answer.is_rewrite(parts.rewrite) && !declines;
    asks_back || parts.asks || talks(answer, parts.rewrite, true) || !has_rewrite && talks(answer, answer.text, true)
}

/// Whether an answer contains a remark before or after the rewrite.
pub(in crate::checks) fn has_remark(answer: &AnswerContext<'_>) -> bool {
    answer.parts.has_remark && !is_refusal(answer) && !is_garbled(answer)
}

/// Whether a part addresses the user instead of being a rewrite. If it `may_be_unrelated`, fewer
/// signs suffice when it has no word of the original.
fn talks(answer: &AnswerContext<'_>, part: &str, may_be_unrelated: bool) -> bool {
    let fresh = answer.fresh(part);
    if fresh.has(Class::Machine) && !answer.before.has(Class::Bot) {
        return true;
    }
    let about = OF_TASK.iter().filter(|name| fresh.has_any(&[name])).count();
    let asks = is_question(part) && !is_question(answer.original);
    if may_be_unrelated && answer.is_unrelated(part) {
        return asks || about > 0 || fresh.has_any(&["unable"]) || fresh.has(Class::Ask) || fresh.has(Class::Offer);
    }
    if declines(part) && about > usize::from(answer.before.has(Class::Unable)) {
        return true;
    }
    let names = fresh.has_any(&DISTINCT) || fresh.has_any(&["text"]);
    asks && fresh.has(Class::Task) || fresh.has(Class::Ask) && about > 0 && (names || !answer.translated)
}

/// Whether the first sentence refuses or apologises; if the sentence is short, more of the text is
/// read.
fn declines(text: &str) -> bool {
    let ends = text
        .char_indices()
        .enumerate()
        .find(|(count, (_, c))| *count >= OPENING && matches!(c, '.' | '!' | '?' | '。' | '！' | '？' | '؟' | '\n'));
    let opening = ends.map_or(text, |(_, (at, _))| &text[..at]);
    Concepts::of(opening).has(Class::Unable)
}
