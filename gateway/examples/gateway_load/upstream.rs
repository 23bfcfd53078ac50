//! An upstream that costs next to nothing, so that only the server in front of it is measured.

use std::net::SocketAddr;

use axum::{Json, Router, routing::post, serve::ListenerExt};
use base64::{Engine, prelude::BASE64_STANDARD};
use isomer_proto::{
    common::v1::{Dtype, Matrix, Usage, VectorSpace},
    encoder::v1::{
        Capability, EncodeRequest, EncodeResponse, Encoder, GetEncoderRequest, GetEncoderResponse, ListEncodersRequest,
        ListEncodersResponse,
        encoder_service_server::{EncoderService, EncoderServiceServer},
        input,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, service::Routes};

use crate::vectors;

pub(crate) async fn serve(listen: SocketAddr) {
    let listener = TcpListener::bind(listen).await.expect("the address is free");
    println!("{}", listener.local_addr().expect("bound"));
    let grpc = Routes::new(EncoderServiceServer::new(Instant)).into_axum_router();
    let app = Router::new().route("/v1/embeddings", post(embeddings)).merge(grpc);
    let at_once = listener.tap_io(|stream| stream.set_nodelay(true).expect("a socket"));
    axum::serve(at_once, app).await.expect("serves");
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
struct EmbeddingRequest {
    model: String,
    input: Texts,
    #[serde(default)]
    encoding_format: Option<String>,
}

async fn embeddings(Json(asked): Json<EmbeddingRequest>) -> Json<Value> {
    let texts = match asked.input {
        Texts::One(text) => vec![text],
        Texts::Many(texts) => texts,
    };
    let base64 = asked.encoding_format.as_deref() == Some("base64");
    let data = texts.iter().enumerate().map(|(index, text)| {
        let embedding = if base64 {
            Value::from(BASE64_STANDARD.encode(vectors::bytes(text)))
        } else {
            Value::from(vectors::of(text))
        };
        json!({"object": "embedding", "index": index, "embedding": embedding})
    });
    Json(json!({
        "object": "list",
        "model": asked.model,
        "data": data.collect::<Vec<Value>>(),
        "usage": {"prompt_tokens": texts.len() * 8, "total_tokens": texts.len() * 8},
    }))
}

/// The service. Not a stub of `isomer-stubs`: those record their requests, which costs time and
/// memory.
pub(crate) struct Instant;

fn encoder() -> Encoder {
    Encoder {
        id: "instant".to_owned(),
        dimensions: vectors::DIMENSIONS as u32,
        capabilities: vec![Capability::Dense.into()],
        vector_space: Some(space()),
        ..Encoder::default()
    }
}

fn space() -> VectorSpace {
    VectorSpace {
        digest: "instant".to_owned(),
        model_id: "instant".to_owned(),
        ..VectorSpace::default()
    }
}

#[tonic::async_trait]
impl EncoderService for Instant {
    async fn list_encoders(&self, _: Request<ListEncodersRequest>) -> Result<Response<ListEncodersResponse>, Status> {
        Ok(Response::new(ListEncodersResponse {
            encoders: vec![encoder()],
            next_page_token: String::new(),
        }))
    }

    async fn get_encoder(&self, _: Request<GetEncoderRequest>) -> Result<Response<GetEncoderResponse>, Status> {
        Ok(Response::new(GetEncoderResponse {
            encoder: Some(encoder()),
        }))
    }

    async fn encode(&self, request: Request<EncodeRequest>) -> Result<Response<EncodeResponse>, Status> {
        let inputs = request.into_inner().inputs;
        let rows = inputs.iter().map(|input| match &input.input {
            Some(input::Input::Text(text)) => vectors::bytes(text),
            _ => vectors::bytes(""),
        });
        let data: Vec<u8> = rows.flatten().collect();
        Ok(Response::new(EncodeResponse {
            embeddings: Some(Matrix {
                rows: inputs.len() as u32,
                cols: vectors::DIMENSIONS as u32,
                dtype: Dtype::F32.into(),
                data: data.into(),
            }),
            vector_space: Some(space()),
            token_counts: vec![8; inputs.len()],
            truncated: vec![false; inputs.len()],
            usage: Some(Usage {
                texts: inputs.len() as u64,
                tokens: 8 * inputs.len() as u64,
                ..Usage::default()
            }),
            ..EncodeResponse::default()
        }))
    }
}
