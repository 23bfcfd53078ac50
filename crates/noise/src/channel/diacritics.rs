//! Accents and vowel marks left out, as by writers without the keyboard for them.
//!
//! Eligible unit: a letter with a mark that writers leave out.
//!
//! * Latin and Greek: all marks of a letter, by canonical decomposition, and the strokes and dots
//!   of ł, ø, đ, ħ, ı and İ (R. F. Mihalcea, "Diacritics Restoration: Learning from Letters versus
//!   Learning from Words", CICLing 2002, describes such texts).
//! * Cyrillic: ё, ґ and marks of stress. й and ї are letters of their own.
//! * Arabic script: harakat, and the hamza or madda on an alif (W. Zaghouani et al., "Large Scale
//!   Arabic Error Annotation: Guidelines and Framework", LREC 2014, lists hamza errors).
//! * Hebrew: niqqud.
//! * Devanagari: the nukta of borrowed sounds (क़ ख़ ग़ ज़ फ़), which Hindi writers omit. ड़ and ढ़
//!   without it are other letters.

use crate::{
    draft::Draft,
    language::{Language, Script},
    letters::base,
    noise::{Noise, NotApplicable},
    text::Text,
};

pub(super) struct Diacritics;

impl Noise for Diacritics {
    fn refusal(&self, language: Language) -> Option<NotApplicable> {
        let marked = matches!(
            language.script(),
            Script::Latin | Script::Greek | Script::Cyrillic | Script::Arabic | Script::Hebrew | Script::Devanagari
        );
        (!marked).then_some(NotApplicable::NoDiacritics(language))
    }

    fn write(&self, text: &Text<'_>, _: Language, draft: &mut Draft<'_>) {
        for (at, ..) in text.letters() {
            let cluster = text.cluster(at);
            if cluster.is_ascii() || !cluster.chars().any(|c| plain(c, cluster) != Some(c)) {
                continue;
            }
            if draft.unit().is_some() {
                let plain = cluster.chars().filter_map(|c| plain(c, cluster));
                draft.replace(text.range(at)).extend(plain);
            }
        }
    }
}

/// A character of a cluster without its mark; `None` if it is such a mark.
fn plain(c: char, cluster: &str) -> Option<char> {
    match c {
        'ł' => Some('l'),
        'Ł' => Some('L'),
        'ø' => Some('o'),
        'Ø' => Some('O'),
        'đ' => Some('d'),
        'Đ' => Some('D'),
        'ħ' => Some('h'),
        'Ħ' => Some('H'),
        'ı' => Some('i'),
        'ё' => Some('е'),
        'Ё' => Some('Е'),
        'ґ' => Some('г'),
        'Ґ' => Some('Г'),
        'أ' | 'إ' | 'آ' => Some('ا'),
        // Latin and Greek, precomposed.
        '\u{c0}'..='\u{24f}' | '\u{370}'..='\u{3ff}' | '\u{1e00}'..='\u{1fff}' => Some(base(c)),
        // The marks by themselves. Of Cyrillic letters only those of stress.
        '\u{300}' | '\u{301}' => None,
        '\u{302}'..='\u{36f}' if !cluster.starts_with(['и', 'И', 'і', 'І', 'у', 'У']) => None,
        // Harakat, and the alif above.
        '\u{64b}'..='\u{652}' | '\u{670}' => None,
        // Niqqud.
        '\u{5b0}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}' => None,
        '\u{93c}' if cluster.starts_with(['क', 'ख', 'ग', 'ज', 'फ']) => None,
        '\u{958}' => Some('क'),
        '\u{959}' => Some('ख'),
        '\u{95a}' => Some('ग'),
        '\u{95b}' => Some('ज'),
        '\u{95e}' => Some('फ'),
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(cluster: &str) -> String {
        cluster.chars().filter_map(|c| plain(c, cluster)).collect()
    }

    #[test]
    fn marks_go_and_letters_of_their_own_stay() {
        for (from, to) in [
            ("é", "e"),
            ("e\u{301}", "e"),
            ("ệ", "e"),
            ("Ł", "L"),
            ("ş", "s"),
            ("İ", "I"),
            ("ώ", "ω"),
            ("ё", "е"),
            ("й", "й"),
            ("и\u{306}", "и\u{306}"),
            ("о\u{301}", "о"),
            ("بِ", "ب"),
            ("أ", "ا"),
            ("שָׁ", "ש"),
            ("ज\u{93c}", "ज"),
            ("ड\u{93c}", "ड\u{93c}"),
            ("が", "が"),
            ("æ", "æ"),
            ("ß", "ß"),
        ] {
            assert_eq!(without(from), to, "{from}");
        }
    }
}
