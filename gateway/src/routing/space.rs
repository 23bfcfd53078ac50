//! Whether two providers answer in one vector space, and whether one still answers in the space that it began with.
//!
//! What a provider says of its space is compared first: the digest of its weights and its pipeline. Servers that know no digests (most APIs)
//! are asked for the vectors of three fixed texts.

use std::time::Duration;

use isomer_adapters::EncoderBackend;
use isomer_proto::{
    common::v1::{Dtype, VectorSpace},
    encoder::v1::{EncodeRequest, Input, encode_request::Prompt, input},
};
use isomer_service_kit::Fault;
use tokio::time::{Instant, timeout};

/// Texts of two scripts and lengths: a server with another tokenizer, pooling or prompt gives other vectors for at least one.
const PROBES: [&str; 3] = [
    "The committee postponed its decision until the second week of March.",
    "Wasser kocht auf Meereshöhe bei 100 °C.",
    "a",
];
/// Least cosine between the vectors that two servers of one model give for a text. Half precision and other kernels differ from the
/// fifth decimal on; other weights in the first.
const SAME: f64 = 0.999;
/// Longest wait for the probes: a model may have to be loaded first.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a provider's vectors for an encoder look like.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fingerprint {
    identity: Identity,
    vectors: Vec<Vec<f32>>,
}

/// What a vector space says of its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    weights: String,
    pipeline: String,
    dimensions: u32,
}

impl Identity {
    pub(super) fn of(space: &VectorSpace) -> Self {
        Self {
            weights: space.weights_digest.clone(),
            // A request may ask for unit length, which is one step more of the same model.
            pipeline: space.pooling.trim_end_matches(">normalize").to_owned(),
            // Left out where the request chose: an answer of fewer dimensions is of the same model.
            dimensions: 0,
        }
    }

    /// How an answer's model differs from this one, in words; absent where it does not, or where one of them does not say.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        if !self.weights.is_empty() && !other.weights.is_empty() && self.weights != other.weights {
            return Some(format!(
                "weights {} and {}",
                short(&self.weights),
                short(&other.weights)
            ));
        }
        // Pipelines have names only where one implementation gave them both.
        if !self.weights.is_empty() && !other.weights.is_empty() && self.pipeline != other.pipeline {
            return Some(format!("pipelines `{}` and `{}`", self.pipeline, other.pipeline));
        }
        None
    }
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

impl Fingerprint {
    /// Asks a provider for the probes' vectors.
    pub(super) async fn take(backend: &dyn EncoderBackend, encoder_id: &str) -> Result<Self, Fault> {
        let text = |text: &&str| Input {
            input: Some(input::Input::Text((*text).to_owned())),
        };
        let request = EncodeRequest {
            encoder_id: encoder_id.to_owned(),
            inputs: PROBES.iter().map(text).collect(),
            prompt: Some(Prompt::LiteralPrompt(String::new())),
            output_dtype: Dtype::F32.into(),
            ..EncodeRequest::default()
        };
        let asked = backend.encode(request.clone(), Some(Instant::now() + PATIENCE));
        let late = |_| {
            Fault::unavailable(
                "PROBE_TIMEOUT",
                format!("no vectors for the probes within {} s", PATIENCE.as_secs()),
            )
        };
        let answer = match timeout(PATIENCE, asked).await.map_err(late)? {
            // A server that knows named input types only has no empty prompt: its default one is as good for comparison.
            Err(fault) if fault.code == tonic::Code::InvalidArgument || fault.code == tonic::Code::Unimplemented => {
                let plain = EncodeRequest {
                    prompt: None,
                    ..request
                };
                timeout(PATIENCE, backend.encode(plain, Some(Instant::now() + PATIENCE)))
                    .await
                    .map_err(late)??
            }
            answered => answered?,
        };
        let matrix = answer.embeddings.unwrap_or_default();
        let width = matrix.cols as usize * 4;
        if matrix.dtype() != Dtype::F32 || width == 0 || matrix.data.len() != width * PROBES.len() {
            return Err(Fault::precondition(
                "PROBE_MISSHAPEN",
                format!(
                    "{} bytes of vectors for {} probes of {} columns",
                    matrix.data.len(),
                    PROBES.len(),
                    matrix.cols
                ),
            ));
        }
        let row = |bytes: &[u8]| {
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|value| f32::from_le_bytes(*value))
                .collect()
        };
        let mut identity = Identity::of(&answer.vector_space.unwrap_or_default());
        identity.dimensions = matrix.cols;
        Ok(Self {
            identity,
            vectors: matrix.data.chunks_exact(width).map(row).collect(),
        })
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How two providers' spaces differ, in words; absent when they are one.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        if let Some(difference) = self.identity.differs(&other.identity) {
            return Some(difference);
        }
        let (ours, theirs) = (self.identity.dimensions, other.identity.dimensions);
        if ours != theirs {
            return Some(format!("{ours} and {theirs} dimensions"));
        }
        let cosines = self.vectors.iter().zip(&other.vectors).map(|(a, b)| cosine(a, b));
        let least = cosines.fold(f64::INFINITY, f64::min);
        // A cosine that is no number is no likeness.
        (least.is_nan() || least < SAME).then(|| format!("vectors of a probe text with a cosine of {least:.4}"))
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    // f64::min passes over NaN, so no zero vector may become one.
    if norms > 0.0 { dot(a, b) / norms } else { -1.0 }
}
