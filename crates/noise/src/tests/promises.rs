//! Doses, determinism, numbers and forms.

use std::collections::BTreeSet;

use proptest::prelude::*;
use unicode_normalization::{UnicodeNormalization, is_nfc};
use unicode_segmentation::UnicodeSegmentation;

use super::{applicable, sentences};
use crate::{Channel, Dose, Language, NotApplicable, applies, apply, draft};

fn units(channel: Channel, text: &str, language: Language, share: f64, seed: u64) -> BTreeSet<u32> {
    let draft = draft(channel, text, language, share, seed).unwrap();
    draft.changed().iter().copied().collect()
}

/// Numbers of a text in order: runs of digits with the separators between them.
fn numbers(text: &str) -> Vec<&str> {
    let words = text.unicode_words();
    words
        .filter(|word| word.chars().all(|c| c.is_numeric() || ".,'’٬٫_".contains(c)))
        .collect()
}

#[test]
fn dose_0_changes_nothing() {
    for channel in Channel::ALL {
        for (language, sentence) in applicable(channel) {
            for seed in 0..5 {
                let draft = draft(channel, sentence, language, 0.0, seed).unwrap();
                assert!(draft.changed().is_empty() && draft.eligible() > 0);
                assert_eq!(draft.finish(), sentence);
            }
        }
    }
}

#[test]
fn a_higher_dose_changes_the_units_of_a_lower_one_too() {
    for channel in Channel::ALL {
        for (language, sentence) in applicable(channel) {
            for seed in 0..5 {
                let of = |dose: &Dose| units(channel, sentence, language, dose.share(), seed);
                let all: Vec<_> = Dose::ALL.iter().map(of).collect();
                assert!(
                    all.windows(2).all(|two| two[0].is_subset(&two[1])),
                    "{channel:?} {sentence}"
                );
            }
        }
    }
}

/// Letters that keep their place show that the change of a unit does not depend on the dose.
#[test]
fn a_unit_changes_into_the_same_at_every_dose() {
    for channel in [
        Channel::Homoglyphs,
        Channel::Diacritics,
        Channel::CodeSwitching,
        Channel::Case,
    ] {
        for (language, sentence) in applicable(channel) {
            let changed = |dose: Dose| -> Vec<(usize, String)> {
                let noised = apply(channel, sentence, language, dose, 3).unwrap().text;
                let pairs = sentence.split(' ').zip(noised.split(' ')).enumerate();
                pairs
                    .filter(|(_, (own, other))| own != other)
                    .map(|(at, (_, other))| (at, other.to_owned()))
                    .collect()
            };
            let (few, many) = (changed(Dose::Moderate), changed(Dose::Severe));
            for (at, word) in few {
                let found = many.iter().find(|(other, _)| *other == at);
                // Further letters of the word may have changed.
                assert!(
                    found.is_some_and(|(_, other)| *other == word || other.chars().count() == word.chars().count()),
                    "{channel:?} {sentence}"
                );
            }
        }
    }
}

/// Bounds of five standard deviations: one of ten million such sums lies outside.
#[test]
fn the_share_of_changed_units_is_the_dose() {
    for channel in Channel::ALL {
        for dose in Dose::ALL {
            let (mut changed, mut eligible, mut variance) = (0.0, 0.0, 0.0);
            for (language, sentence) in applicable(channel) {
                for seed in 0..20 {
                    let noised = apply(channel, sentence, language, dose, seed).unwrap();
                    changed += noised.changed as f64;
                    eligible += noised.eligible as f64;
                    // Truncation has one draw for the text, which varies by at most one unit.
                    variance += match channel {
                        Channel::Truncation => 0.25,
                        _ => noised.eligible as f64 * dose.share() * (1.0 - dose.share()),
                    };
                }
            }
            let off = changed - eligible * dose.share();
            assert!(
                off.abs() < 5.0 * f64::sqrt(variance),
                "{channel:?} {dose:?}: {off}, variance {variance}"
            );
            assert!(eligible > 500.0, "{channel:?}: {eligible}");
        }
    }
}

#[test]
fn every_changed_unit_shows_in_the_text() {
    for channel in Channel::ALL {
        for (language, sentence) in applicable(channel) {
            for seed in 0..20 {
                let noised = apply(channel, sentence, language, Dose::Light, seed).unwrap();
                assert_eq!(
                    noised.text != sentence,
                    noised.changed > 0,
                    "{channel:?} {sentence}: {}",
                    noised.text
                );
            }
        }
    }
}

#[test]
fn seeds_texts_and_channels_are_drawn_apart() {
    let english = Language::parse("en").unwrap();
    let text = "the people in the city buy bread and milk at the market every morning because food is cheap";
    let of = |channel, text: &str, seed| units(channel, text, english, 0.2, seed);
    let first = of(Channel::Keyboard, text, 1);
    assert_eq!(first, of(Channel::Keyboard, text, 1));
    assert_ne!(first, of(Channel::Keyboard, text, 2));
    assert_ne!(first, of(Channel::Keyboard, &text.replace("cheap", "dear!"), 1));
    assert_ne!(first, of(Channel::Homoglyphs, text, 1));
}

#[test]
fn numbers_stay_as_they_are() {
    let english = Language::parse("en").unwrap();
    for text in [
        "In 2020 it cost 1,000.50 dollars, about 5 million in 10 - 12 years.",
        "-5 degrees, 30% of B2B and covid-19 cases; call 555 01 99 now or at 9:30!",
        "Chapter 3: the 7 habits of 40 people. See p. 12.",
    ] {
        let before = numbers(text);
        assert!(before.len() > 3);
        for channel in Channel::ALL {
            for seed in 0..200 {
                let Ok(noised) = apply(channel, text, english, Dose::Severe, seed) else {
                    continue;
                };
                let after = numbers(&noised.text);
                let kept = if channel == Channel::Truncation {
                    &before[..after.len()]
                } else {
                    &before[..]
                };
                assert_eq!(after, kept, "{channel:?}: {}", noised.text);
            }
        }
    }
}

