//! The models behind: an encoder that costs a dollar a token, and a language model. Both count.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::post};
use futures::StreamExt;
use isomer_proto::{
    common::v1::{Dtype, Matrix, Usage, VectorSpace},
    encoder::v1::{
        CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest, EncodeResponse,
        EncodeStreamRequest, EncodeStreamResponse, Encoder, GetEncoderRequest, GetEncoderResponse, ListEncodersRequest,
        ListEncodersResponse, Output, RerankRequest, RerankResponse, TextTokens, TokenizeRequest, TokenizeResponse,
        encode_request,
        encoder_service_server::{EncoderService, EncoderServiceServer},
        input, rerank_response,
    },
};
use isomer_service_kit::{
    Fault, Services,
    server::{self, ServerConfig},
};
use serde_json::{Value, json};
use tonic::{Request, Response, Status, Streaming, codegen::BoxStream};

/// The encoder that both models are asked for.
pub const ENCODER: &str = "paid";
/// Tokens that the language model reads and writes in a call.
const READ: u64 = 1000;
const WRITTEN: u64 = 200;
/// Tokens that a call which was cut off may be charged: what it reads, and `max_tokens` of the cases.
pub const MOST_OF_A_CALL: u64 = 2500;
/// A text with this word is never answered.
pub const SLOW: &str = "slowly";
/// A text with this word is refused, after others have been answered.
pub const REFUSED: &str = "refused";
/// Time for the others.
const LATER: Duration = Duration::from_millis(300);

/// What was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Tokens, and billionths of a dollar.
    pub finished: (u64, u64),
    /// Calls to the language model that never ended.
    pub cut: u64,
}

impl Counted {
    pub fn since(&self, before: &Self) -> Self {
        Self {
            finished: (self.finished.0 - before.finished.0, self.finished.1 - before.finished.1),
            cut: self.cut - before.cut,
        }
    }
}

/// The counters of both.
#[derive(Debug, Clone, Default)]
pub struct Models {
    encoded: Arc<AtomicU64>,
    generated: Arc<AtomicU64>,
    begun: Arc<AtomicU64>,
    ended: Arc<AtomicU64>,
}

/// Tokens of a text; none of those by which the gateway itself looks at an encoder.
fn tokens(text: &str) -> u64 {
    if text.contains("number") {
        (text.len() as u64).div_ceil(4)
    } else {
        0
    }
}

impl Models {
    pub fn counted(&self) -> Counted {
        let encoded = self.encoded.load(SeqCst);
        Counted {
            finished: (encoded + self.generated.load(SeqCst), encoded * 1_000_000_000),
            cut: self.begun.load(SeqCst) - self.ended.load(SeqCst),
        }
    }

    /// Serves the encoder; gives back its address.
    pub async fn serve_encoder(&self) -> String {
        let server = EncoderServiceServer::new(self.clone()).max_decoding_message_size(64 << 20);
        let services = Services::new().add(server);
        let (send, receive) = tokio::sync::oneshot::channel();
        // On a thread of its own, as a machine of its own: what it does is not the gateway's doing.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut config = ServerConfig::at("127.0.0.1:0".parse().unwrap());
                config.limits.max_message_bytes = 64 << 20;
                let listener = server::bind(&config).unwrap();
                send.send(listener.local_addr().unwrap()).unwrap();
                server::serve(services, &config, listener, std::future::pending())
                    .await
                    .unwrap();
            });
        });
        format!("grpc://{}", receive.await.unwrap())
    }

    /// Serves the language model; gives back its base URL.
    pub async fn serve_generator(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new()
            .route("/v1/chat/completions", post(complete))
            .with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        format!("http://{address}/v1")
    }

    /// Charges for texts when they come, as providers do, and answers or not.
    async fn charge(&self, texts: impl Iterator<Item = &str>) -> Result<u64, Status> {
        let texts: Vec<&str> = texts.collect();
        if texts.iter().any(|text| text.contains(REFUSED)) {
            tokio::time::sleep(LATER / 3).await;
            return Err(Status::invalid_argument("one of the texts is refused"));
        }
        let used = texts.iter().map(|text| tokens(text)).sum();
        self.encoded.fetch_add(used, SeqCst);
        if texts.iter().any(|text| text.contains(SLOW)) {
            std::future::pending::<()>().await;
        }
        Ok(used)
    }
}

async fn complete(State(models): State<Models>, Json(body): Json<Value>) -> axum::response::Response {
    let asked = body["messages"].to_string();
    models.begun.fetch_add(1, SeqCst);
    if asked.contains(SLOW) {
        std::future::pending::<()>().await;
    }
    if asked.contains(REFUSED) {
        tokio::time::sleep(LATER).await;
        models.ended.fetch_add(1, SeqCst);
        return (StatusCode::UNAUTHORIZED, "this is refused").into_response();
    }
    models.generated.fetch_add(READ + WRITTEN, SeqCst);
    models.ended.fetch_add(1, SeqCst);
    let answer = match body["model"].as_str() {
        Some("judge") => "5".to_owned(),
        _ => {
            let number: u64 = asked.bytes().map(u64::from).sum();
            format!("A restated sentence with other words, whose number is {number}.")
        }
    };
    Json(json!({
        "id": "one", "object": "chat.completion", "created": 0, "model": body["model"],
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": answer } }],
        "usage": { "prompt_tokens": READ, "completion_tokens": WRITTEN, "total_tokens": READ + WRITTEN },
    }))
    .into_response()
}

