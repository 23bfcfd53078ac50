//! Brackets that the original lacks: notes about the rewrite, and unfilled slots.

use super::{
    answer::AnswerContext,
    brackets::{enclosed, enclosed_first, is_opening},
    is_unspaced, lead, paragraphs,
    phrases::{Class, Concepts, begins_with, plain},
};
use crate::words;

/// Names in brackets that are tokens of chat templates.
const CODE: [&str; 9] = [
    "s",
    "inst",
    "unk",
    "pad",
    "eos",
    "bos",
    "end_of_turn",
    "start_of_turn",
    "<sys",
];
/// Words that precede or follow a Roman number.
const CENTURIES: [&str; 12] = [
    "siglo",
    "século",
    "secolo",
    "siècle",
    "век",
    "столети",
    "century",
    "jahrhundert",
    "yüzyıl",
    "wiek",
    "القرن",
    "eeuw",
];
/// Marks of a missing text.
const OPEN: [&str; 12] = [
    "lorem ipsum",
    "___",
    "＿＿",
    "......",
    "..../",
    "[...]",
    "[…]",
    "[ ]",
    "○○",
    "〇〇",
    "××",
    "某某",
];
/// Maximum number of characters of a slot's name.
const SLOT: usize = 40;

/// Whether an answer begins or ends with a note about itself.
pub(in crate::checks) fn has_note(answer: &AnswerContext<'_>) -> bool {
    let (original, text) = (plain(answer.original), plain(answer.text));
    let about_itself = |inside: &str| {
        begins_with(Class::Label, inside) && lead(inside, SLOT).is_some()
            || [Class::Label, Class::Manner, Class::Task]
                .into_iter()
                .any(|class| answer.fresh(inside).has(class))
    };
    let is_new = |inside: &str| !original.contains(inside);
    let last = text.trim_end_matches(['.', '。', '!', '*']);
    enclosed(last).is_some_and(|inside| is_new(inside) && (about_itself(inside) || stands_apart(last, inside)))
        || text.lines().filter(|line| line.starts_with(is_opening)).count() == 1
            && enclosed_first(&text).is_some_and(|inside| is_new(inside) && about_itself(inside))
        || has_footnote(&original, &text)
}

/// Whether the brackets at the end of a text follow a complete sentence and do not contain a slot.
fn stands_apart(text: &str, inside: &str) -> bool {
    let before = text.rfind(inside).map_or("", |at| &text[..at]);
    let before = before.trim_end().trim_end_matches(is_opening);
    let ends = before
        .trim_end()
        .ends_with(['.', '!', '?', '。', '！', '？', '؟', '…', '»', '”', '"']);
    ends && words::count(inside) > 1 && !Concepts::of(inside).has(Class::Slot)
}

/// Whether the last paragraph is a footnote although the original has none.
fn has_footnote(original: &str, text: &str) -> bool {
    let is_footnote = |line: &&str| {
        let marked = line.strip_prefix(['*', '※']).map(str::trim_start);
        let begins = marked.is_some_and(|rest| !rest.starts_with('*'));
        begins || begins_with(Class::Label, line) && lead(line, SLOT).is_some()
    };
    let of = |text: &str| {
        let all = paragraphs(text);
        let last = all.iter().skip(1).next_back().copied();
        last.filter(|last| is_footnote(last) && last.lines().count() == 1)
            .is_some()
    };
    of(text) && !of(original)
}

/// Whether an answer has more unfilled slots than its original.
pub(in crate::checks) fn has_placeholder(answer: &AnswerContext<'_>) -> bool {
    let AnswerContext { original, text, .. } = *answer;
    let [before, after] = [original, text].map(str::to_lowercase);
    let is_name = |(open, slot): &(char, String)| {
        let own = Concepts::of(slot);
        let is_note = own.has(Class::Label) || own.has(Class::Manner);
        // Headings also occur in square brackets.
        let is_heading = matches!(open, '[' | '【') && slot.contains(is_unspaced);
        words::count(slot) < 4 && !is_note && !is_heading || own.has(Class::Slot)
    };
    let named = |text: &str| slots(text).filter(is_name).count() + named_in_round(text);
    named(text) > named(original)
        || masks(text) > masks(original)
        || OPEN.iter().any(|mark| after.contains(mark) && !before.contains(mark))
}

