//! How the meaning of a text is changed, and how a change compares with a rewrite.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the meaning of a text is changed: by rules of this service, or by a transformation of the
/// transform service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A negation put in or taken out.
    Negation,
    /// A number changed to another of like size and format.
    Number,
    /// A word exchanged for its opposite.
    Antonym,
    /// A named entity exchanged for another of its type from the same data set.
    Entity,
    /// Words and names of one kind change places (transformation `multi_swap`, English, no
    /// generator).
    MultiSwap,
    /// Texts that look alike and mean something else, written by the run's generator
    /// (transformation `distractors`).
    Distractors,
}

isomer_names::names!(Kind {
    Negation = "negation", Number = "number", Antonym = "antonym", Entity = "entity", MultiSwap = "multi_swap",
    Distractors = "distractors"
});

impl Kind {
    /// The kinds of a run that names none: those made by rules of this service.
    pub const DEFAULT: [Self; 4] = [Self::Negation, Self::Number, Self::Antonym, Self::Entity];

    pub fn title(self) -> &'static str {
        match self {
            Self::Negation => "Negation added or removed",
            Self::Number => "Number changed",
            Self::Antonym => "Word exchanged for its opposite",
            Self::Entity => "Name exchanged for another",
            Self::MultiSwap => "Words change places",
            Self::Distractors => "Look-alikes written by the generator",
        }
    }

    /// Whether the transform service makes the copies.
    pub fn is_asked_for(self) -> bool {
        matches!(self, Self::MultiSwap | Self::Distractors)
    }

    /// Whether a generator makes the copies.
    pub fn needs_generator(self) -> bool {
        self == Self::Distractors
    }
}

/// How many words the changed copy shares with the rewrite, against the text (Jaccard).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stratum {
    /// More than the text does: overlap speaks against separation.
    More,
    /// As many.
    Alike,
    /// Fewer: overlap alone would separate.
    Fewer,
}

impl Stratum {
    pub const ALL: [Self; 3] = [Self::More, Self::Alike, Self::Fewer];

    pub fn title(self) -> &'static str {
        match self {
            Self::More => "the change keeps more words",
            Self::Alike => "alike",
            Self::Fewer => "the change keeps fewer words",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_default_kind_costs_a_call_to_a_generator() {
        for kind in Kind::DEFAULT {
            assert!(!kind.is_asked_for() && !kind.needs_generator(), "{kind:?}");
        }
        assert_eq!(Kind::ALL[..4], Kind::DEFAULT);
    }
}
