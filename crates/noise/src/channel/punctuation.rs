//! Punctuation lost, exchanged and added.
//!
//! Eligible units: a punctuation mark, which is removed or exchanged for another of the script; a
//! gap between two words, where a mark is added (A. Karimi et al., "AEDA: An Easier Data
//! Augmentation Technique for Text Classification", EMNLP Findings 2021). Marks and gaps beside
//! numbers are not eligible, because signs, separators and the comma after a number may be parts of
//! it. Symbols (%, #, @, &, *) carry meaning and are not eligible either.

use crate::{
    draft::{Draft, Pick},
    language::{Language, Script},
    noise::{Noise, NotApplicable},
    text::{Class, Text},
};

/// Marks that end or divide sentences, and are exchanged for each other.
const SENTENCE: &str = ".,;:!?…،؛؟。、，；：！？·।॥։՝՞՜؟።፣፤፥፦፧၊။។";
/// Quotation marks, brackets and marks inside words, which are removed.
const REMOVED: &str = "'\"’‘“”«»„‚()[]{}<>「」『』（）《》〈〉【】״׳־";
/// Marks between words, which become a space.
const JOINING: &str = "-–—‐‑/_";

pub(super) struct Punctuation;

impl Noise for Punctuation {
    fn refusal(&self, _: Language) -> Option<NotApplicable> {
        None
    }

    fn write(&self, text: &Text<'_>, language: Language, draft: &mut Draft<'_>) {
        if text.words.is_empty() {
            return;
        }
        for at in 0..text.pieces.len() {
            match text.pieces[at].class {
                Class::Other => mark(text, at, language, draft),
                Class::Space => gap(text, at, language, draft),
                Class::Letter | Class::Number => {}
            }
        }
    }
}

/// The marks of a script that can stand after any word.
fn marks(language: Language) -> &'static [&'static str] {
    match language.script() {
        Script::Arabic => &[".", "،", "؛", ":", "!", "؟"],
        Script::Armenian => &["։", ",", "՝", "."],
        Script::Burmese => &["၊", "။"],
        Script::Devanagari | Script::Bengali | Script::Gurmukhi | Script::Odia => &["।", ",", ";", ":", "!", "?"],
        Script::Ethiopic => &["።", "፣", "፤", "፥"],
        Script::Greek => &[".", ",", "·", ":", "!", ";"],
        Script::Han | Script::Japanese => &["。", "，", "、", "；", "：", "！", "？"],
        Script::Khmer => &["។", "!", "?"],
        _ => &[".", ",", ";", ":", "!", "?"],
    }
}

fn mark(text: &Text<'_>, at: usize, language: Language, draft: &mut Draft<'_>) {
    let own = text.cluster(at);
    let mut characters = own.chars();
    let (Some(c), None) = (characters.next(), characters.next()) else {
        return;
    };
    let (sentence, joining) = (SENTENCE.contains(c), JOINING.contains(c));
    if !(sentence || joining || REMOVED.contains(c)) || text.beside_number(at) {
        return;
    }
    let Some(mut pick) = draft.unit() else {
        return;
    };
    let between_letters = text.is(at.checked_sub(1), Class::Letter) && text.is(Some(at + 1), Class::Letter);
    let exchanged = sentence && pick.below(2) == 0;
    let out = draft.replace(text.range(at));
    if exchanged {
        out.push_str(other(own, language, &mut pick));
    } else if joining && between_letters {
        out.push(' ');
    }
}

/// A mark that differs from another.
fn other(own: &str, language: Language, pick: &mut Pick) -> &'static str {
    let marks = marks(language);
    let at = match marks.iter().position(|mark| *mark == own) {
        Some(own) => (own + 1 + pick.below(marks.len() - 1)) % marks.len(),
        None => pick.below(marks.len()),
    };
    marks[at]
}

fn gap(text: &Text<'_>, at: usize, language: Language, draft: &mut Draft<'_>) {
    let between = text.is(at.checked_sub(1), Class::Letter) && text.is(Some(at + 1), Class::Letter);
    if between
        && !text.beside_digits_of_word(at)
        && let Some(mut pick) = draft.unit()
    {
        let start = text.pieces[at].start;
        draft
            .replace(start..start)
            .push_str(pick.of(marks(language)).unwrap_or(&","));
    }
}
