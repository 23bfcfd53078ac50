//! The end of the text is missing.
//!
//! Eligible unit: a word; in scripts without spaces, a letter. The last units are cut: the share of
//! all units, rounded up or down by a draw so that its expectation is the dose. The first unit is
//! never cut. A cut behind a number, or inside one, moves forward to the word before it, because
//! "5 million" without its last word is another number.
//!
//! Encoders cut off texts beyond their longest input themselves (`max_seq_length` of
//! sentence-transformers); people cut messages and titles short.

use crate::{
    draft::Draft,
    language::Language,
    noise::{Noise, NotApplicable},
    text::Text,
};

pub(super) struct Truncation;

struct Unit {
    end: usize,
    numeric: bool,
}

impl Noise for Truncation {
    fn refusal(&self, _: Language) -> Option<NotApplicable> {
        None
    }

    fn write(&self, text: &Text<'_>, _: Language, draft: &mut Draft<'_>) {
        let mut units = Vec::with_capacity(text.words.len());
        for word in &text.words {
            let numeric = word.numeric;
            if word.unspaced && !numeric {
                let ends = text.pieces[word.pieces.clone()].iter().map(|piece| piece.end);
                units.extend(ends.map(|end| Unit { end, numeric }));
            } else {
                let end = text.span(word).end;
                units.push(Unit { end, numeric });
            }
        }
        let n = units.len();
        // A text of one word, or of numbers, cannot be cut.
        let Some(first) = units
            .iter()
            .position(|unit| !unit.numeric)
            .filter(|first| first + 1 < n)
        else {
            return;
        };
        let safe = |cut: usize| {
            let kept = (first + 1..=n - cut).rev().find(|kept| !units[kept - 1].numeric);
            n - kept.unwrap_or(first + 1)
        };
        let cut = draft.last_units(n, |cut| if cut == 0 { 0 } else { safe(cut) });
        if cut > 0 {
            draft.replace(units[n - cut - 1].end..text.source.len());
        }
    }
}
