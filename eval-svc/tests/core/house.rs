//! The evaluation service over a channel in memory, with an encoder that is made up but behaves like one.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_eval::{EvalClients, EvalConfig, EvalService};
use isomer_models::Resolver;
use isomer_proto::{
    common::v1::{Dtype, Matrix, Similarity, Usage, VectorSpace},
    encoder::v1::{
        EncodeRequest, EncodeResponse, Encoder, GetEncoderRequest, GetEncoderResponse, Priority,
        encoder_service_server::{EncoderService, EncoderServiceServer},
        input,
    },
    eval::v1::{statistics_service_client::StatisticsServiceClient, task_service_client::TaskServiceClient},
};
use isomer_service_kit::{Fault, GrpcChannel, Services, limits::LimitsConfig, memory};
use tonic::{Request, Response, Status};

pub(crate) const DIMENSIONS: usize = 16;

/// Vectors that depend on the text alone.
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

#[derive(Default)]
pub(crate) struct Seen {
    in_flight: AtomicUsize,
    pub(crate) most_in_flight: AtomicUsize,
    requests: AtomicUsize,
    pub(crate) overloads_left: AtomicUsize,
    pub(crate) texts: Mutex<Vec<String>>,
}

#[derive(Clone, Default)]
pub(crate) struct FakeEncoder(pub(crate) Arc<Seen>);

#[tonic::async_trait]
impl EncoderService for FakeEncoder {
    async fn get_encoder(&self, request: Request<GetEncoderRequest>) -> Result<Response<GetEncoderResponse>, Status> {
        let id = request.into_inner().id;
        if !id.starts_with("fake") {
            return Err(
                Fault::not_found("UNKNOWN_ENCODER", format!("there is no encoder `{id}`"))
                    .field("id")
                    .into(),
            );
        }
        let mut encoder = Encoder {
            id,
            max_batch_items: 7,
            ..Encoder::default()
        };
        encoder.set_similarity(Similarity::Cosine);
        Ok(Response::new(GetEncoderResponse { encoder: Some(encoder) }))
    }

    async fn encode(&self, request: Request<EncodeRequest>) -> Result<Response<EncodeResponse>, Status> {
        let seen = &self.0;
        let request = request.into_inner();
        assert_eq!(request.priority(), Priority::Batch);
        assert!(request.inputs.len() <= 7, "more texts than the encoder permits");
        if seen
            .overloads_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
            .is_ok()
        {
            return Err(Fault::overloaded("the queue is full", Duration::from_millis(1)).into());
        }
        let now = seen.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most_in_flight.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
        let texts: Vec<String> = request
            .inputs
            .into_iter()
            .map(|input| match input.input {
                Some(input::Input::Text(text)) => text,
                other => panic!("{other:?}"),
            })
            .collect();
        let number = seen.requests.fetch_add(1, Ordering::SeqCst);
        let data: Vec<u8> = texts
            .iter()
            .flat_map(|t| vector(t))
            .flat_map(f32::to_le_bytes)
            .collect();
        let mut embeddings = Matrix {
            rows: texts.len() as u32,
            cols: DIMENSIONS as u32,
            data: data.into(),
            ..Matrix::default()
        };
        embeddings.set_dtype(Dtype::F32);
        let digest = if request.encoder_id == "fake-drifting" {
            format!("space {number}")
        } else {
            "space".into()
        };
        let mut errors = Vec::new();
        if request.encoder_id == "fake-failing" {
            let message = "made to fail".to_owned();
            errors.push(isomer_proto::common::v1::ItemError {
                index: 0,
                code: 3,
                message,
            });
        }
        let usage = Usage {
            texts: texts.len() as u64,
            tokens: 2 * texts.len() as u64,
            ..Usage::default()
        };
        seen.texts.lock().unwrap().extend(texts);
        seen.in_flight.fetch_sub(1, Ordering::SeqCst);
        Ok(Response::new(EncodeResponse {
            embeddings: Some(embeddings),
            vector_space: Some(VectorSpace {
                digest,
                ..VectorSpace::default()
            }),
            usage: Some(usage),
            errors,
            ..EncodeResponse::default()
        }))
    }
}

pub(crate) struct House {
    pub(crate) tasks: TaskServiceClient<GrpcChannel>,
    pub(crate) statistics: StatisticsServiceClient<GrpcChannel>,
    pub(crate) encoder: FakeEncoder,
    /// Removed with the house.
    _home: tempfile::TempDir,
}

pub(crate) async fn house() -> House {
    house_with(EvalConfig {
        encode_in_flight: 3,
        ..EvalConfig::default()
    })
    .await
}

pub(crate) async fn house_with(config: EvalConfig) -> House {
    build(config, None).await
}

/// A house with a way to a hub.
pub(crate) async fn house_on_hub(config: EvalConfig, hub: Resolver) -> House {
    build(config, Some(hub)).await
}

async fn build(config: EvalConfig, hub: Option<Resolver>) -> House {
    let home = tempfile::tempdir().unwrap();
    let limits = LimitsConfig::default();
    let encoder = FakeEncoder::default();
    let services = Services::new().add(EncoderServiceServer::new(encoder.clone()));
    let channel = memory::channel(services, &limits).await.unwrap();
    let clients = EvalClients {
        encoder: channel.clone(),
        transform: channel,
    };
    let service = EvalService::with_hub(
        EvalConfig {
            home: home.path().to_owned(),
            ..config
        },
        clients,
        hub,
    )
    .unwrap();
    let channel = memory::channel(isomer_eval::services(service), &limits).await.unwrap();
    House {
        tasks: TaskServiceClient::new(channel.clone()),
        statistics: StatisticsServiceClient::new(channel),
        encoder,
        _home: home,
    }
}
