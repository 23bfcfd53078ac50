//! Hangul syllables as jamo (The Unicode Standard, section 3.12).

use crate::{cells::Cells, draft::Pick};

const FIRST: u32 = 0xAC00;
const LAST: u32 = 0xD7A3;
const VOWELS: u32 = 21;
const FINALS: u32 = 28;

/// Compatibility jamo of the initial consonants, vowels and final consonants, in the order of the
/// syllables.
const INITIAL: [char; 19] = [
    'ㄱ', 'ㄲ', 'ㄴ', 'ㄷ', 'ㄸ', 'ㄹ', 'ㅁ', 'ㅂ', 'ㅃ', 'ㅅ', 'ㅆ', 'ㅇ', 'ㅈ', 'ㅉ', 'ㅊ', 'ㅋ', 'ㅌ', 'ㅍ', 'ㅎ',
];
const VOWEL: [char; 21] = [
    'ㅏ', 'ㅐ', 'ㅑ', 'ㅒ', 'ㅓ', 'ㅔ', 'ㅕ', 'ㅖ', 'ㅗ', 'ㅘ', 'ㅙ', 'ㅚ', 'ㅛ', 'ㅜ', 'ㅝ', 'ㅞ', 'ㅟ', 'ㅠ', 'ㅡ',
    'ㅢ', 'ㅣ',
];
/// A space stands for a syllable without a final consonant.
const FINAL: [char; 28] = [
    ' ', 'ㄱ', 'ㄲ', 'ㄳ', 'ㄴ', 'ㄵ', 'ㄶ', 'ㄷ', 'ㄹ', 'ㄺ', 'ㄻ', 'ㄼ', 'ㄽ', 'ㄾ', 'ㄿ', 'ㅀ', 'ㅁ', 'ㅂ', 'ㅄ',
    'ㅅ', 'ㅆ', 'ㅇ', 'ㅈ', 'ㅊ', 'ㅋ', 'ㅌ', 'ㅍ', 'ㅎ',
];

/// Whether a character is a whole syllable.
pub(crate) fn is_syllable(c: char) -> bool {
    (FIRST..=LAST).contains(&(c as u32))
}

/// Syllables that differ from one in one jamo, which is replaced by one of its options; the
/// syllable without its final consonant too, if `omit`.
fn variants(syllable: char, options: &Cells<Vec<char>>, omit: bool) -> impl Iterator<Item = char> {
    let index = syllable as u32 - FIRST;
    let parts = [index / (VOWELS * FINALS), index / FINALS % VOWELS, index % FINALS];
    let with = move |part: usize, to: usize| {
        let mut parts = parts;
        parts[part] = to as u32;
        char::from_u32(FIRST + (parts[0] * VOWELS + parts[1]) * FINALS + parts[2])
    };
    let jamo: [&[char]; 3] = [&INITIAL, &VOWEL, &FINAL];
    let replaced = jamo.into_iter().enumerate().flat_map(move |(part, jamo)| {
        let own = jamo.get(parts[part] as usize).copied().unwrap_or(' ');
        let options = options.get(own).map_or(&[][..], Vec::as_slice);
        let positions = options
            .iter()
            .filter_map(move |option| jamo.iter().position(|jamo| jamo == option));
        positions.filter_map(move |to| with(part, to))
    });
    replaced.chain((omit && parts[2] > 0).then(|| with(2, 0)).flatten())
}

/// Whether [`replaced`] has an answer.
pub(crate) fn has_variant(syllable: char, options: &Cells<Vec<char>>) -> bool {
    variants(syllable, options, false).next().is_some()
}

/// A syllable in which one jamo is replaced by one of its options, or the final consonant left out
/// if `omit`.
pub(crate) fn replaced(syllable: char, options: &Cells<Vec<char>>, omit: bool, pick: &mut Pick) -> Option<char> {
    pick.of(&variants(syllable, options, omit).collect::<Vec<_>>()).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_jamo_is_replaced_and_the_syllable_composed_again() {
        let mut options: Cells<Vec<char>> = Cells::default();
        options.entry('ㅎ').push('ㅇ');
        options.entry('ㅏ').push('ㅓ');
        // ㄸ is not a final consonant.
        options.entry('ㄴ').extend(['ㄷ', 'ㄸ']);
        let found: Vec<char> = variants('한', &options, true).collect();
        assert_eq!(found, ['안', '헌', '핟', '하']);
        assert!(!has_variant('쀼', &options));
    }
}
