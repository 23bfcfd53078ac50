//! Answers that contain several rewrites.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

use super::{
    answer::AnswerContext,
    brackets, is_unspaced, lead, paragraphs,
    phrases::{Class, OR, begins_other, begins_with, plain},
    stems,
};
use crate::{list, words};

/// Maximum number of characters of a label before a rewrite.
const LABEL: usize = 45;
/// A text that contains at least one in `SHARE` words of the original may be a rewrite of it.
const SHARE: usize = 3;
/// Maximum number of rewrites that are compared with each other.
const COMPARED: usize = 32;
/// Marks between two rewrites.
const BETWEEN: [&str; 8] = [" / ", "。/ ", " | ", "／", "\n---", "\n***", " // ", "\n/"];
/// Marks between the parts of a sentence.
const MARKS: [char; 14] = [
    '.', '!', '?', '。', '！', '？', ',', '，', '、', ';', '(', '（', '/', '\n',
];
/// Maximum number of characters of a line that contains only such words.
const ALONE: usize = 25;

/// Whether an answer offers several rewrites of a single text.
pub(in crate::checks) fn offers_alternatives(answer: &AnswerContext<'_>) -> bool {
    let AnswerContext {
        original,
        text,
        translated,
        ..
    } = *answer;
    let [before, after] = [original, text].map(introductions);
    let length = words::count(original);
    let whole = |part: &&str| {
        let words = words::count(part);
        words * SHARE >= length && words > 1
    };
    let rewrites = items(text).into_iter().filter(whole).count();
    let first = text.lines().next().unwrap_or_default();
    let declines = answer.fresh(first).has_any(&["unable"]);
    let listed = items(original).len() < 2 && rewrites > 1 && (!declines || items(first).len() == 1);
    let divided = BETWEEN.iter().any(|mark| {
        let parts: Vec<&str> = text.split(mark).collect();
        parts.len() > 1 && !original.contains(mark) && parts.iter().all(whole)
    });
    let one = paragraphs(original).len() < 2;
    let mut several = paragraphs(answer.parts.rewrite);
    several.retain(|part| !part.starts_with(['*', '※']) && !brackets::is_enclosed(part));
    listed
        || divided
        || before.named == 0 && after.named > 0
        || before.labelled < 2 && after.labelled > 1
        || one && repeats_itself(&several, whole)
        || one && !original.contains('\n') && translated && several.iter().filter(|part| whole(part)).count() > 1
        || begins_again(text, whole)
}

/// Counts of lines and phrases that introduce a text.
struct Introductions {
    /// Introductions that announce another rewrite.
    named: usize,
    /// Introductions that are a short label.
    labelled: usize,
}

fn introductions(text: &str) -> Introductions {
    let text = text.replace("**", "");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let stands_alone = |line: &&&str| line.chars().count() <= ALONE && begins_other(line);
    // The words between a mark and a colon, after a first rewrite.
    let rewrite = words::end_of(&text, 3).unwrap_or(text.len());
    let named = text.match_indices([':', '：']).filter(|(colon, _)| {
        let before = text[..*colon].char_indices().rev().take(LABEL + 1);
        let mark = before.into_iter().find(|(_, c)| MARKS.contains(c));
        mark.is_some_and(|(at, mark)| {
            let head = &text[at + mark.len_utf8()..*colon];
            at + mark.len_utf8() >= rewrite && begins_other(head)
        })
    });
    let is_labelled = |line: &&&str| {
        let rest = lead(line, LABEL).map_or(**line, |(_, rest)| rest);
        (rest.len() < line.len() || line.starts_with(brackets::is_opening) && !brackets::is_enclosed(line))
            && words::count(rest) > 3
    };
    Introductions {
        named: lines.iter().skip(1).filter(stands_alone).count() + named.count(),
        labelled: lines.iter().filter(is_labelled).count(),
    }
}

/// Whether a sentence begins with "or" and is similar to the one before.
fn begins_again(text: &str, whole: impl Fn(&&str) -> bool) -> bool {
    let sentences: Vec<&str> = text.unicode_sentences().collect();
    let mut pairs = sentences.windows(2);
    pairs.any(|pair| {
        let next = plain(pair[1]);
        let is_other = begins_with(Class::Alternative, &next)
            || OR.iter().any(|word| {
                next.starts_with(&format!("{word} ")) || word.chars().any(is_unspaced) && next.starts_with(word)
            });
        is_other && repeats_itself(pair, &whole)
    })
}

/// Whether two of the first texts that could each be a rewrite have half of their words in common.
fn repeats_itself(texts: &[&str], whole: impl Fn(&&str) -> bool) -> bool {
    let stems: Vec<HashSet<String>> = texts
        .iter()
        .filter(|part| whole(part))
        .take(COMPARED)
        .map(|part| stems(&plain(part)))
        .collect();
    let alike = |a: &HashSet<String>, b: &HashSet<String>| {
        let fewer = a.len().min(b.len());
        fewer > 2 && a.intersection(b).count() * 2 >= fewer
    };
    (1..stems.len()).any(|later| stems[..later].iter().any(|earlier| alike(earlier, &stems[later])))
}

/// The items of a list, one per line.
fn items(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| {
            let rest = list::without_mark(line.trim());
            (rest.len() < line.trim().len()).then_some(rest)
        })
        .collect()
}
