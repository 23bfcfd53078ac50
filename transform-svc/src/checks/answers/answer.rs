//! An answer with its original, and its parts: an introduction, the rewrite, a closing remark.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

use super::{
    brackets, lead, paragraphs,
    phrases::{Class, Concepts, begins_other, begins_with, plain},
    stems,
};
use crate::words;

/// Characters of a lead-in, at most.
const LEAD: usize = 160;
/// Quoted words of a remark that are looked for in the rewrite, at most.
const EXPLAINED: usize = 32;
/// Words of an original that leave traces in any rewrite of it.
const TRACED: usize = 3;
/// Concepts of the task that seldom stand in other texts.
pub(super) const DISTINCT: [&str; 6] = ["paraphrase", "rewrite", "summary", "translation", "wording", "grammar"];

/// An answer with its original.
pub(in crate::checks) struct Answer<'a> {
    pub(super) original: &'a str,
    pub(super) text: &'a str,
    /// Whether it is in another language.
    pub(super) translated: bool,
    /// Concepts of the original.
    pub(super) before: Concepts,
    /// Stems of the original.
    stems: HashSet<String>,
    pub(super) parts: Parts<'a>,
}

/// An answer in parts.
pub(super) struct Parts<'a> {
    /// The answer without an introduction and a closing remark.
    pub(super) rewrite: &'a str,
    pub(super) has_remark: bool,
    /// Whether the remark at the end asks for something.
    pub(super) asks: bool,
    /// Whether the introduction names a rewrite.
    pub(super) is_announced: bool,
}

impl<'a> Answer<'a> {
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

    /// Concepts of a part of the answer that the original does not have.
    pub(super) fn fresh(&self, part: &str) -> Concepts {
        Concepts::of(part).without(self.before)
    }

    /// Whether a part of the answer shares no word with the original, which has enough of them.
    pub(super) fn is_unrelated(&self, part: &str) -> bool {
        !self.translated && self.stems.len() >= TRACED && self.stems.is_disjoint(&stems(&plain(part)))
    }

    /// Whether a part can stand for the original.
    pub(super) fn is_rewrite(&self, part: &str) -> bool {
        let (before, after) = (words::count(self.original), words::count(part));
        after >= 3.min(before) && after * 5 >= before && !self.is_unrelated(part)
    }

    /// Finds the parts of the answer.
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

    /// The paragraphs of a text of the answer, or its lines, if the original has fewer; else the
    /// sentences.
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

    /// The rest of the answer after its beginning, if that announces a rewrite.
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

    /// The text before its end, if that is a remark.
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

    /// Whether the last part of an answer talks about it, or to the user.
    fn is_closing(&self, last: &str) -> bool {
        let fresh = self.fresh(last);
        let (is_aside, names) = (self.is_unrelated(last), fresh.has_any(&DISTINCT));
        let asks = is_question(last) && !is_question(self.original);
        let offers = fresh.has(Class::Offer) || names || fresh.count(Class::Task) > usize::from(!is_aside);
        // Letters end with offers.
        let is_letter = self.before.has(Class::Offer) && !names;
        offers && !is_letter || asks && (is_aside || fresh.has(Class::Ask))
    }
}

/// Lines that begin with a label.
fn labels(text: &str) -> usize {
    text.lines().filter(|line| lead(line, LEAD).is_some()).count()
}

/// Whether a part is the item of a list, a footnote or a note in brackets.
fn is_item(part: &str) -> bool {
    part.trim_end().ends_with(brackets::is_closing) || part.trim_start().starts_with(['*', '※', '-', '•'])
}

/// The quoted parts of a text.
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
