//! Checks whether two providers answer in one vector space, and whether a provider still answers in
//! the space that it began with.
//!
//! What a provider reports about its space is compared first: the digest of its weights and its
//! pipeline. Then the vectors of a few fixed texts are compared, because most APIs report no
//! digests.

use isomer_adapters::check;
use isomer_proto::common::v1::VectorSpace;
use isomer_service_kit::Fault;

use serde::{Deserialize, Serialize};

use super::replica::Replica;

/// What a provider's vectors for an encoder look like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    identity: Identity,
    vectors: check::Fingerprint,
}

/// What a vector space says of its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    weights: String,
    /// Empty where the provider does not report it, as older ones.
    #[serde(default)]
    settings: String,
    pipeline: String,
}

impl Identity {
    pub(super) fn of(space: &VectorSpace) -> Self {
        Self {
            weights: space.weights_digest.clone(),
            settings: space.settings_digest.clone(),
            // A request may ask for unit length, which adds one step to the same model.
            pipeline: space.pooling.trim_end_matches(">normalize").to_owned(),
        }
    }

    /// Whether the provider reports its weights, so that each answer shows a change.
    pub(super) fn is_reported(&self) -> bool {
        !self.weights.is_empty()
    }

    /// How an answer's model differs from this one, in words; absent where it does not, or where
    /// one of them does not say.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        // Names of pipelines are comparable only together with digests: without a digest, the
        // gateway has made them up.
        if self.weights.is_empty() || other.weights.is_empty() {
            return None;
        }
        if self.weights != other.weights {
            return Some(format!(
                "weights {} and {}",
                short(&self.weights),
                short(&other.weights)
            ));
        }
        let both_report = !self.settings.is_empty() && !other.settings.is_empty();
        if both_report && self.settings != other.settings {
            return Some(format!(
                "settings {} and {} (configuration, tokenizer or maximum length)",
                short(&self.settings),
                short(&other.settings)
            ));
        }
        (self.pipeline != other.pipeline).then(|| format!("pipelines `{}` and `{}`", self.pipeline, other.pipeline))
    }
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

impl Fingerprint {
    /// Asks a provider for the vectors of the fixed texts.
    pub(super) async fn take(replica: &Replica, encoder_id: &str) -> Result<Self, Fault> {
        let (vectors, space) = check::fingerprint(&*replica.backend, encoder_id, &replica.check).await?;
        Ok(Self {
            identity: Identity::of(&space),
            vectors,
        })
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How two providers' spaces differ, in words; absent when they are one.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        self.identity
            .differs(&other.identity)
            .or_else(|| self.vectors.agrees(&other.vectors).err())
    }
}
