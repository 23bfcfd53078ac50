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

    /// The precision that a server of another kind reports, if it is not that of 32-bit floats.
    fn precision(&self) -> Option<&str> {
        let (precision, _) = self.pipeline.split_once(">provider")?;
        Some(precision)
    }

    /// Whether the server reports its weights and settings and computes in 32-bit floats. The first
    /// step of a pipeline in another precision names its bits, for example `bf16`.
    fn is_in_f32(&self) -> bool {
        let first = self.pipeline.split('>').next().unwrap_or_default();
        !self.weights.is_empty() && !self.settings.is_empty() && !first.contains(|c: char| c.is_ascii_digit())
    }

    /// How an answer's model differs from this one, in words; `None` if it does not differ, or if
    /// one of them has no report.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        // Pipeline names are comparable only together with digests. Without a digest, the gateway
        // has made the names up, except for the precision in front.
        if self.weights.is_empty() || other.weights.is_empty() {
            let (one, two) = self.precision().zip(other.precision())?;
            return (one != two).then(|| format!("arithmetic `{one}` and `{two}`"));
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
        let in_f32 = self.identity.is_in_f32() && other.identity.is_in_f32();
        let agrees = || match in_f32 {
            true => self.vectors.agrees_in_f32(&other.vectors),
            false => self.vectors.agrees(&other.vectors),
        };
        self.identity.differs(&other.identity).or_else(|| agrees().err())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fingerprint whose vectors have this cosine with those of cosine 1.
    fn fingerprint([weights, settings, pipeline]: [&str; 3], cosine: f32) -> Fingerprint {
        Fingerprint {
            identity: Identity {
                weights: weights.to_owned(),
                settings: settings.to_owned(),
                pipeline: pipeline.to_owned(),
            },
            vectors: check::Fingerprint::of_rows(vec![vec![cosine, (1.0 - cosine * cosine).sqrt()]]),
        }
    }

    #[test]
    fn replicas_in_f32_must_agree_more_closely_than_others() {
        for (identity, cosine, same) in [
            (["w", "s", "mean"], 0.999_995, true),
            (["w", "s", "mean"], 0.999_95, false),
            (["w", "s", "bf16-linear>mean"], 0.999_95, true),
            (["w", "s", "int8-8x7>mean"], 0.999_95, true),
            (["w", "s", "bf16-linear>mean"], 0.999, false),
            (["w", "", "mean"], 0.999_95, true),
            (["", "", "provider"], 0.999_95, true),
            (["", "", "provider"], 0.999, false),
        ] {
            let differs = fingerprint(identity, 1.0).differs(&fingerprint(identity, cosine));
            assert_eq!(differs.is_none(), same, "{identity:?} {cosine}: {differs:?}");
        }
    }

    #[test]
    fn replicas_of_another_precision_are_of_another_space_even_if_their_vectors_agree() {
        for (one, other, same) in [
            (["w", "s", "mean"], ["w", "s", "bf16-linear>mean"], false),
            (["", "", "float16>provider"], ["", "", "bfloat16>provider"], false),
            (["", "", "float16>provider"], ["", "", "float16>provider"], true),
            // A server that reports no precision may have either.
            (["", "", "float16>provider"], ["", "", "provider"], true),
        ] {
            let differs = fingerprint(one, 1.0).differs(&fingerprint(other, 1.0));
            assert_eq!(differs.is_none(), same, "{one:?} {other:?}: {differs:?}");
        }
    }
}
