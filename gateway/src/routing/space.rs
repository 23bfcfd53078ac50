//! Checks whether two providers answer in one vector space, and whether a provider still answers in
//! its original space.
//!
//! The provider's own report about its space is compared first: the digest of its weights and its
//! pipeline. Then the vectors of a few fixed texts are compared, because most APIs report no
//! digests.

use isomer_adapters::check;
use isomer_proto::common::v1::VectorSpace;
use isomer_service_kit::Fault;

use serde::{Deserialize, Serialize};

use super::replica::Replica;

/// A provider's vectors of the fixed texts for an encoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    identity: Identity,
    vectors: check::Fingerprint,
}

/// The facts about the model in a vector space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    weights: String,
    /// Empty if the provider does not report it, as in older versions.
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

    /// Whether the provider reports its weights. If so, each answer shows a change.
    pub(super) fn is_reported(&self) -> bool {
        !self.weights.is_empty()
    }

    /// How an answer's model differs from this one, in words; `None` if it does not differ, or if
    /// one of them has no report.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        // Pipeline names are comparable only together with digests. Without a digest, the gateway
        // has made the names up.
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
    /// Fetches the vectors of the fixed texts from a provider.
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

    /// How two providers' spaces differ, in words; `None` if they are the same.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        self.identity
            .differs(&other.identity)
            .or_else(|| self.vectors.agrees(&other.vectors).err())
    }
}
