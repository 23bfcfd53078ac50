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
    ($($(#[$doc:meta])* $channel:ident, $name:literal, $noise:expr;)*) => {
        /// A kind of noise.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Channel {
            $($(#[$doc])* $channel,)*
        }

        impl Channel {
            /// All channels.
            pub const ALL: &'static [Self] = &[$(Self::$channel),*];

            /// A stable name, which also seeds the channel's draws.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$channel => $name,)*
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
    /// Typing errors. Unit: a letter that has a key.
    Keyboard, "keyboard", keyboard::Typos;
    /// Errors of optical character recognition. Unit: a letter, or two, with a similar shape.
    Ocr, "ocr", ocr::Ocr;
    /// Words in other letter case. Unit: a word.
    Case, "case", case::Case;
    /// Spaces lost between words and added in words. Unit: a gap, and a word of four letters or
    /// more.
    Spacing, "spacing", spacing::Spacing;
    /// Punctuation lost, exchanged and added. Unit: a mark, and a gap between words.
    Punctuation, "punctuation", punctuation::Punctuation;
    /// Accents and vowel marks left out. Unit: a letter with a mark.
    Diacritics, "diacritics", diacritics::Diacritics;
    /// Letters of another script that look the same. Unit: a letter that has one.
    Homoglyphs, "homoglyphs", homoglyphs::Homoglyphs;
    /// The end of the text is missing. Unit: a word; a letter where words have no spaces.
    Truncation, "truncation", truncation::Truncation;
    /// Words in English; English texts have words in Spanish. Unit: a word of the lexicon.
    CodeSwitching, "code_switching", code_switching::CodeSwitching;
}

impl Channel {
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|channel| channel.name() == name)
    }
}
