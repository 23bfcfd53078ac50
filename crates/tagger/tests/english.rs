//! The model of this crate, on our own sentences with spaCy's tags (tests/data: `training/label.py`
//! wrote the reference) and on any text.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../examples/support/mod.rs"]
mod support;

use std::{collections::HashSet, path::Path};

use isomer_tagger::{ENGLISH, EntityLabel, Pos, Tagger, features, tokenise};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

fn tagger() -> &'static Tagger {
    Tagger::english().unwrap()
}

fn reference() -> Vec<support::Sentence> {
    support::read(&Path::new(".").join("tests/data/reference.tagged")).unwrap()
}

#[test]
fn tokens_are_those_of_the_reference() {
    for sentence in reference() {
        assert_eq!(tokenise(&sentence.text), sentence.spans, "{}", sentence.text);
    }
}

#[test]
fn parts_of_speech_agree_with_the_reference() {
    let (mut right, mut all) = (0, 0);
    for sentence in reference() {
        for (token, pos) in tagger().tag(&sentence.text).tokens.iter().zip(&sentence.pos) {
            right += usize::from(token.pos.name() == pos);
            all += 1;
        }
    }
    assert!(all > 700, "{all}");
    let share = f64::from(right as u32) / f64::from(all);
    println!("{right} of {all}: {share:.4}");
    assert!(share >= MIN_POS, "{right} of {all}");
}

#[test]
fn entities_agree_with_the_reference() {
    let (mut both, mut ours, mut theirs) = (0, 0, 0);
    for sentence in reference() {
        let expected: HashSet<_> = support::entities(&sentence).into_iter().collect();
        let tagged = tagger().tag(&sentence.text);
        theirs += expected.len();
        ours += tagged.entities.len();
        for entity in &tagged.entities {
            let span = tagged.tokens[entity.tokens.start].span.start..tagged.tokens[entity.tokens.end - 1].span.end;
            both += usize::from(expected.contains(&(span, entity.label.name().to_owned())));
        }
    }
    let f1 = (2 * both) as f64 / (ours + theirs) as f64;
    println!("{both} of {theirs}, {ours} ours: F1 {f1:.4}");
    assert!(f1 >= MIN_ENTITY_F1, "{both} of {theirs}, {ours} ours");
}

const MIN_POS: f64 = 0.95;
const MIN_ENTITY_F1: f64 = 0.75;

#[test]
fn a_sentence_is_tagged_as_one_would() {
    let text = "Maria didn't sell the old boat in Lisbon.";
    let tagged = tagger().tag(text);
    let pos: Vec<Pos> = tagged.tokens.iter().map(|token| token.pos).collect();
    use Pos::{Adj, Adp, Aux, Det, Noun, Part, Propn, Punct, Verb};
    assert_eq!(pos, [Propn, Aux, Part, Verb, Det, Adj, Noun, Adp, Propn, Punct]);
    let entities: Vec<_> = tagged.entities.iter().map(|e| (e.tokens.clone(), e.label)).collect();
    assert_eq!(entities, [(0..1, EntityLabel::Person), (8..9, EntityLabel::Gpe)]);
}

#[test]
fn the_model_file_is_the_one_its_readme_describes() {
    let digest = hex::encode(Sha256::digest(ENGLISH));
    let readme = include_str!("../model/README.md");
    assert!(readme.contains(&digest), "sha256 {digest}");
    assert!(ENGLISH.len() <= 1_572_864, "{} bytes", ENGLISH.len());
}

#[test]
fn quotes_and_apostrophes_are_alike_however_they_are_written() {
    let tags = |text: &str| {
        tagger()
            .tag(text)
            .tokens
            .iter()
            .map(|token| token.pos)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        tags("He didn't say \"no\" to Anna's plan."),
        tags("He didn’t say “no” to Anna’s plan.")
    );
}

#[test]
fn a_long_text_is_tagged_in_one_go() {
    let sentence = "The mayor of Chicago opened the new library yesterday. ";
    let text = sentence.repeat(2000);
    let tagged = tagger().tag(&text);
    let alone = tagger().tag(sentence);
    assert_eq!(tagged.tokens.len(), 2000 * alone.tokens.len());
    // From the second sentence on, each is tagged like the previous one.
    let middle = &tagged.tokens[alone.tokens.len() * 1000..alone.tokens.len() * 1001];
    assert!(middle.iter().zip(&alone.tokens).all(|(a, b)| a.pos == b.pos));
}

proptest! {
    #[test]
    fn any_text_is_tagged_without_panic(text in "\\PC{0,120}|[A-Za-z'’.,\\- \u{301}0-9$%]{0,120}") {
        let tagged = tagger().tag(&text);
        prop_assert_eq!(tagged.tokens.iter().map(|token| token.span.clone()).collect::<Vec<_>>(), tokenise(&text));
        let mut next = 0;
        for entity in &tagged.entities {
            prop_assert!(entity.tokens.start >= next && entity.tokens.end > entity.tokens.start);
            next = entity.tokens.end;
        }
        prop_assert!(next <= tagged.tokens.len());
    }

    #[test]
    fn spans_that_are_no_part_of_the_text_make_no_panic(text in "\\PC{0,20}", start in 0_usize..40, len in 0_usize..40) {
        let tagged = tagger().tag_tokens(&text, std::iter::once(start..start + len).collect());
        prop_assert_eq!(tagged.tokens.len(), 1);
    }

    #[test]
    fn features_stay_within_their_bits(text in "\\PC{1,40}") {
        let words = features::words(&text, &tokenise(&text));
        let mut out = Vec::new();
        for at in 0..words.len() {
            features::of_pos(&words, at, &mut out);
            prop_assert!(out.iter().all(|feature| *feature < 1 << features::BITS));
        }
    }
}
