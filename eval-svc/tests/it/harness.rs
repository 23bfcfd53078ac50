//! The evaluation service over an in-memory channel, with a simulated encoder that behaves like a
//! real one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_eval::{EvalClients, EvalConfig, EvalService};
use isomer_models::Resolver;
use isomer_proto::{
    common::v1::{ItemError, Similarity, VectorSpace},
    encoder::v1::{EncodeResponse, Encoder, Priority},
    eval::v1::{statistics_service_client::StatisticsServiceClient, task_service_client::TaskServiceClient},
};
use isomer_service_kit::{Fault, GrpcChannel};
use isomer_stubs::{
    encoder::{StubEncoder, answer, named, texts, unknown},
    rpc::channel,
};

pub(crate) const DIMENSIONS: usize = 16;

/// Vectors that depend only on the text.
pub(crate) fn vector(text: &str) -> Vec<f32> {
    let words = text.split_whitespace();
    let mut vector = vec![0.01_f32; DIMENSIONS];
    for word in words {
        let word = word.to_lowercase();
        let hash = word
            .bytes()
            .fold(7_usize, |h, b| h.wrapping_mul(31).wrapping_add(usize::from(b)));
        vector[hash % DIMENSIONS] += 1.0;
    }
    vector
}

/// An encoder with every id that begins with `fake`, with at most seven texts per request. It
/// reports overload for the number of requests in `overloads`. Each response of `fake-drifting` is
/// in another vector space, and `fake-failing` cannot encode the first text. `fake-picky` refuses a
/// request with an empty text or a poisonous one, without naming it, and `fake-refusing` refuses
/// every request.
pub(crate) fn encoder(overloads: Arc<AtomicUsize>) -> StubEncoder {
    StubEncoder::default()
        .on_get(|request| async move {
            let id = request.into_inner().id;
            if !id.starts_with("fake") {
                return Err(unknown(&id));
            }
            Ok(Encoder {
                max_batch_items: 7,
                similarity: Similarity::Cosine.into(),
                ..named(&id)
            })
        })
        .on_encode(move |request| {
            let left = overloads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            async move {
                let request = request.into_inner();
                assert_eq!(request.priority(), Priority::Batch);
                assert!(request.inputs.len() <= 7, "more texts than the encoder permits");
                if left.is_ok() {
                    return Err(Fault::overloaded("the queue is full", Duration::from_millis(1)).into());
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
                let (mut digest, mut errors) = ("space".to_owned(), Vec::new());
                match request.encoder_id.as_str() {
                    "fake-picky" if texts(&request).any(|text| text.is_empty() || text.contains("poison")) => {
                        return Err(Fault::invalid("inputs", "the input is invalid").into());
                    }
                    "fake-refusing" => return Err(Fault::invalid("inputs", "no input is valid").into()),
                    "fake-drifting" => digest = format!("space of {:?}", texts(&request).next()),
                    "fake-failing" => errors.push(ItemError {
                        index: 0,
                        code: 3,
                        message: "made to fail".to_owned(),
                    }),
                    _ => {}
                }
                Ok(EncodeResponse {
                    vector_space: Some(VectorSpace {
                        settings_digest: "settings".into(),
                        digest,
                        ..VectorSpace::default()
                    }),
                    errors,
                    ..answer(texts(&request).map(vector), 2)
                })
            }
        })
}

pub(crate) struct Harness {
    pub(crate) tasks: TaskServiceClient<GrpcChannel>,
    pub(crate) statistics: StatisticsServiceClient<GrpcChannel>,
    pub(crate) encoder: StubEncoder,
    /// Number of following requests that the encoder refuses as overloaded.
    pub(crate) overloads: Arc<AtomicUsize>,
    /// The folder is removed with the harness.
    _home: tempfile::TempDir,
}

pub(crate) async fn harness() -> Harness {
    house_with(EvalConfig {
        encode_in_flight: 3,
        ..EvalConfig::default()
    })
    .await
}

pub(crate) async fn house_with(config: EvalConfig) -> Harness {
    build(config, None).await
}

/// A harness with access to a hub.
pub(crate) async fn house_on_hub(config: EvalConfig, hub: Resolver) -> Harness {
    build(config, Some(hub)).await
}

async fn build(config: EvalConfig, hub: Option<Resolver>) -> Harness {
    let overloads = Arc::<AtomicUsize>::default();
    let encoder = encoder(Arc::clone(&overloads));
    let channel = encoder.channel().await;
    let (channel, home) = serve(config, hub, channel.clone(), channel).await;
    Harness {
        tasks: TaskServiceClient::new(channel.clone()),
        statistics: StatisticsServiceClient::new(channel),
        encoder,
        overloads,
        _home: home,
    }
}

/// The service over an encoder and a transform service, and its folder, which is removed when it is
/// dropped.
pub(crate) async fn serve(
    config: EvalConfig,
    hub: Option<Resolver>,
    encoder: GrpcChannel,
    transform: GrpcChannel,
) -> (GrpcChannel, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let config = EvalConfig {
        home: home.path().to_owned(),
        ..config
    };
    let service = EvalService::with_hub(config, EvalClients { encoder, transform }, hub).unwrap();
    (channel(isomer_eval::services(service)).await, home)
}
