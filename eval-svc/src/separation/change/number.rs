//! `number`: changes one number of a text to another of similar size and format.
//!
//! Digits, in any script that has decimal digits: the last digit that is not zero becomes another
//! one from 1 to 9, so that `1,200` stays a round number of four digits and `0.5` a fraction. A
//! number that may be a day of the month stays one. English number words (`seven`, `thirty`,
//! `third`) become another word of the same class; `one` is not changed, because it is a pronoun as
//! often as it is a number.

use std::ops::Range;

use super::words::{English, drawn, in_case_of, spliced};

/// The zeros of the scripts whose ten digits have consecutive code points: ASCII, Arabic-Indic,
/// Persian, Devanagari, Bengali, Thai, full width.
const ZEROS: [char; 7] = ['0', '\u{660}', '\u{6F0}', '\u{966}', '\u{9E6}', '\u{E50}', '\u{FF10}'];

/// Classes of number words: each word may replace another of its class.
const WORDS: [&[&str]; 4] = [
    &[
        "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    ],
    &[
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ],
    &[
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ],
    &[
        "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    ],
];

/// Highest day of a month: a number up to this may be a day, and stays one.
const DAYS: u64 = 31;

/// The text with one number changed; `parts` determine the draw. `english`: the tagged text if
/// number words may change too.
pub(super) fn changed(text: &str, english: Option<&English<'_>>, parts: &[&str], seed: u64) -> Option<String> {
    let mut places: Vec<(Range<usize>, Vec<String>)> = digits(text);
    places.extend(english.into_iter().flat_map(words));
    if places.is_empty() {
        return None;
    }
    let (span, others) = places.swap_remove(drawn(parts, seed, places.len()));
    let chosen = others.get(drawn(&[parts, &["value"]].concat(), seed, others.len()))?;
    Some(spliced(text, span, chosen))
}

/// A decimal digit and its script's zero.
fn digit(c: char) -> Option<(u32, char)> {
    ZEROS.iter().find_map(|zero| {
        let value = (c as u32).checked_sub(*zero as u32)?;
        (value < 10).then_some((value, *zero))
    })
}

/// The digit to change in each number of the text, with its possible replacements.
fn digits(text: &str) -> Vec<(Range<usize>, Vec<String>)> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let at = |i: usize| chars.get(i).map(|(_, c)| *c);
    let mut places = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        if at(i).and_then(digit).is_none() {
            i += 1;
            continue;
        }
        let start = i;
        // Separators count as part of a number only between digits.
        while at(i).and_then(digit).is_some()
            || (matches!(at(i), Some('.' | ',')) && at(i + 1).and_then(digit).is_some())
        {
            i += 1;
        }
        if !stands_alone(text, &chars, start..i) {
            continue;
        }
        let last_first = (start..i).rev();
        let place = last_first
            .filter_map(|j| Some((j, at(j).and_then(digit)?)))
            .filter(|(_, (old, _))| *old > 0)
            .find_map(|(j, (old, zero))| {
                let others = others(&chars, start..i, j, old);
                let shown = others.into_iter().filter_map(|new| char::from_u32(zero as u32 + new));
                let shown: Vec<String> = shown.map(String::from).collect();
                let (byte, c) = chars.get(j)?;
                (!shown.is_empty()).then(|| (*byte..*byte + c.len_utf8(), shown))
            });
        places.extend(place);
    }
    places
}

/// Possible replacements of the digit `old` at place `j` of a number: not zero, and a number that
/// may be a day of the month stays one.
fn others(chars: &[(usize, char)], number: Range<usize>, j: usize, old: u32) -> Vec<u32> {
    let value = |new: u32| {
        let mut sum = 0_u64;
        for k in number.clone() {
            let own = chars.get(k).and_then(|(_, c)| digit(*c)).map(|(own, _)| own);
            if let Some(own) = own {
                sum = sum
                    .saturating_mul(10)
                    .saturating_add(u64::from(if k == j { new } else { own }));
            }
        }
        sum
    };
    let may_be_day = value(old) <= DAYS;
    (1..=9)
        .filter(|new| *new != old && (!may_be_day || value(*new) <= DAYS))
        .collect()
}

/// Whether digits form a separate number: not part of a name (`COVID-19`, `B2B`), an ordinal
/// (`2nd`), the minutes of a time, or an address.
fn stands_alone(text: &str, chars: &[(usize, char)], span: Range<usize>) -> bool {
    let before = |n: usize| span.start.checked_sub(n).and_then(|i| chars.get(i)).map(|(_, c)| *c);
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphabetic() && (c as u32) < 0x2E80);
    if is_letter(before(1)) || before(1) == Some('_') {
        return false;
    }
    if matches!(before(1), Some('-' | ':' | '/' | '.' | '@' | '#')) && before(2).is_some_and(char::is_alphanumeric) {
        return false;
    }
    let Some((end, _)) = chars.get(span.end) else {
        return true;
    };
    let suffix: String = text[*end..].chars().take(2).flat_map(char::to_lowercase).collect();
    let address = text[..*end].rsplit(char::is_whitespace).next().unwrap_or_default();
    !matches!(suffix.as_str(), "st" | "nd" | "rd" | "th") && !address.contains("://") && !address.starts_with("www.")
}

/// The number words, with the others of their class.
fn words(text: &English<'_>) -> Vec<(Range<usize>, Vec<String>)> {
    let place = |word: &super::words::Word| {
        let class = WORDS.iter().find(|class| class.contains(&word.lower.as_str()))?;
        let shown = &text.text[word.span.clone()];
        let others = class.iter().filter(|other| **other != word.lower);
        Some((
            word.span.clone(),
            others.map(|other| in_case_of(shown, other)).collect(),
        ))
    };
    text.words.iter().filter_map(place).collect()
}
