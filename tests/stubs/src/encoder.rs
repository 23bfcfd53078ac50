//! An encoder service.

use std::{sync::Arc, time::Instant};

use futures::StreamExt;
use isomer_proto::{
    common::v1::{Dtype, Matrix, Usage},
    encoder::v1::{
        CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest, EncodeResponse,
        EncodeStreamRequest, EncodeStreamResponse, Encoder, GetEncoderRequest, GetEncoderResponse, ListEncodersRequest,
        ListEncodersResponse, RerankRequest, RerankResponse, TokenizeRequest, TokenizeResponse,
        encoder_service_server::{EncoderService, EncoderServiceServer},
        input,
    },
};
use isomer_service_kit::{Fault, GrpcChannel, Services};
use parking_lot::Mutex;
use tonic::{Request, Response, Status, Streaming, codegen::BoxStream, metadata::MetadataMap};

use crate::rpc::{self, Handler, handlers};

/// An `Encode` request as it was received.
#[derive(Debug, Clone)]
pub struct Call {
    /// When it was received.
    pub at: Instant,
    pub metadata: MetadataMap,
    /// Its message.
    pub request: EncodeRequest,
    /// Whether the response contained vectors.
    pub answered: bool,
}

/// Lists and describes its encoders, answers the other rpcs with the given closures, and records
/// the `Encode` requests.
///
/// An rpc without a closure is unimplemented, except `EncodeStream`: each of its messages is
/// answered as by `Encode`, one after another.
#[derive(Clone, Default)]
pub struct StubEncoder {
    encoders: Vec<Encoder>,
    get: Handler<GetEncoderRequest, Encoder>,
    encode: Handler<EncodeRequest, EncodeResponse>,
    count_tokens: Handler<CountTokensRequest, CountTokensResponse>,
    tokenize: Handler<TokenizeRequest, TokenizeResponse>,
    detokenize: Handler<DetokenizeRequest, DetokenizeResponse>,
    rerank: Handler<RerankRequest, RerankResponse>,
    calls: Arc<Mutex<Vec<Call>>>,
    unrecorded: bool,
    in_flight: Arc<Mutex<InFlight>>,
}

#[derive(Default)]
struct InFlight {
    now: usize,
    most: usize,
}

/// A description of an encoder that has an id and no other facts.
pub fn named(id: &str) -> Encoder {
    Encoder {
        id: id.to_owned(),
        ..Encoder::default()
    }
}

/// The texts of a request. Panics on an input that is not a text.
pub fn texts(request: &EncodeRequest) -> impl Iterator<Item = &str> + Clone {
    request.inputs.iter().map(|input| match &input.input {
        Some(input::Input::Text(text)) => text.as_str(),
        other => panic!("the stub expects a text, not {other:?}"),
    })
}

/// Rows of one length as a matrix of 32-bit floats.
pub fn matrix<R: AsRef<[f32]>>(rows: impl IntoIterator<Item = R>) -> Matrix {
    let (mut data, mut count, mut cols) = (Vec::new(), 0, 0);
    for row in rows {
        cols = row.as_ref().len() as u32;
        count += 1;
        data.extend(row.as_ref().iter().flat_map(|value| value.to_le_bytes()));
    }
    Matrix {
        rows: count,
        cols,
        dtype: Dtype::F32.into(),
        data: data.into(),
    }
}

/// An answer with a vector for each text. Its usage counts `tokens_of_a_text` tokens per text. It
/// has no truncation flags and no vector space.
pub fn answer<R: AsRef<[f32]>>(rows: impl IntoIterator<Item = R>, tokens_of_a_text: u64) -> EncodeResponse {
    let embeddings = matrix(rows);
    let texts = embeddings.rows.into();
    EncodeResponse {
        usage: Some(Usage {
            texts,
            tokens: texts * tokens_of_a_text,
            ..Usage::default()
        }),
        embeddings: Some(embeddings),
        ..EncodeResponse::default()
    }
}

/// The error of an encoder service for an unknown id.
pub fn unknown(id: &str) -> Status {
    Fault::not_found("UNKNOWN_ENCODER", format!("no encoder `{id}`"))
        .field("id")
        .into()
}

impl StubEncoder {
    /// A service with these encoders. `ListEncoders` returns one encoder per page.
    pub fn of(encoders: impl IntoIterator<Item = Encoder>) -> Self {
        Self {
            encoders: encoders.into_iter().collect(),
            ..Self::default()
        }
    }

    handlers! {
        /// Answers `GetEncoder` instead of the list of encoders.
        on_get sets get: GetEncoderRequest => Encoder;
        /// Answers `Encode`.
        on_encode sets encode: EncodeRequest => EncodeResponse;
        /// Answers `CountTokens`.
        on_count_tokens sets count_tokens: CountTokensRequest => CountTokensResponse;
        /// Answers `Tokenize`.
        on_tokenize sets tokenize: TokenizeRequest => TokenizeResponse;
        /// Answers `Detokenize`.
        on_detokenize sets detokenize: DetokenizeRequest => DetokenizeResponse;
        /// Answers `Rerank`.
        on_rerank sets rerank: RerankRequest => RerankResponse;
    }