/// Names in square, curly and angle brackets.
fn slots(text: &str) -> impl Iterator<Item = (char, String)> {
    const SLOTS: [(char, char); 4] = [('[', ']'), ('{', '}'), ('<', '>'), ('【', '】')];
    SLOTS.into_iter().flat_map(move |(open, close)| {
        let opened = text.split(open).skip(1);
        opened.filter_map(move |rest| {
            let inside = plain(&rest[..rest.find(close)?]);
            let is_name = inside.chars().any(char::is_alphabetic) && inside.chars().count() <= SLOT;
            // Citations, tags and code are not slots.
            let is_code = inside.starts_with(['/', '|', '!'])
                || CODE.contains(&inside.as_str())
                || inside.contains(['=', '(', '"', ';', '\n'])
                || lead(&inside, SLOT).is_some();
            (is_name && !is_code).then_some((open, inside))
        })
    })
}

/// Slots in round brackets, which also enclose ordinary text.
fn named_in_round(text: &str) -> usize {
    let opened = text.split(['(', '（']).skip(1);
    let inside = opened.filter_map(|rest| Some(plain(&rest[..rest.find([')', '）'])?])));
    let is_slot =
        |inside: &String| words::count(inside) < 5 && begins_with(Class::Slot, inside) && !inside.contains(is_opening);
    inside.filter(is_slot).count()
}

/// Dates and numbers that are masked with letters: `DD/MM/YYYY`, `20XX`, `XXXX年`.
fn masks(text: &str) -> usize {
    let is_mask = |word: &str| {
        let groups: Vec<&str> = word.split(['.', '/', '-']).collect();
        let repeats = |group: &&str| {
            let mut letters = group.chars();
            let first = letters.next();
            group.len() > 1 && first.is_some_and(char::is_uppercase) && letters.all(|c| Some(c) == first)
        };
        let is_date = groups
            .iter()
            .all(|group| group.starts_with(['D', 'M', 'Y', 'T', 'J', 'A', 'G', 'Д', 'М', 'Г']));
        groups.iter().all(repeats) && (groups.len() == 3 || groups.len() == 2 && is_date)
    };
    let dates = text
        .split(|c: char| {
            c.is_whitespace() || c.is_ascii_punctuation() && !matches!(c, '.' | '/' | '-') || is_unspaced(c)
        })
        .filter(|word| is_mask(word.trim_matches(['.', '/', '-'])));
    dates.count() + crosses(text) + circles(text) + between_percents(text)
}

/// Circles and crosses that replace the number of a date or an issue: `〇月〇日`.
fn circles(text: &str) -> usize {
    const NUMERALS: &str = "〇一二三四五六七八九十百千";
    let chars: Vec<char> = text.chars().collect();
    let is_mask = |at: usize| {
        let stands_free = at.checked_sub(1).is_none_or(|before| !NUMERALS.contains(chars[before]));
        matches!(chars[at], '〇' | '○' | '●' | '×' | 'X' | 'Ｘ')
            && stands_free
            && chars
                .get(at + 1)
                .is_some_and(|next| "年月日号时時点分名人円元回第".contains(*next))
    };
    (0..chars.len()).filter(|at| is_mask(*at)).count()
}

/// Names between percent signs.
fn between_percents(text: &str) -> usize {
    let named = text.split('%').skip(1).step_by(2);
    let is_name = |name: &&str| name.len() > 2 && name.chars().all(|c| c.is_uppercase() || c == '_');
    named.filter(is_name).count()
}

/// Runs of `X` that replace digits or a name. Two or three next to a century are a Roman number.
fn crosses(text: &str) -> usize {
    let lower = text.to_lowercase();
    let is_roman = CENTURIES.iter().any(|word| lower.contains(word));
    let chars: Vec<char> = text.chars().collect();
    let mut found = 0;
    let mut at = 0;
    while at < chars.len() {
        let run = chars[at..].iter().take_while(|c| matches!(c, 'X' | 'Ｘ')).count();
        if run == 0 {
            at += 1;
            continue;
        }
        let before = at.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(at + run).copied();
        let near = [before, after];
        let of_number = before.is_some_and(|c| c.is_ascii_digit());
        let of_name = near.iter().flatten().any(|c| is_unspaced(*c));
        let in_word = near.iter().flatten().any(|c| c.is_alphabetic() && !is_unspaced(*c));
        found += usize::from(run > 1 && !in_word && (run > 3 || of_number || of_name || !is_roman));
        at += run;
    }
    found
}
