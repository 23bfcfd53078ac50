//! Typing errors by keyboard layout.
//!
//! Eligible unit: a letter (grapheme cluster) of a word without digits that has a key on the
//! language's keyboard, with its accent or without; in Korean, a syllable.
//!
//! The four kinds of error are those of F. J. Damerau ("A technique for computer detection and
//! correction of spelling errors", CACM 7, 1964): another letter, a further letter, a missing
//! letter, two letters exchanged. A wrong or further letter is that of a neighbouring key (the
//! `Key` noise of Y. Belinkov and Y. Bisk, "Synthetic and Natural Noise Both Break Neural Machine
//! Translation", ICLR 2018; `butter_fingers_perturbation` of NL-Augmenter, K. D. Dhole et al.,
//! 2021). Half of the errors are wrong letters and a sixth is of each other kind, which is our
//! choice. The first letter of a word is never missing or exchanged.
//!
//! In Korean a jamo is replaced by that of a neighbouring key, or the final consonant is missing,
//! and the syllable is composed again.

use crate::{
    draft::{Draft, Pick},
    hangul,
    keyboard::{Layout, in_case_of, layout},
    language::{Keyboard, Language},
    letters::is_mark,
    noise::{Noise, NotApplicable},
    text::{Class, Text, Word},
};

/// Typing errors.
pub(super) struct Typos;

impl Noise for Typos {
    fn refusal(&self, language: Language) -> Option<NotApplicable> {
        match language.keyboard() {
            Keyboard::InputMethod => Some(NotApplicable::InputMethod(language)),
            Keyboard::Unknown => Some(NotApplicable::NoLayout(language)),
            _ => None,
        }
    }

    fn write(&self, text: &Text<'_>, language: Language, draft: &mut Draft<'_>) {
        let Some(layout) = layout(language.keyboard()) else {
            return;
        };
        if language.keyboard() == Keyboard::TwoSet {
            return syllables(text, layout, draft);
        }
        let keys = Keys {
            layout,
            turkic: language.is_turkic(),
        };
        // A letter that is exchanged with the next one and waits for it.
        let mut waiting: Option<&str> = None;
        for (at, place, word) in text.letters() {
            let cluster = text.cluster(at);
            let picked = keys.has(cluster).then(|| draft.unit()).flatten();
            let held = waiting.take();
            if picked.is_none() && held.is_none() {
                continue;
            }
            let out = draft.replace(text.range(at));
            match picked {
                None => out.push_str(cluster),
                Some(mut pick) => match kind(&mut pick, place, || keys.exchanges(text, at, word)) {
                    Kind::Exchanged => waiting = Some(cluster),
                    Kind::Missing => {}
                    Kind::Wrong => keys.wrong(cluster, &mut pick, out),
                    Kind::Further => keys.further(cluster, &mut pick, out),
                },
            }
            out.push_str(held.unwrap_or_default());
        }
    }
}

/// Damerau's kinds of error.
enum Kind {
    Wrong,
    Further,
    Missing,
    Exchanged,
}

/// The kind of an error. Only letters at odd places are exchanged with the next, so that the next
/// is not exchanged too, and the kind of an error does not depend on the dose.
fn kind(pick: &mut Pick, place: usize, exchanges: impl FnOnce() -> bool) -> Kind {
    match pick.below(6) {
        0 => Kind::Further,
        1 if place > 0 => Kind::Missing,
        2 if place % 2 == 1 && exchanges() => Kind::Exchanged,
        _ => Kind::Wrong,
    }
}

struct Keys {
    layout: &'static Layout,
    turkic: bool,
}

impl Keys {
    fn has(&self, cluster: &str) -> bool {
        cluster.chars().any(|c| self.layout.beside(c, self.turkic).is_some())
    }

    /// Whether the next letter of the word has a key and differs.
    fn exchanges(&self, text: &Text<'_>, at: usize, word: &Word) -> bool {
        at + 1 < word.pieces.end
            && text.is(Some(at + 1), Class::Letter)
            && text.cluster(at + 1) != text.cluster(at)
            && self.has(text.cluster(at + 1))
    }

    /// A cluster in which one character is that of a neighbouring key. The accent of a wrong letter
    /// is missing.
    fn wrong(&self, cluster: &str, pick: &mut Pick, out: &mut String) {
        let keys = cluster
            .chars()
            .filter(|c| self.layout.beside(*c, self.turkic).is_some())
            .count();
        let mut chosen = pick.below(keys.max(1));
        let mut replaced = false;
        for c in cluster.chars() {
            match self.layout.beside(c, self.turkic) {
                Some(beside) if chosen == 0 && !replaced => {
                    out.extend(pick.of(beside).map(|other| in_case_of(*other, c, self.turkic)));
                    replaced = true;
                }
                Some(_) => {
                    chosen = chosen.saturating_sub(1);
                    out.push(c);
                }
                None if replaced && ('\u{300}'..='\u{36f}').contains(&c) => {}
                None => out.push(c),
            }
        }
    }

    /// A cluster, and the letter of a neighbouring key before or after it.
    fn further(&self, cluster: &str, pick: &mut Pick, out: &mut String) {
        let letter = cluster.chars().next().filter(|c| !is_mark(*c));
        let beside = letter.and_then(|c| Some((c, self.layout.beside(c, self.turkic)?)));
        let Some((c, beside)) = beside else {
            return self.wrong(cluster, pick, out);
        };
        let other = pick.of(beside).map(|other| in_case_of(*other, c, self.turkic));
        if pick.below(2) == 0 {
            out.extend(other);
            out.push_str(cluster);
        } else {
            out.push_str(cluster);
            out.extend(other);
        }
    }
}

fn syllables(text: &Text<'_>, layout: &Layout, draft: &mut Draft<'_>) {
    for (at, ..) in text.letters() {
        let mut characters = text.cluster(at).chars();
        let (Some(c), None) = (characters.next(), characters.next()) else {
            continue;
        };
        if !hangul::is_syllable(c) || !hangul::has_variant(c, layout.neighbours()) {
            continue;
        }
        if let Some(mut pick) = draft.unit() {
            let replaced = hangul::replaced(c, layout.neighbours(), true, &mut pick);
            draft.replace(text.range(at)).push(replaced.unwrap_or(c));
        }
    }
}
