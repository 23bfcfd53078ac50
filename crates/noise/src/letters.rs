//! Properties and forms of letters.

use unicode_normalization::char::{decompose_canonical, is_combining_mark};

/// Scripts that are written without spaces between words: Thai, Lao, Burmese, Khmer, kana, Han.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c as u32,
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3005..=0x3007 | 0x3040..=0x30FF
        | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF)
}

/// Characters that numbers are written with in Chinese and Japanese.
const NUMERALS: &str = "〇零一二三四五六七八九十百千万萬亿億兆两兩壹贰叁肆伍陆柒捌玖拾佰仟";

/// Digits and other numerals, Han numerals included.
pub(crate) fn is_number(c: char) -> bool {
    match c {
        _ if c.is_ascii() => c.is_ascii_digit(),
        '\u{3007}'..='\u{9FFF}' => c.is_numeric() || NUMERALS.contains(c),
        _ => c.is_numeric(),
    }
}

/// Whether letters have two cases, of which both are in use. Georgian capitals are not.
pub(crate) fn is_cased(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    !matches!(c as u32, 0x10A0..=0x10FF | 0x1C90..=0x1CBF) && (upper(c, false) != c || lower(c, false) != c)
}

/// The capital of a letter; the letter itself if it has none or several (ß). Turkish has a dotted
/// and a dotless i.
pub(crate) fn upper(c: char, turkic: bool) -> char {
    if turkic && c == 'i' {
        return 'İ';
    }
    if c.is_ascii() {
        return c.to_ascii_uppercase();
    }
    single(c.to_uppercase()).unwrap_or(c)
}

/// The small form of a letter; the letter itself if it has none.
pub(crate) fn lower(c: char, turkic: bool) -> char {
    match c {
        'I' if turkic => 'ı',
        'İ' => 'i',
        _ if c.is_ascii() => c.to_ascii_lowercase(),
        _ => single(c.to_lowercase()).unwrap_or(c),
    }
}

fn single(mut forms: impl Iterator<Item = char>) -> Option<char> {
    let first = forms.next()?;
    forms.next().is_none().then_some(first)
}

/// A letter without its marks, by canonical decomposition.
pub(crate) fn base(c: char) -> char {
    // Letters without a decomposition in frequent blocks.
    if c.is_ascii()
        || matches!(c as u32, 0x410..=0x418 | 0x41A..=0x438 | 0x43A..=0x44F | 0x5D0..=0x5EA | 0x627..=0x64A | 0x4E00..=0x9FFF)
    {
        return c;
    }
    let mut base = None;
    decompose_canonical(c, |part| {
        base.get_or_insert(part);
    });
    base.unwrap_or(c)
}

/// Marks that are written over, under or beside a letter: vowel signs included.
pub(crate) fn is_mark(c: char) -> bool {
    !c.is_ascii() && is_combining_mark(c)
}

/// Characters of frequent blocks that are in NFC wherever they stand.
pub(crate) fn is_stable(c: char) -> bool {
    matches!(c as u32,
        0..0x300 | 0x400..=0x482 | 0x48A..=0x52F | 0x5D0..=0x5EA | 0x60C..=0x60F | 0x61B..=0x64A | 0x904..=0x93B
        | 0x93E..=0x94C | 0x964..=0x96F | 0x2010..=0x2027 | 0x3001..=0x3029 | 0x3041..=0x3096 | 0x30A1..=0x30FA
        | 0x4E00..=0x9FFF | 0xAC00..=0xD7A3 | 0xFF01..=0xFF5E)
}

#[cfg(test)]
mod tests {
    use unicode_normalization::{IsNormalized, char::canonical_combining_class, is_nfc_quick};

    use super::*;

    #[test]
    fn stable_characters_are_those_that_normalisation_never_changes() {
        for c in ('\0'..='\u{ffff}').filter(|c| is_stable(*c)) {
            assert_eq!(is_nfc_quick(std::iter::once(c)), IsNormalized::Yes, "{c:?}");
            assert_eq!(canonical_combining_class(c), 0, "{c:?}");
        }
        for c in ('\0'..='\u{9fff}').filter(|c| base(*c) == *c) {
            let mut parts = Vec::new();
            decompose_canonical(c, |part| parts.push(part));
            assert_eq!(parts[0], c);
        }
    }
}