fn described() -> Encoder {
    Encoder {
        id: ENCODER.to_owned(),
        vector_space: Some(space()),
        dimensions: 2,
        max_batch_items: 64,
        normalises: true,
        capabilities: vec![1, 2, 3, 4],
        ..Encoder::default()
    }
}

fn space() -> VectorSpace {
    VectorSpace {
        digest: "one".to_owned(),
        model_id: ENCODER.to_owned(),
        ..VectorSpace::default()
    }
}

#[tonic::async_trait]
impl EncoderService for Models {
    async fn list_encoders(&self, _: Request<ListEncodersRequest>) -> Result<Response<ListEncodersResponse>, Status> {
        Ok(Response::new(ListEncodersResponse {
            encoders: vec![described()],
            ..ListEncodersResponse::default()
        }))
    }

    async fn get_encoder(&self, _: Request<GetEncoderRequest>) -> Result<Response<GetEncoderResponse>, Status> {
        Ok(Response::new(GetEncoderResponse {
            encoder: Some(described()),
        }))
    }

    async fn encode(&self, request: Request<EncodeRequest>) -> Result<Response<EncodeResponse>, Status> {
        let request = request.into_inner();
        if let Some(encode_request::Prompt::PromptName(name)) = &request.prompt {
            return Err(Fault::invalid("prompt_name", format!("`{name}` is no prompt of this encoder")).into());
        }
        let texts = request.inputs.iter().map(|input| match &input.input {
            Some(input::Input::Text(text)) => text.as_str(),
            _ => "",
        });
        let used = self.charge(texts.clone()).await?;
        // Vectors that differ with the text.
        let row = |text: &str| {
            let sum: u64 = text.bytes().map(u64::from).sum();
            let angle = (sum * sum % 997) as f32;
            [angle.cos(), angle.sin()]
        };
        let of_tokens = request.output() == Output::TokenVectors;
        let rows_of_a_text = if of_tokens { 2 } else { 1 };
        let rows = texts.clone().flat_map(|text| vec![row(text); rows_of_a_text]);
        let data: Vec<u8> = rows.flatten().flat_map(f32::to_le_bytes).collect();
        let row_counts = if of_tokens {
            vec![rows_of_a_text as u32; request.inputs.len()]
        } else {
            Vec::new()
        };
        Ok(Response::new(EncodeResponse {
            embeddings: Some(Matrix {
                rows: (request.inputs.len() * rows_of_a_text) as u32,
                cols: 2,
                dtype: Dtype::F32.into(),
                data: data.into(),
            }),
            token_counts: texts.map(|text| tokens(text) as u32).collect(),
            truncated: vec![false; request.inputs.len()],
            vector_space: Some(space()),
            usage: Some(Usage {
                texts: request.inputs.len() as u64,
                tokens: used,
                ..Usage::default()
            }),
            row_counts,
            ..EncodeResponse::default()
        }))
    }

    async fn encode_stream(
        &self,
        request: Request<Streaming<EncodeStreamRequest>>,
    ) -> Result<Response<BoxStream<EncodeStreamResponse>>, Status> {
        let models = self.clone();
        let answers = request.into_inner().then(move |message| {
            let models = models.clone();
            async move {
                let EncodeStreamRequest { client_index, request } = message?;
                let response = models.encode(Request::new(request.unwrap_or_default())).await?;
                Ok(EncodeStreamResponse {
                    client_index,
                    response: Some(response.into_inner()),
                })
            }
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn count_tokens(
        &self,
        request: Request<CountTokensRequest>,
    ) -> Result<Response<CountTokensResponse>, Status> {
        let _ = request;
        Ok(Response::new(CountTokensResponse::default()))
    }

    async fn tokenize(&self, request: Request<TokenizeRequest>) -> Result<Response<TokenizeResponse>, Status> {
        let texts = vec![TextTokens::default(); request.get_ref().texts.len()];
        Ok(Response::new(TokenizeResponse { texts }))
    }

    async fn detokenize(&self, request: Request<DetokenizeRequest>) -> Result<Response<DetokenizeResponse>, Status> {
        let texts = vec![String::new(); request.get_ref().token_ids.len()];
        Ok(Response::new(DetokenizeResponse { texts }))
    }

    async fn rerank(&self, request: Request<RerankRequest>) -> Result<Response<RerankResponse>, Status> {
        let request = request.into_inner();
        // The query is read with each document.
        let read: Vec<String> = request
            .documents
            .iter()
            .map(|document| format!("{}{document}", request.query))
            .collect();
        let used = self.charge(read.iter().map(String::as_str)).await?;
        let results = (0..request.documents.len() as u32).map(|index| rerank_response::Result {
            index,
            score: 1.0 / (index as f32 + 1.0),
            ..rerank_response::Result::default()
        });
        Ok(Response::new(RerankResponse {
            results: results.collect(),
            usage: Some(Usage {
                texts: request.documents.len() as u64,
                tokens: used,
                ..Usage::default()
            }),
            ..RerankResponse::default()
        }))
    }
}
