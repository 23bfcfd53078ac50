//! A stub of an encoder service: vectors that a test can compute itself, answered as slowly as it is told to, and logged.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use isomer_proto::{
    common::v1::{Dtype, ItemError, Matrix, Similarity, Usage, VectorSpace},
    encoder::v1::{
        EncodeRequest, EncodeResponse, Encoder, GetEncoderRequest, GetEncoderResponse,
        encode_request::Prompt,
        encoder_service_server::{EncoderService, EncoderServiceServer},
        input,
    },
};
use isomer_service_kit::{Fault, GrpcChannel, LimitsConfig, Services, memory};
use tonic::{Request, Response, Status};

/// One Encode as it came.
#[derive(Debug, Clone)]
pub struct Encoded {
    pub at: Instant,
    pub texts: Vec<String>,
    pub prompt: Option<Prompt>,
}

/// A running stub. Texts with `unencodable` in them fail as items.
#[derive(Debug, Clone)]
pub struct StubEncoder {
    latency: Duration,
    pub normalises: bool,
    /// Says that longer texts (in bytes) were cut; none: says nothing of it.
    pub limit: Option<usize>,
    log: Arc<Mutex<Vec<Encoded>>>,
}

impl StubEncoder {
    pub fn new(latency: Duration) -> Self {
        Self {
            latency,
            normalises: false,
            limit: None,
            log: Arc::default(),
        }
    }

    pub async fn channel(&self) -> GrpcChannel {
        let services = Services::new().add(EncoderServiceServer::new(self.clone()));
        memory::channel(services, &LimitsConfig::default()).await.unwrap()
    }

    pub fn log(&self) -> Vec<Encoded> {
        self.log.lock().unwrap().clone()
    }

    /// Every text encoded so far, in order.
    pub fn texts(&self) -> Vec<String> {
        self.log().into_iter().flat_map(|call| call.texts).collect()
    }
}

/// The vector of a text: its bytes, words, its first byte and a constant.
pub fn vector(text: &str) -> Vec<f32> {
    let first = text.bytes().next().unwrap_or_default();
    vec![
        text.len() as f32,
        text.split_whitespace().count() as f32,
        f32::from(first) - 96.0,
        -0.5,
    ]
}

pub fn own_space() -> VectorSpace {
    VectorSpace {
        digest: "stub-space".into(),
        model_id: "stub".into(),
        pooling: "mean".into(),
        dimensions: 4,
        dtype: Dtype::F32.into(),
        ..VectorSpace::default()
    }
}

#[tonic::async_trait]
impl EncoderService for StubEncoder {
    async fn get_encoder(&self, request: Request<GetEncoderRequest>) -> Result<Response<GetEncoderResponse>, Status> {
        let id = request.into_inner().id;
        if id != "stub" {
            let fault = Fault::not_found("UNKNOWN_ENCODER", format!("unknown encoder `{id}`")).field("id");
            return Err(fault.into());
        }
        let encoder = Encoder {
            id,
            vector_space: Some(own_space()),
            dimensions: 4,
            max_batch_items: 3,
            similarity: Similarity::Dot.into(),
            normalises: self.normalises,
            ..Encoder::default()
        };
        Ok(Response::new(GetEncoderResponse { encoder: Some(encoder) }))
    }

    async fn encode(&self, request: Request<EncodeRequest>) -> Result<Response<EncodeResponse>, Status> {
        let at = Instant::now();
        let request = request.into_inner();
        let texts: Vec<String> = request
            .inputs
            .into_iter()
            .map(|input| match input.input {
                Some(input::Input::Text(text)) => text,
                _ => String::new(),
            })
            .collect();
        self.log.lock().unwrap().push(Encoded {
            at,
            texts: texts.clone(),
            prompt: request.prompt,
        });
        tokio::time::sleep(self.latency).await;
        let errors = texts.iter().zip(0..).filter(|(text, _)| text.contains("unencodable"));
        Ok(Response::new(EncodeResponse {
            embeddings: Some(Matrix {
                rows: texts.len() as u32,
                cols: 4,
                dtype: Dtype::F32.into(),
                data: texts
                    .iter()
                    .flat_map(|text| vector(text))
                    .flat_map(f32::to_le_bytes)
                    .collect::<Vec<u8>>()
                    .into(),
            }),
            errors: errors
                .map(|(_, index)| ItemError {
                    index,
                    code: 3,
                    message: "the stub cannot encode this".into(),
                })
                .collect(),
            vector_space: Some(own_space()),
            truncated: self
                .limit
                .map(|limit| texts.iter().map(|text| text.len() > limit).collect())
                .unwrap_or_default(),
            usage: Some(Usage {
                texts: texts.len() as u64,
                tokens: texts.len() as u64 * 5,
                ..Usage::default()
            }),
            ..EncodeResponse::default()
        }))
    }
}
