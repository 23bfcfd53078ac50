//! The channels. Each is one file, and one line of the list.

mod case;
mod code_switching;
mod diacritics;
mod homoglyphs;
mod keyboard;
mod ocr;
mod punctuation;
mod spacing;
mod truncation;

use crate::noise::Noise;

macro_rules! channels {
    ($($(#[$doc:meta])* $channel:ident, $name:literal, $unit:literal, $languages:literal, $noise:expr;)*) => {
        /// A kind of noise.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Channel {
            $($(#[$doc])* $channel,)*
        }

        // The names also seed the draws.
        isomer_names::names!(Channel { $($channel = $name),* });

        impl Channel {
            /// The units that may change, for readers.
            pub fn unit(self) -> &'static str {
                match self {
                    $(Self::$channel => $unit,)*
                }
            }

            /// The languages of the channel, for readers.
            pub fn languages(self) -> &'static str {
                match self {
                    $(Self::$channel => $languages,)*
                }
            }

            pub(crate) fn noise(self) -> &'static dyn Noise {
                match self {
                    $(Self::$channel => &$noise,)*
                }
            }
        }
    };
}

channels! {
    /// Typing errors.
    Keyboard, "keyboard",
        "a letter that has a key: a letter of a neighbouring key, a further letter, a missing letter, two letters exchanged",
        "those with a known keyboard layout; not those that are typed through an input method",
        keyboard::Typos;
    /// Errors of optical character recognition.
    Ocr, "ocr", "a letter, or two, with a similar shape", "scripts with a table of similar shapes", ocr::Ocr;
    /// Words in other letter case.
    Case, "case", "a word", "scripts with two cases", case::Case;
    /// Spaces lost between words and added in words.
    Spacing, "spacing", "a gap between words; a word of four letters or more", "all with letters", spacing::Spacing;
    /// Punctuation lost, exchanged and added.
    Punctuation, "punctuation", "a mark; a gap between words", "all", punctuation::Punctuation;
    /// Accents and vowel marks left out.
    Diacritics, "diacritics", "a letter with an accent or a vowel mark",
        "Latin, Greek, Cyrillic, Arabic, Hebrew, Devanagari", diacritics::Diacritics;
    /// Letters of another script that look the same.
    Homoglyphs, "homoglyphs", "a letter that has a look-alike in another script", "scripts with look-alikes",
        homoglyphs::Homoglyphs;
    /// The end of the text is missing.
    Truncation, "truncation", "a word at the end; a letter where words have no spaces", "all", truncation::Truncation;
    /// Words in English; English texts have words in Spanish.
    CodeSwitching, "code_switching", "a word of the lexicon", "those with a lexicon", code_switching::CodeSwitching;
}
