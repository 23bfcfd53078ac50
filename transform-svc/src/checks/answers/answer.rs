//! An answer with its original, and the parts of the answer: an introduction, the rewrite, a
//! closing remark.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

use super::{
    brackets, lead, paragraphs,
    phrases::{Class, Concepts, begins_other, begins_with, plain},
    stems,
};
use crate::words;

/// Maximum number of characters of a lead-in.
const LEAD: usize = 160;
/// Maximum number of quoted words of a remark that are searched for in the rewrite.
const EXPLAINED: usize = 32;
/// Minimum number of words of an original for which every rewrite shares a word with it.
const TRACED: usize = 3;
/// Concepts of the task that are rare in other texts.
pub(super) const DISTINCT: [&str; 6] = ["paraphrase", "rewrite", "summary", "translation", "wording", "grammar"];

/// An answer with its original.
pub(in crate::checks) struct AnswerContext<'a> {
    pub(super) original: &'a str,
    pub(super) text: &'a str,
    /// Whether the answer is in a different language from the original.
    pub(super) translated: bool,
    /// Concepts of the original.
    pub(super) before: Concepts,
    /// Stems of the original.
    stems: HashSet<String>,
    pub(super) parts: Parts<'a>,
}

pub(super) struct Parts<'a> {
    /// The answer without an introduction and a closing remark.
    pub(super) rewrite: &'a str,
    pub(super) has_remark: bool,
    /// Whether the closing remark contains a question or a request.
    pub(super) asks: bool,
    /// Whether the introduction announces a rewrite.
    pub(super) is_announced: bool,
}

impl<'a> AnswerContext<'a> {
    pub(in crate::checks) fn new(original: &'a str, text: &'a str, translated: bool) -> Self {
        let mut answer = Self {
            original,
            text,
            translated,
            before: Concepts::of(original),
            stems: stems(&plain(original)),
            parts: Parts {
                rewrite: text,
                has_remark: false,
                asks: false,
                is_announced: false,
            },
        };
        answer.divide();
        answer
    }

    /// Concepts of a part of the answer that are absent from the original.
    pub(super) fn fresh(&self, part: &str) -> Concepts {
        Concepts::of(part).without(self.before)
    }

    /// Whether a part of the answer shares no word with an original that has enough words.
    pub(super) fn is_unrelated(&self, part: &str) -> bool {
        !self.translated && self.stems.len() >= TRACED && self.stems.is_disjoint(&stems(&plain(part)))
    }

    /// Whether a part can be a rewrite of the original.
    pub(super) fn is_rewrite(&self, part: &str) -> bool {
        let (before, after) = (words::count(self.original), words::count(part));
        after >= 3.min(before) && after * 5 >= before && !self.is_unrelated(part)
    }

    fn divide(&mut self) {
        if let Some(rest) = self.after_introduction() {
            let is_one = self.is_rewrite(rest) || self.translated;
            self.parts.rewrite = rest;
            self.parts.has_remark = true;
            self.parts.is_announced = !is_question(self.text) || is_question(self.original) || is_one;
        }
        if let Some(rest) = self.before_closing(self.parts.rewrite) {
            let fresh = self.fresh(&self.parts.rewrite[rest.len()..]);
            self.parts.asks = fresh.has_any(&["send"]) && !fresh.has(Class::Offer);
            self.parts.rewrite = rest;
            self.parts.has_remark = true;
        }
    }

    /// The paragraphs of a text of the answer, or its lines, if the original has fewer of them;
    /// else its sentences.
    fn blocks<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let divided = paragraphs(text);
        if divided.len() > paragraphs(self.original).len().max(1) {
            return divided;
        }
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.len() > self.original.lines().count().max(1) {
            return lines;
        }
        text.unicode_sentences().collect()
    }

    /// The rest of the answer after its beginning, if the beginning announces a rewrite.
    fn after_introduction(&self) -> Option<&'a str> {
        let announces = |head: &str| {
            let fresh = self.fresh(head);
            let asks = fresh.has_any(&["send", "choose"]);
            fresh.has(Class::Task) && !asks && !fresh.has(Class::Unable) && !head.trim_end().ends_with([',', '，'])
        };
        if labels(self.text) < 2
            && let Some((head, rest)) = lead(self.text, LEAD)
            && !head.contains(brackets::is_opening)
            && announces(head)
        {
            return Some(rest);
        }
        let [first, _, ..] = self.blocks(self.text)[..] else {
            return None;
        };
        if first.chars().count() > LEAD || lead(first, LEAD).is_some() || brackets::is_enclosed(first) {
            return None;
        }
        let rest = self.text.trim_start().strip_prefix(first.trim_start())?.trim_start();
        let (announced, unrelated) = (announces(first), self.is_unrelated(first));
        let ends = first.trim_end().ends_with([':', '：']);
        let stands_apart = ends || self.text.contains('\n') && (unrelated || self.translated);
        let opens = |text: &str| begins_with(Class::Opener, &plain(text));
        let opens = opens(first) && !opens(self.original);
        let talks = announced && (opens || self.fresh(first).has_any(&DISTINCT)) || opens && unrelated;
        (announced && stands_apart || talks && self.is_rewrite(rest)).then_some(rest)
    }

    /// The text without its end, if the end is a remark.
    fn before_closing(&self, text: &'a str) -> Option<&'a str> {
        let [_, .., last] = self.blocks(text)[..] else {
            return None;
        };
        let rest = text.trim_end().strip_suffix(last.trim_end())?.trim_end();
        if is_item(last) || labels(text) > 1 {
            return None;
        }
        if let Some((head, _)) = lead(last, LEAD)
            && (begins_other(head) || !self.fresh(head).has(Class::Task))
        {
            return None;
        }
        let explains = |word: &str| rest.contains(word) && !self.original.contains(word);
        (quoted(last).take(EXPLAINED).any(explains) || self.is_closing(last)).then_some(rest)
    }

    /// Whether the last part of an answer comments on the answer or addresses the user.
    fn is_closing(&self, last: &str) -> bool {
        let fresh = self.fresh(last);
        let (is_aside, names) = (self.is_unrelated(last), fresh.has_any(&DISTINCT));
        let asks = is_question(last) && !is_question(self.original);
        let offers = fresh.has(Class::Offer) || names || fresh.count(Class::Task) > usize::from(!is_aside);
        // Letters usually end with an offer.
        let is_letter = self.before.has(Class::Offer) && !names;
        offers && !is_letter || asks && (is_aside || fresh.has(Class::Ask))
    }
}

/// Lines that begin with a label.
fn labels(text: &str) -> usize {
    text.lines().filter(|line| lead(line, LEAD).is_some()).count()
}

/// Whether a part is a list item, a footnote or a note in brackets.
fn is_item(part: &str) -> bool {
    part.trim_end().ends_with(brackets::is_closing) || part.trim_start().starts_with(['*', '※', '-', '•'])
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    const QUOTES: [(char, char); 6] = [('"', '"'), ('“', '”'), ('„', '“'), ('«', '»'), ('「', '」'), ('‘', '’')];
    QUOTES.into_iter().flat_map(move |(open, close)| {
        let opened = text.split(open).skip(1);
        opened
            .filter_map(move |rest| rest.find(close).map(|end| rest[..end].trim()))
            .filter(|inside| !inside.is_empty())
    })
}

pub(super) fn is_question(text: &str) -> bool {
    text.contains(['?', '？', '؟'])
}
