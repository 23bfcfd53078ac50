//! Variants, vectors and pooling in one call (GASE), with stubs for the generators and the encoder.

mod arrival;
mod encoder;
mod kept;
mod modes;
mod refusals;
mod vectors;

use std::time::Duration;

use isomer_proto::transform::v1::{
    AugmentRequest, AugmentationPooling, AugmentationSpec, Distractors, EncodeAugmentedRequest,
    EncodeAugmentedResponse, MissingReason, Noise, PartialFailurePolicy, RandomKeywords, StopwordRemoval, TextItem,
    VariantSource, augmentation_service_client::AugmentationServiceClient, transformation::Kind,
};
use isomer_proto::transform::v1::{Expansion, Paraphrase, Summarisation};
use isomer_service_kit::{Fault, GrpcChannel};
use isomer_stubs::{
    encoder::{StubEncoder, texts},
    openai::{Answer, Stub},
    rpc::channel,
};
use isomer_transform::{TransformConfig, services};
use tonic::Code;

use self::encoder::{encoder, own_space, vector};
use super::status;
use crate::support::{config, service};

type Client = AugmentationServiceClient<GrpcChannel>;

const TEXT: &str = "A man is playing the guitar on a busy street in town.";
const OTHER: &str = "Two small dogs are running over the wet grass.";

/// Services with a fast generator `stub`, a slow one `slow`, and an encoder.
struct Harness {
    home: tempfile::TempDir,
    stub: Stub,
    slow: Stub,
    encoder: StubEncoder,
    config: TransformConfig,
}

impl Harness {
    async fn new(slow: Duration) -> Self {
        Self::with(Answer::Slow(slow, Box::new(Answer::Good))).await
    }

    /// A harness in which the slow generator gives this answer.
    async fn with(slow: Answer) -> Self {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(Answer::Good).await;
        let late = Stub::start(slow).await;
        let mut config = config(&stub, home.path());
        let mut generator = config.generators["stub"].clone();
        generator.url = Some(late.url());
        config.generators.insert("slow".into(), generator);
        Self {
            home,
            stub,
            slow: late,
            encoder: encoder(false, None),
            config,
        }
    }

    async fn client(&self) -> Client {
        let service = service(self.config.clone(), self.home.path()).with_encoder(self.encoder.channel().await);
        AugmentationServiceClient::new(channel(services(service)).await)
    }
}

fn source(generator: &str, kind: Kind) -> VariantSource {
    VariantSource {
        generator_id: generator.into(),
        transformation: Some(kind.into()),
    }
}

fn paraphrase(generator: &str) -> VariantSource {
    source(generator, Kind::Paraphrase(Paraphrase {}))
}

fn without_stopwords() -> VariantSource {
    source("none", Kind::StopwordRemoval(StopwordRemoval {}))
}

fn spec(sources: impl IntoIterator<Item = VariantSource>) -> AugmentationSpec {
    AugmentationSpec {
        sources: sources.into_iter().collect(),
        ..AugmentationSpec::default()
    }
}

fn items(texts: &[&str]) -> Vec<TextItem> {
    crate::support::items(texts)
}

fn request(spec: AugmentationSpec, texts: &[&str]) -> EncodeAugmentedRequest {
    EncodeAugmentedRequest {
        spec: Some(spec),
        items: items(texts),
        encoder_id: "stub".into(),
        ..EncodeAugmentedRequest::default()
    }
}

async fn encode(client: &mut Client, request: EncodeAugmentedRequest) -> Result<EncodeAugmentedResponse, Fault> {
    let answer = client.encode_augmented(request).await;
    answer
        .map(tonic::Response::into_inner)
        .map_err(|status| Fault::from_status(&status))
}

fn rows(response: &EncodeAugmentedResponse) -> Vec<Vec<f32>> {
    let matrix = response.embeddings.as_ref().unwrap();
    let values: Vec<f32> = matrix
        .data
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    values.chunks_exact(matrix.cols as usize).map(<[f32]>::to_vec).collect()
}

/// The stub generator's result for a text.
fn reversed(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().rev().collect();
    format!("Indeed {}", words.join(" "))
}

fn mean(texts: &[&str]) -> Vec<f32> {
    let mut sum = vec![0.0_f64; 4];
    for text in texts {
        for (sum, value) in sum.iter_mut().zip(vector(text)) {
            *sum += f64::from(value);
        }
    }
    sum.into_iter().map(|sum| (sum / texts.len() as f64) as f32).collect()
}
