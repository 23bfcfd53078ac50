//! Vector spaces: the properties that vectors must share to be compared.

use isomer_proto::common::v1 as common;
use serde::{Deserialize, Serialize};

/// Properties that vectors must share to be compared; see the message of that name for each field.
/// Store it beside an index, e.g. as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct VectorSpace {
    pub digest: String,
    pub model_id: String,
    pub weights_digest: String,
    pub prompt: String,
    pub pooling: String,
    pub normalised: bool,
    pub dimensions: u32,
    pub dtype: i32,
    pub augmentation: String,
    pub quantisation: String,
    pub settings_digest: String,
}

impl From<common::VectorSpace> for VectorSpace {
    fn from(space: common::VectorSpace) -> Self {
        Self {
            digest: space.digest,
            model_id: space.model_id,
            weights_digest: space.weights_digest,
            prompt: space.prompt,
            pooling: space.pooling,
            normalised: space.normalised,
            dimensions: space.dimensions,
            dtype: space.dtype,
            augmentation: space.augmentation,
            quantisation: space.quantisation,
            settings_digest: space.settings_digest,
        }
    }
}

impl VectorSpace {
    /// Names of the fields that differ, the digest last, which follows from the others.
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let fields = self.compared(other).into_iter();
        let mut names: Vec<_> = fields.map(|(name, ..)| name).collect();
        if self.digest != other.digest {
            names.push("digest");
        }
        names
    }

    /// Whether vectors of the two may be compared: one space, or two that differ in the prompt
    /// alone.
    pub fn compares_with(&self, other: &Self) -> bool {
        self.digest == other.digest || self.compared(other).iter().all(|(name, ..)| *name == "prompt")
    }

    /// The fields that differ but the digest, with both values.
    pub(crate) fn compared(&self, other: &Self) -> Vec<(&'static str, String, String)> {
        let text = |value: &str| format!("`{value}`");
        let fields = [
            ("model_id", text(&self.model_id), text(&other.model_id)),
            (
                "weights_digest",
                text(&self.weights_digest),
                text(&other.weights_digest),
            ),
            ("prompt", text(&self.prompt), text(&other.prompt)),
            ("pooling", text(&self.pooling), text(&other.pooling)),
            ("normalised", self.normalised.to_string(), other.normalised.to_string()),
            ("dimensions", self.dimensions.to_string(), other.dimensions.to_string()),
            ("dtype", self.dtype.to_string(), other.dtype.to_string()),
            ("augmentation", text(&self.augmentation), text(&other.augmentation)),
            ("quantisation", text(&self.quantisation), text(&other.quantisation)),
            (
                "settings_digest",
                text(&self.settings_digest),
                text(&other.settings_digest),
            ),
        ];
        fields.into_iter().filter(|(_, ours, theirs)| ours != theirs).collect()
    }
}
