//! Answers that are not a single rewrite: refusals and questions, remarks, several rewrites, notes,
//! garbled text and unfilled slots.
//!
//! Each check compares the answer with its original. Words, brackets and marks that the original
//! also has do not count, so a text that looks like a refusal may be rewritten. The checks are
//! measured on labelled answers (`tests/it/answers.rs`).

mod answer;
mod brackets;
mod garbled;
mod phrases;
mod several;
mod slots;
mod talk;

use std::collections::HashSet;

use crate::words;

pub(super) use answer::AnswerContext;
pub(super) use garbled::is_garbled;
pub(super) use several::offers_alternatives;
pub(super) use slots::{has_note, has_placeholder};
pub(super) use talk::{has_remark, is_refusal};

/// Number of initial letters by which words are compared, so that endings do not count.
const STEM: usize = 4;

/// Chinese characters that occur in most texts.
const COMMON: &str = "的了是我你您他她不在有这那个和请会就也都要可以能为与或及将被把对从到上下中大小多一二三人们很更最太没其之所于而但如";

/// Stems of the words of a text, and its numbers; single Chinese characters, because Chinese words
/// are not separated.
fn stems(text: &str) -> HashSet<String> {
    let is_han = |c: &char| matches!(*c as u32, 0x3400..=0x4DBF | 0x4E00..=0x9FFF);
    if text.chars().filter(|c| is_unspaced(*c)).count() > 3 {
        let telling = text.chars().filter(is_han).filter(|c| !COMMON.contains(*c));
        return telling.map(String::from).collect();
    }
    let counts = |word: &&str| word.chars().count() >= STEM || word.chars().all(char::is_numeric);
    let words = words::words(text)
        .into_iter()
        .map(|word| word.strip_prefix("ال").unwrap_or(word));
    words
        .filter(counts)
        .map(|word| word.chars().take(STEM).collect())
        .collect()
}

/// Whether a character may belong to words that are not separated: by script, or, in Korean,
/// because of word endings.
fn is_unspaced(c: char) -> bool {
    words::is_unspaced(c) || ('\u{AC00}'..='\u{D7AF}').contains(&c)
}

/// The paragraphs of a text, which are separated by blank lines.
fn paragraphs(text: &str) -> Vec<&str> {
    let split = text.split("\n\n").map(str::trim);
    split.filter(|paragraph| !paragraph.is_empty()).collect()
}

/// The beginning of a text up to its first colon, if it is short, and the rest.
fn lead(text: &str, most_chars: usize) -> Option<(&str, &str)> {
    let (at, colon) = text
        .char_indices()
        .take(most_chars)
        .take_while(|(_, c)| *c != '\n')
        .find(|(_, c)| matches!(c, ':' | '：'))?;
    let rest = &text[at + colon.len_utf8()..];
    // 10:30 and https:// also contain a colon.
    let is_mark = rest.starts_with(char::is_whitespace) || colon == '：' || text[..at].chars().any(is_unspaced);
    (is_mark && !rest.trim().is_empty()).then(|| (text[..at].trim(), rest.trim()))
}
