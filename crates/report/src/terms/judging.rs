//! Scales of a judge, and the probes that show whether it is reliable.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Scale of the ratings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Semantic similarity of a text and its rewrite, 0 to 5 (PTEB).
    Similarity,
    /// Quality of the transformation, 1 to 5 (HTEB).
    Quality,
    /// Fluency of the transformed text, 1 to 5 (HTEB).
    Fluency,
}

isomer_names::names!(Scale { Similarity = "similarity", Quality = "quality", Fluency = "fluency" });

impl Scale {
    /// Default of the lowest rating of an accepted rewrite (HTEB's threshold for human ratings).
    pub const ACCEPT: f64 = 3.0;

    /// Lowest and highest rating.
    pub fn range(self) -> (u8, u8) {
        match self {
            Self::Similarity => (0, 5),
            Self::Quality | Self::Fluency => (1, 5),
        }
    }

    /// As a heading, e.g. `similarity, 0 to 5`.
    pub fn title(self) -> String {
        let (low, high) = self.range();
        format!("{}, {low} to {high}", self.name())
    }
}

/// Known relation between the two sides of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// Both sides are the same text.
    Identical,
    /// A person wrote one side as a paraphrase of the other.
    Paraphrase,
    /// The sides have nothing to do with each other.
    Unrelated,
}

impl ProbeKind {
    pub const ALL: [Self; 3] = [Self::Identical, Self::Paraphrase, Self::Unrelated];

    /// In words, e.g. `unrelated texts`.
    pub fn title(self) -> &'static str {
        match self {
            Self::Identical => "identical texts",
            Self::Paraphrase => "paraphrases by people",
            Self::Unrelated => "unrelated texts",
        }
    }

    /// Whether a judge should accept such a pair.
    pub fn acceptable(self) -> bool {
        self != Self::Unrelated
    }
}

/// How a judge did on the probes of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// Known relation between its two sides.
    pub kind: ProbeKind,
    /// Probes put to the judge.
    pub asked: u64,
    /// Of these, probes rated on the right side of the threshold. A probe without a rating is not.
    pub right: u64,
    /// Mean rating of those that have one.
    pub mean: Option<f64>,
}