    /// Records no requests, for tests that send many large ones.
    #[must_use]
    pub fn unrecorded(self) -> Self {
        Self {
            unrecorded: true,
            ..self
        }
    }

    /// The `Encode` requests that were received, in order.
    pub fn calls(&self) -> Vec<Call> {
        assert!(!self.unrecorded, "the stub keeps no requests");
        self.calls.lock().clone()
    }

    /// The texts of all `Encode` requests that were answered with vectors, in the order of the
    /// requests.
    pub fn texts(&self) -> Vec<String> {
        let calls = self.calls();
        calls
            .iter()
            .filter(|call| call.answered)
            .flat_map(|call| texts(&call.request).map(str::to_owned))
            .collect()
    }

    /// Clears the recorded requests. None may be in flight.
    pub fn forget(&self) {
        self.calls.lock().clear();
    }

    /// The maximum number of concurrent `Encode` requests.
    pub fn most_in_flight(&self) -> usize {
        self.in_flight.lock().most
    }

    /// Wraps the stub as a service for a server.
    pub fn service(&self) -> EncoderServiceServer<Self> {
        EncoderServiceServer::new(self.clone())
    }

    /// A channel to the service in memory.
    pub async fn channel(&self) -> GrpcChannel {
        rpc::channel(Services::new().add(self.service())).await
    }

    /// Serves it on its own port; see [`rpc::serve`].
    pub async fn serve(&self) -> String {
        rpc::serve(self.service()).await
    }
}

/// Counts a request as completed, also if its client disconnects.
struct CompletionGuard(Arc<Mutex<InFlight>>);

impl CompletionGuard {
    fn new(in_flight: &Arc<Mutex<InFlight>>) -> Self {
        let mut counts = in_flight.lock();
        counts.now += 1;
        counts.most = counts.most.max(counts.now);
        Self(Arc::clone(in_flight))
    }
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.0.lock().now -= 1;
    }
}

#[tonic::async_trait]
impl EncoderService for StubEncoder {
    async fn list_encoders(
        &self,
        request: Request<ListEncodersRequest>,
    ) -> Result<Response<ListEncodersResponse>, Status> {
        let at: usize = request.get_ref().page_token.parse().unwrap_or_default();
        let more = at + 1 < self.encoders.len();
        Ok(Response::new(ListEncodersResponse {
            encoders: self.encoders.get(at).cloned().into_iter().collect(),
            next_page_token: if more { (at + 1).to_string() } else { String::new() },
        }))
    }

    async fn get_encoder(&self, request: Request<GetEncoderRequest>) -> Result<Response<GetEncoderResponse>, Status> {
        let encoder = if self.get.is_set() {
            self.get.answer(request).await?.into_inner()
        } else {
            let id = &request.get_ref().id;
            let found = self.encoders.iter().find(|encoder| encoder.id == *id);
            found.cloned().ok_or_else(|| unknown(id))?
        };
        Ok(Response::new(GetEncoderResponse { encoder: Some(encoder) }))
    }

    async fn encode(&self, request: Request<EncodeRequest>) -> Result<Response<EncodeResponse>, Status> {
        let _counted = CompletionGuard::new(&self.in_flight);
        if self.unrecorded {
            return self.encode.answer(request).await;
        }
        let number = {
            let mut calls = self.calls.lock();
            calls.push(Call {
                at: Instant::now(),
                metadata: request.metadata().clone(),
                request: request.get_ref().clone(),
                answered: false,
            });
            calls.len() - 1
        };
        let answer = self.encode.answer(request).await?;
        self.calls.lock()[number].answered = true;
        Ok(answer)
    }

    async fn encode_stream(
        &self,
        request: Request<Streaming<EncodeStreamRequest>>,
    ) -> Result<Response<BoxStream<EncodeStreamResponse>>, Status> {
        let stub = self.clone();
        let answers = request.into_inner().then(move |message| {
            let stub = stub.clone();
            async move {
                let EncodeStreamRequest { client_index, request } = message?;
                let response = stub.encode(Request::new(request.unwrap_or_default())).await?;
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
        self.count_tokens.answer(request).await
    }

    async fn tokenize(&self, request: Request<TokenizeRequest>) -> Result<Response<TokenizeResponse>, Status> {
        self.tokenize.answer(request).await
    }

    async fn detokenize(&self, request: Request<DetokenizeRequest>) -> Result<Response<DetokenizeResponse>, Status> {
        self.detokenize.answer(request).await
    }

    async fn rerank(&self, request: Request<RerankRequest>) -> Result<Response<RerankResponse>, Status> {
        self.rerank.answer(request).await
    }
}
