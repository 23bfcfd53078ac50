//! Axes along which transformations vary a text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Axis of a transformation (HTEB), and the controls beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Words and style.
    Lexical,
    /// The length of the text.
    Length,
    /// The language of the text.
    Language,
    /// Controls and augmentations: shown, but not included in the total.
    Augmentation,
    /// Errors in the text at a dose: shown, but not included in the total.
    Noise,
    /// Another meaning: never scored with a data set's labels.
    #[serde(skip)]
    Adversarial,
}

isomer_names::names!(Axis {
    Lexical = "lexical", Length = "length", Language = "language", Augmentation = "augmentation",
    Noise = "noise", Adversarial = "adversarial"
});

impl Axis {
    /// The axes on which a data set can be scored, in the order of the tables.
    pub const SCORED: [Self; 5] = [
        Self::Lexical,
        Self::Length,
        Self::Language,
        Self::Augmentation,
        Self::Noise,
    ];

    /// As a heading, with the short name in brackets where it is another word.
    pub fn title(self) -> &'static str {
        match self {
            Self::Lexical => "Words and style (lexical)",
            Self::Length => "Length",
            Self::Language => "Language",
            Self::Augmentation => "Controls (augmentation)",
            Self::Noise => "Noise",
            Self::Adversarial => "Other meaning (adversarial)",
        }
    }

    /// Whether the axis counts towards the total (HTEB's three).
    pub fn in_total(self) -> bool {
        matches!(self, Self::Lexical | Self::Length | Self::Language)
    }
}
