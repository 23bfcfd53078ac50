#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::ops::Range;

use isomer_tagger::EntityLabel;
use proptest::prelude::*;

use super::*;
use crate::{language::Language, words};

const TEXT: &str = "Yesterday Maria Lopez quickly sold an old boat to Peter Brown in Lisbon, and he slowly repaired the new engine in Porto.";

fn english() -> English {
    tagger_for(None).unwrap()
}

fn variants(text: &str, seed: u64, id: &str) -> Result<Vec<String>, SwapError> {
    multi_swap(&english(), text, 3, seed, "", id)
}

/// Phrases that a test chooses: the words in brackets, each with the group of its letter.
struct MarkedPhrases;

impl PhraseTagger for MarkedPhrases {
    fn phrases(&self, text: &str) -> Vec<Phrase> {
        let found = |word: &str, group, name| {
            text.match_indices(word)
                .map(move |(at, _)| (at..at + word.len(), group, name))
                .collect::<Vec<(Range<usize>, Group, bool)>>()
        };
        let mut all = [
            found("Big", Group::Adjective, false),
            found("small", Group::Adjective, false),
            found("dogs", Group::Noun, false),
            found("NASA", Group::Noun, true),
            found("see", Group::Verb, false),
            found("eat", Group::Verb, false),
        ]
        .concat();
        all.sort_by_key(|(span, ..)| span.start);
        all.into_iter()
            .map(|(span, group, name)| Phrase {
                opens: span.start == 0,
                span,
                group,
                name,
            })
            .collect()
    }
}

fn sorted_words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut words: Vec<String> = words::words(&lower).into_iter().map(str::to_owned).collect();
    words.sort();
    words
}

#[test]
fn each_variant_has_one_swap_more_and_the_same_words() {
    for seed in 0..20 {
        let made = variants(TEXT, seed, "1").unwrap();
        assert_eq!(made.len(), 3);
        let mut before = TEXT;
        for variant in &made {
            assert_ne!(variant, before);
            assert_eq!(sorted_words(variant), sorted_words(TEXT), "{variant}");
            before = variant;
        }
    }
}

#[test]
fn a_name_moves_as_one_phrase() {
    let made: Vec<String> = (0..60).flat_map(|seed| variants(TEXT, seed, "1").unwrap()).collect();
    assert!(
        made.iter().any(|text| text.contains("Peter Brown quickly")),
        "{made:#?}"
    );
    for text in &made {
        assert!(text.contains("Maria Lopez") && text.contains("Peter Brown"), "{text}");
    }
}

#[test]
fn the_draw_depends_on_seed_run_and_id_alone() {
    let first = variants(TEXT, 1337, "a").unwrap();
    assert_eq!(first, variants(TEXT, 1337, "a").unwrap());
    let others = [
        variants(TEXT, 1338, "a").unwrap(),
        variants(TEXT, 1337, "b").unwrap(),
        multi_swap(&english(), TEXT, 3, 1337, "run", "a").unwrap(),
    ];
    assert!(others.iter().any(|other| *other != first));
    let fewer = multi_swap(&english(), TEXT, 1, 1337, "", "a").unwrap();
    assert_eq!(fewer, first[..1]);
}

#[test]
fn a_sentence_keeps_its_capital_and_its_marks() {
    let text = "Big NASA see, small dogs eat.";
    let mut all = HashSet::new();
    for seed in 0..50 {
        all.extend(multi_swap(&MarkedPhrases, text, 3, seed, "", "").unwrap());
    }
    assert!(all.contains("Small dogs eat, big NASA see."), "{all:#?}");
    assert!(
        all.iter()
            .all(|text| text.starts_with("Big ") || text.starts_with("Small ")),
        "{all:#?}"
    );
    assert!(
        all.iter().all(|text| text.contains("NASA") && text.contains("dogs")),
        "{all:#?}"
    );
}

#[test]
fn a_text_without_three_groups_has_no_variants() {
    for (text, found) in [
        ("Hello.", 0),
        ("", 0),
        ("The dog and the cat.", 1),
        ("The cat is a cat and the cat was a cat.", 0),
    ] {
        assert_eq!(
            variants(text, 1, "").unwrap_err(),
            SwapError::TooFewGroups { found },
            "{text}"
        );
    }
}

#[test]
fn forms_of_be_and_modals_stay() {
    let text = "The tall man will be happy, but the short woman was sad and could not sing or dance loudly or softly.";
    for seed in 0..40 {
        for variant in variants(text, seed, "").unwrap() {
            assert!(
                variant.contains(" man will be ") || variant.contains(" will be "),
                "{variant}"
            );
            assert!(variant.contains(" could not "), "{variant}");
            assert!(variant.contains(" was "), "{variant}");
        }
    }
}

#[test]
fn words_that_make_the_same_text_again_are_no_swap() {
    struct Repeats;
    impl PhraseTagger for Repeats {
        fn phrases(&self, _: &str) -> Vec<Phrase> {
            let phrase = |span, group| Phrase {
                span,
                group,
                opens: false,
                name: false,
            };
            [Group::Noun, Group::Verb, Group::Entity(EntityLabel::Org)]
                .into_iter()
                .enumerate()
                .flat_map(|(n, group)| [phrase(n * 9..n * 9 + 2, group), phrase(n * 9 + 3..n * 9 + 8, group)])
                .collect()
        }
    }
    let text = "no no no no no no no no no";
    assert_eq!(
        multi_swap(&Repeats, text, 3, 1, "", "").unwrap_err(),
        SwapError::NothingChanges
    );
}

#[test]
fn another_language_has_no_tagger() {
    let german = Language::parse("de");
    assert!(tagger_for(german).unwrap_err().contains("German"));
    assert!(tagger_for(Language::parse("en-GB")).is_ok());
}

proptest! {
    #[test]
    fn any_text_makes_three_variants_or_says_why(text in "\\PC{0,200}|([A-Za-z']{1,9}[ ,.]){0,40}", seed: u64) {
        match variants(&text, seed, "x") {
            Ok(made) => {
                prop_assert_eq!(made.len(), 3);
                for variant in made {
                    prop_assert_ne!(&variant, &text);
                    let count = |text: &str| text.chars().filter(|c| c.is_whitespace()).count();
                    prop_assert_eq!(count(&variant), count(&text));
                }
            }
            Err(SwapError::TooFewGroups { found }) => prop_assert!(found < 3),
            Err(SwapError::NothingChanges) => {}
        }
    }
}