#[test]
fn a_truncated_text_does_not_end_in_a_number() {
    let english = Language::parse("en").unwrap();
    let chinese = Language::parse("zh").unwrap();
    for (text, language, numerals) in [
        ("They paid 5 million for 3.5 tons of 20 goods", english, "0123456789"),
        ("2020 was 1 good year", english, "0123456789"),
        ("他有三十五本书和二百个朋友", chinese, "一二三四五六七八九十百"),
    ] {
        for seed in 0..200 {
            let noised = apply(Channel::Truncation, text, language, Dose::Severe, seed).unwrap();
            assert!(
                noised.changed == 0 || !noised.text.ends_with(|c| numerals.contains(c)),
                "{}",
                noised.text
            );
            assert!(text.starts_with(&noised.text) && !noised.text.is_empty());
        }
    }
    assert_eq!(
        apply(Channel::Truncation, "1 2 3", english, Dose::Severe, 1),
        Err(NotApplicable::NothingEligible)
    );
}

#[test]
fn chinese_numerals_are_not_read_for_other_characters() {
    let chinese = Language::parse("zh").unwrap();
    let text = "三千二百八十人";
    for channel in [Channel::Ocr, Channel::Homoglyphs, Channel::Spacing] {
        for seed in 0..100 {
            if let Ok(noised) = apply(channel, text, chinese, Dose::Severe, seed) {
                assert!(noised.text.starts_with("三千二百八十"), "{}", noised.text);
            }
        }
    }
}

#[test]
fn a_text_without_units_is_refused() {
    let english = Language::parse("en").unwrap();
    for text in ["", " ", "42", "?!", "👍🏽"] {
        for channel in Channel::ALL {
            let refused = apply(channel, text, english, Dose::Severe, 1);
            assert_eq!(refused, Err(NotApplicable::NothingEligible), "{channel:?} {text:?}");
        }
    }
}

/// Texts in which the scripts and forms of the sentences are mixed with digits, marks and emoji.
fn mixed() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-zA-Z]{1,8}",
        "[àéîõüßçñşğıİłøæœ]{1,4}",
        "[а-яёґії]{1,6}",
        "[αβγδεζηθικλμνξοπρσςτυφχψωάέ]{1,6}",
        "[ءا-ي\u{64b}-\u{652}]{1,6}",
        "[א-ת\u{5b0}-\u{5bc}]{1,6}",
        "[क-ह\u{93c}ा-ौ\u{94d}]{1,6}",
        "[ก-ฮะ-ู็-์]{1,6}",
        "[가-힣]{1,4}",
        "[あ-んア-ン日人大一二三]{1,6}",
        "[0-9]{1,4}[.,]?[0-9]{0,2}",
        "[.,;:!?()'’\"-]",
        "[👍🏽👩\u{200d}\u{301}\u{fe0f}]{1,3}",
        "[ \u{a0}\n]",
    ];
    let words = prop::collection::vec(part, 1..12);
    words.prop_map(|parts| parts.join(" "))
}

fn any_language() -> impl Strategy<Value = Language> {
    prop::sample::select(Language::all().collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn any_text_gives_the_same_twice_and_stays_a_text(text in mixed(), language in any_language(), seed in any::<u64>()) {
        for text in [text.clone(), text.nfc().collect(), text.nfd().collect::<String>()] {
            for channel in Channel::ALL {
                let Ok(noised) = apply(channel, &text, language, Dose::Severe, seed) else {
                    continue;
                };
                let again = apply(channel, &text, language, Dose::Severe, seed);
                prop_assert_eq!(again.as_ref(), Ok(&noised));
                prop_assert!(!noised.text.trim().is_empty());
                prop_assert!(noised.changed <= noised.eligible && noised.eligible > 0);
                prop_assert!(!is_nfc(&text) || is_nfc(&noised.text));
                let digits = |text: &str| text.chars().filter(|c| c.is_ascii_digit()).count();
                match channel {
                    Channel::Truncation => prop_assert!(text.starts_with(&noised.text)),
                    Channel::Ocr => prop_assert!(digits(&noised.text) >= digits(&text)),
                    _ => prop_assert_eq!(digits(&noised.text), digits(&text)),
                }
            }
        }
    }

    #[test]
    fn doses_are_nested_in_any_text(text in mixed(), language in any_language(), seed in any::<u64>(), low in 0.0..1.0_f64, more in 0.0..1.0_f64) {
        for channel in Channel::ALL {
            if draft(channel, &text, language, 0.0, seed).is_ok() {
                let few = units(channel, &text, language, low, seed);
                prop_assert!(few.is_subset(&units(channel, &text, language, (low + more).min(1.0), seed)));
            }
        }
    }
}

#[test]
fn every_language_has_a_sentence() {
    let with: BTreeSet<&str> = sentences().map(|(language, _)| language.code()).collect();
    let all: BTreeSet<&str> = Language::all().map(Language::code).collect();
    assert_eq!(with, all);
    assert!(Language::all().all(|language| applies(Channel::Truncation, language).is_ok()));
}

#[test]
fn english_is_the_row_of_english() {
    assert_eq!(Language::parse("en"), Some(Language::ENGLISH));
}
