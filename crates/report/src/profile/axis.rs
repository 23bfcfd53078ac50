//! What a transformation varies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Axis of a transformation (HTEB), and the controls beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Words and style.
    Lexical,
    /// Length.
    Length,
    /// Language.
    Language,
    /// Controls and augmentations: shown, but no part of the total.
    Augmentation,
    /// Errors in the text at a dose: shown, but no part of the total.
    Noise,
}

impl Axis {
    /// Every axis, in the order of the tables.
    pub const ALL: [Self; 5] = [
        Self::Lexical,
        Self::Length,
        Self::Language,
        Self::Augmentation,
        Self::Noise,
    ];

    /// Short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Length => "length",
            Self::Language => "language",
            Self::Augmentation => "augmentation",
            Self::Noise => "noise",
        }
    }

    /// As a heading, with the short name in brackets where it is another word.
    pub fn title(self) -> &'static str {
        match self {
            Self::Lexical => "Words and style (lexical)",
            Self::Length => "Length",
            Self::Language => "Language",
            Self::Augmentation => "Controls (augmentation)",
            Self::Noise => "Noise",
        }
    }

    /// Whether the axis counts towards the total (HTEB's three).
    pub fn in_total(self) -> bool {
        matches!(self, Self::Lexical | Self::Length | Self::Language)
    }
}
