//! Spaces lost between words, and spaces added in words.
//!
//! Eligible units: a gap of one space, which is removed; a word of at least four letters, which is
//! divided at a drawn place; in scripts without spaces, each place between two letters, where a
//! space is added. Gaps beside numbers and line breaks are not eligible.
//!
//! Sources: `whitespace_perturbation` of NL-Augmenter (K. D. Dhole et al., 2021); the missing and
//! further spaces of speech and keyboard errors in NoiseQA (A. Ravichander et al., "NoiseQA:
//! Challenge Set Evaluation for User-Centric Question Answering", EACL 2021).

use crate::{
    draft::Draft,
    language::Language,
    noise::{Noise, NotApplicable},
    text::{Class, Text, Word},
};

/// Letters of the shortest word that is divided.
const DIVIDED: usize = 4;

pub(super) struct Spacing;

impl Noise for Spacing {
    fn refusal(&self, _: Language) -> Option<NotApplicable> {
        None
    }

    fn write(&self, text: &Text<'_>, _: Language, draft: &mut Draft<'_>) {
        let mut words = text.words.iter().peekable();
        for at in 0..text.pieces.len() {
            while let Some(word) = words.next_if(|word| word.pieces.start == at) {
                divide(text, word, draft);
            }
            if is_gap(text, at) && draft.unit().is_some() {
                draft.replace(text.range(at));
            }
        }
    }
}

/// Whether a piece is one space between two pieces that are not numbers.
fn is_gap(text: &Text<'_>, at: usize) -> bool {
    let solid = |at: Option<usize>| text.is(at, Class::Letter) || text.is(at, Class::Other);
    text.pieces[at].class == Class::Space
        && !matches!(text.cluster(at), "\n" | "\r" | "\r\n")
        && solid(at.checked_sub(1))
        && solid(Some(at + 1))
}

fn divide(text: &Text<'_>, word: &Word, draft: &mut Draft<'_>) {
    if word.numeric {
        return;
    }
    if word.unspaced {
        for at in word.pieces.clone().skip(1) {
            if draft.unit().is_some() {
                let start = text.pieces[at].start;
                draft.replace(start..start).push(' ');
            }
        }
    } else if word.pieces.len() >= DIVIDED
        && let Some(mut pick) = draft.unit()
    {
        let at = word.pieces.start + 1 + pick.below(word.pieces.len() - 1);
        let start = text.pieces[at].start;
        draft.replace(start..start).push(' ');
    }
}
