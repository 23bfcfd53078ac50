//! Keyboards: the keys beside each key.
//!
//! `layouts` has the rows of letters. Two keys are neighbours if their centres are at most 1.25
//! keys apart on a keyboard whose rows are offset as ISO/IEC 9995-2 draws them. A key's other level
//! is a neighbour where a layout has letters on both: Shift was missed.

mod layouts;

use std::sync::LazyLock;

use crate::{
    cells::Cells,
    language::Keyboard,
    letters::{base, is_mark, lower, upper},
};

/// Where rows begin, in keys right of the first key of the upper row of letters: digits, upper,
/// home and lower row.
const OFFSETS: [f64; 4] = [-0.5, 0.0, 0.25, 0.75];

/// The letters beside each letter.
pub(crate) struct Layout {
    neighbours: Cells<Vec<char>>,
}

/// The layout of a keyboard; `None` if its keys are not letters.
pub(crate) fn layout(keyboard: Keyboard) -> Option<&'static Layout> {
    static LAYOUTS: LazyLock<Vec<(Keyboard, Layout)>> = LazyLock::new(|| {
        let mut all: Vec<_> = layouts::ROWS
            .iter()
            .map(|(keyboard, levels)| (*keyboard, Layout::of_levels(levels)))
            .collect();
        for (_, layout) in all.iter_mut().filter(|(keyboard, _)| *keyboard == Keyboard::InScript) {
            layout.add_indic_scripts();
        }
        all
    });
    LAYOUTS
        .iter()
        .find(|(own, _)| *own == keyboard)
        .map(|(_, layout)| layout)
}

/// Letters replace letters and signs signs, so that no sign is left without its letter. In Thai the
/// vowels that are letters replace each other.
fn kind(c: char) -> u8 {
    match c {
        'ะ' | 'า' | 'ำ' | 'เ'..='ไ' => 2,
        _ => u8::from(is_mark(c)),
    }
}

impl Layout {
    fn of_levels(levels: &[[&str; 4]]) -> Self {
        let mut keys = Vec::new();
        for (level, rows) in levels.iter().enumerate() {
            for (row, (letters, offset)) in rows.iter().zip(OFFSETS).enumerate() {
                let placed = (0_i32..).zip(letters.chars()).filter(|(_, letter)| *letter != '_');
                keys.extend(placed.map(|(column, letter)| (level, row, offset + f64::from(column), letter)));
            }
        }
        let mut layout = Self {
            neighbours: Cells::default(),
        };
        for (level, row, x, letter) in &keys {
            let own = layout.neighbours.entry(*letter);
            for (other_level, other_row, other_x, other) in &keys {
                let (across, down) = ((x - other_x).abs(), row.abs_diff(*other_row));
                let beside = level == other_level && (down == 0 && across <= 1.0 || down == 1 && across <= 0.75);
                let shifted = level != other_level && down == 0 && across == 0.0;
                if (beside || shifted) && other != letter && kind(*other) == kind(*letter) {
                    own.push(*other);
                }
            }
        }
        layout
    }

    /// InScript has the same sound on the same key in every script of India. The blocks of Unicode
    /// have the same order (that of ISCII), so a letter is found by its distance from Devanagari.
    fn add_indic_scripts(&mut self) {
        let devanagari: Vec<(char, Vec<char>)> = ('\u{900}'..='\u{94d}')
            .filter_map(|c| Some((c, self.neighbours.get(c)?.clone())))
            .collect();
        for block in 1..=8 {
            let moved = |c: char| {
                let c = char::from_u32(c as u32 + block * 0x80)?;
                // An unassigned code point is not alphabetic; the virama is not either.
                (c.is_alphabetic() || c as u32 & 0x7f == 0x4d).then_some(c)
            };
            for (c, neighbours) in &devanagari {
                if let Some(c) = moved(*c) {
                    self.neighbours
                        .entry(c)
                        .extend(neighbours.iter().filter_map(|c| moved(*c)));
                }
            }
        }
    }

    /// The letters beside a letter, in small letters; those of its letter without accent if the
    /// letter has no key.
    pub(crate) fn beside(&self, c: char, turkic: bool) -> Option<&[char]> {
        let small = lower(c, turkic);
        let found = self
            .neighbours
            .get(small)
            .or_else(|| self.neighbours.get(base(small)))?;
        (!found.is_empty()).then_some(found)
    }

    /// All neighbours, for keys that are jamo.
    pub(crate) fn neighbours(&self) -> &Cells<Vec<char>> {
        &self.neighbours
    }
}

/// A letter in the case of another.
pub(crate) fn in_case_of(letter: char, model: char, turkic: bool) -> char {
    if lower(model, turkic) == model {
        letter
    } else {
        upper(letter, turkic)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;
    use crate::language::Language;

    fn beside(keyboard: Keyboard, c: char) -> String {
        let mut all = layout(keyboard).unwrap().beside(c, false).unwrap().to_vec();
        all.sort_unstable();
        all.into_iter().collect()
    }

    #[test]
    fn neighbours_are_the_keys_that_touch_a_key() {
        for (keyboard, key, expected) in [
            (Keyboard::Qwerty, 's', "adewxz"),
            (Keyboard::Qwerty, 'Q', "aw"),
            (Keyboard::Qwertz, 'z', "ghtu"),
            (Keyboard::Qwertz, 'ß', "pü"),
            (Keyboard::Azerty, 'a', "qzé"),
            (Keyboard::Azerty, 'ê', "drsz"),
            (Keyboard::Turkish, 'ş', "ilpğç"),
            (Keyboard::Russian, 'й', "фц"),
            (Keyboard::Greek, 'ά', "σςζ"),
            (Keyboard::Hebrew, 'ש', "דז"),
        ] {
            let found: HashSet<char> = beside(keyboard, key).chars().collect();
            assert_eq!(found, expected.chars().collect(), "{keyboard:?} {key}");
        }
    }

    #[test]
    fn neighbours_are_mutual_and_no_letter_is_on_a_layout_twice() {
        for (keyboard, levels) in layouts::ROWS {
            let letters: Vec<char> = levels
                .iter()
                .flatten()
                .flat_map(|row| row.chars())
                .filter(|c| *c != '_')
                .collect();
            let distinct: HashSet<char> = letters.iter().copied().collect();
            assert_eq!(distinct.len(), letters.len(), "{keyboard:?}");
            let layout = layout(*keyboard).unwrap();
            for letter in letters {
                for other in layout.neighbours.get(letter).unwrap() {
                    assert!(
                        layout.neighbours.get(*other).unwrap().contains(&letter),
                        "{keyboard:?} {letter} {other}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_keyboard_of_a_language_has_a_layout_or_a_reason() {
        for language in Language::all() {
            let none = matches!(language.keyboard(), Keyboard::InputMethod | Keyboard::Unknown);
            assert_eq!(layout(language.keyboard()).is_none(), none, "{}", language.code());
        }
    }

    #[test]
    fn in_script_has_the_letters_of_every_indic_script() {
        for (from, to) in [
            ('क', 'ख'),
            ('ক', 'খ'),
            ('ક', 'ખ'),
            ('ਕ', 'ਖ'),
            ('କ', 'ଖ'),
            ('క', 'ఖ'),
            ('ಕ', 'ಖ'),
            ('ക', 'ഖ'),
        ] {
            assert!(beside(Keyboard::InScript, from).contains(to), "{from}");
        }
        // Tamil has no aspirated letters.
        assert_eq!(
            beside(Keyboard::InScript, 'க')
                .chars()
                .filter(|c| !c.is_alphabetic())
                .count(),
            0
        );
    }
}
