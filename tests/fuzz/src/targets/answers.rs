//! Answers of language models. The original text comes first, up to a zero byte.

use isomer_proto::{ProtoEnum, transform::v1::JudgeScale};
use isomer_transform::{
    checks, clean, distractors, guards,
    judge::{Scale, number},
    language::{self, Language},
    list, measures,
    prompt::Purpose,
};
use isomer_transformations::{Declaration, declaration};

use crate::input::{Input, text};

#[allow(clippy::unwrap_used, reason = "the names are written here")]
fn row(name: &str) -> &'static Declaration {
    declaration(name).unwrap()
}

/// An answer, cleaned, checked and measured. Cleaning adds nothing, and a cleaned text is clean.
pub(super) fn texts(data: &[u8]) {
    let mut input = Input(data);
    let Some(purpose) = input.choice(Purpose::all()) else {
        return;
    };
    let (original, raw) = (text(input.until(0)), text(input.0));
    let cleaned = clean::clean(purpose, &original, &raw, ("<text>", "</text>"));
    assert!(cleaned.text.len() <= raw.len() + 16, "cleaning adds to a text");
    assert!(!cleaned.unfinished || cleaned.text.is_empty());
    let english = Language::parse("en");
    let paraphrase = row("paraphrase");
    let failed = checks::run(paraphrase, &original, &cleaned.text, english);
    assert_eq!(failed.contains(&checks::Check::Empty), cleaned.text.trim().is_empty());
    let measured = measures::measure(&original, &cleaned.text);
    assert!((0.0..=1.0).contains(&measured.edit_distance) && (0.0..=1.0).contains(&measured.jaccard));
    assert!(measured.length_ratio.is_finite() && measured.length_ratio >= 0.0);
    let _ = language::detect(&raw);
}

/// A list. No item is longer than the answer, and a set has at most as many texts as requested, all
/// different.
pub(super) fn lists(data: &[u8]) {
    const WANTED: usize = 4;
    let mut input = Input(data);
    let (original, answer) = (text(input.until(0)), text(input.0));
    let items = list::items(&answer, WANTED);
    assert!(items.iter().map(String::len).sum::<usize>() <= 2 * answer.len() + 16);
    let set = distractors::read(row("distractors"), &original, &answer, WANTED, Language::parse("en"));
    assert!(set.texts.len() <= WANTED);
    assert_eq!(set.texts.len() < WANTED, set.failed.contains(&checks::Check::TooFew));
    for (i, one) in set.texts.iter().enumerate() {
        assert!(!set.texts[..i].contains(one), "a text occurs twice");
    }
}

/// A rating; it is on its scale.
pub(super) fn ratings(data: &[u8]) {
    let answer = text(data);
    for scale in JudgeScale::all() {
        if let Some(rating) = number::read(&answer, scale) {
            let (low, high) = scale.range();
            assert!((low..=high).contains(&rating) && (scale.takes_decimals() || rating.fract() == 0.0));
        }
    }
}

/// A rewrite and the checks of meaning. No check fires for a text compared with itself.
pub(super) fn guards(data: &[u8]) {
    let mut input = Input(data);
    let (original, rewrite) = (text(input.until(0)), text(input.0));
    let english = Language::parse("en");
    let paraphrase = row("paraphrase");
    for source in [english, Language::parse("de"), None] {
        let _ = guards::run(paraphrase, &original, &rewrite, source, source);
    }
    let same = guards::run(paraphrase, &original, &original, english, english);
    assert!(same.fired.is_empty(), "{:?} of a text compared with itself", same.fired);
}
