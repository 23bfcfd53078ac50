//! text-embeddings-inference's API over gRPC (`tei.v1`).
//!
//! Its requests name no model. The model is the encoder that the metadata names (`isomer-encoder`),
//! or the only encoder.

#[cfg(test)]
#[path = "grpc_tests.rs"]
mod tests;

use std::{sync::Arc, time::Instant};

use futures::{StreamExt, TryStreamExt};
use isomer_proto::{
    common::v1::{Timing, Usage},
    encoder::v1::{Capability, DetokenizeRequest, Output, RerankRequest, TokenIds, TokenizeRequest, tokenize_request},
    tei::v1 as tei,
    tei::v1::{
        embed_server::{Embed, EmbedServer},
        info_server::{Info, InfoServer},
        predict_server::{Predict, PredictServer},
        rerank_server::{Rerank, RerankServer},
        tokenize_server::{Tokenize, TokenizeServer},
    },
};
use isomer_service_kit::{Fault, Services, until_error, vectors::floats};
use tokio::sync::OnceCell;
use tonic::{Extensions, Request, Response, Status, Streaming, codegen::BoxStream, metadata::MetadataMap};

use super::{Direction, Embed as EmbedInput, Entry, PathModel, described, entries, rank};
use crate::{
    dialects::refusal,
    encoder_service::{STREAM_DEPTH, welcome},
    front::add_charged,
    openai::{Backends, Call, embeddings, encoded_inputs::EncodedInputs, inputs::Inputs},
};

/// The key of a request's metadata that names the encoder.
const ENCODER: &str = "isomer-encoder";
/// Maps our field names to the names in these messages.
const FIELDS: &[(&str, &str)] = &[
    ("inputs", "inputs"),
    ("encoder_id", ENCODER),
    ("model", ENCODER),
    ("id", ENCODER),
    ("output", ENCODER),
    ("documents", "texts"),
    ("texts", "inputs"),
    ("token_ids", "ids"),
];

pub(crate) fn add(services: Services, backends: &Backends) -> Services {
    let most = backends.max_message_bytes;
    let tei = Tei(backends.clone());
    macro_rules! add {
        ($services:expr, $server:ident) => {
            add_charged(
                $services,
                $server::new(tei.clone())
                    .max_decoding_message_size(most)
                    .max_encoding_message_size(most),
            )
        };
    }
    let services = add!(services, InfoServer);
    let services = add!(services, EmbedServer);
    let services = add!(services, PredictServer);
    let services = add!(services, RerankServer);
    add!(services, TokenizeServer)
}

#[derive(Debug, Clone)]
struct Tei(Backends);

/// The properties of a request apart from its message.
#[derive(Debug, Clone)]
struct Context {
    call: Call,
    named: PathModel,
    /// The encoder of the request, once looked up; the same for all messages of a stream.
    meant: Arc<OnceCell<String>>,
    arrived: Instant,
}

impl Context {
    fn of(metadata: &MetadataMap, extensions: &Extensions) -> Result<Self, Status> {
        let named = match metadata.get(ENCODER).map(|value| value.to_str()) {
            None => None,
            Some(Ok(name)) => Some(name.to_owned()),
            Some(Err(_)) => return Err(Fault::invalid(ENCODER, "is not ASCII").into()),
        };
        Ok(Self {
            call: Call::of_grpc(extensions),
            named: PathModel(named),
            meant: Arc::default(),
            arrived: Instant::now(),
        })
    }

    async fn encoder(&self, backends: &Backends, capability: Capability) -> Result<String, Fault> {
        let look_up = || self.named.or_only(backends, capability);
        let found = self.meant.get_or_try_init(look_up).await.cloned();
        // Over HTTP the hint names an address; over gRPC it names the metadata.
        found.map_err(|fault| match fault.field.as_deref() {
            Some("model") => fault.hint(format!("name one in the request's metadata: {ENCODER}")),
            _ => fault,
        })
    }
}

/// An error whose field has its name in these messages. Each message holds one text.
fn status(mut fault: Fault) -> Status {
    fault.field = fault.field.map(|field| {
        let field = refusal::named(FIELDS, &field);
        match field.strip_suffix("[0]") {
            Some("inputs" | "ids") => field[..field.len() - 3].to_owned(),
            _ => field,
        }
    });
    fault.into()
}

fn direction(value: i32) -> Result<Direction, Fault> {
    match tei::TruncationDirection::try_from(value) {
        Ok(tei::TruncationDirection::Right) => Ok(Direction::Right),
        Ok(tei::TruncationDirection::Left) => Ok(Direction::Left),
        Err(_) => Err(Fault::invalid("truncation_direction", format!("unknown value {value}")).hint("RIGHT or LEFT")),
    }
}

fn chars<'a>(texts: impl IntoIterator<Item = &'a String>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).sum()
}

fn metadata(arrived: Instant, chars: usize, usage: Option<&Usage>, timing: Option<&Timing>) -> Option<tei::Metadata> {
    let nanoseconds = |of: fn(&Timing) -> Option<prost_types::Duration>| {
        let duration = timing.and_then(of).unwrap_or_default();
        u64::try_from(duration.seconds * 1_000_000_000 + i64::from(duration.nanos)).unwrap_or_default()
    };
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Some(tei::Metadata {
        compute_chars: small(chars as u64),
        compute_tokens: small(usage.map_or(0, |usage| usage.tokens)),
        total_time_ns: u64::try_from(arrived.elapsed().as_nanos()).unwrap_or(u64::MAX),
        tokenization_time_ns: nanoseconds(|timing| timing.tokenise),
        queue_time_ns: nanoseconds(|timing| timing.queue),
        inference_time_ns: nanoseconds(|timing| timing.compute),
    })
}

impl Tei {
    async fn vectors(
        &self,
        context: &Context,
        request: EmbedInput,
        output: Output,
    ) -> Result<(EncodedInputs, impl Iterator<Item = Vec<f32>>), Fault> {
        let encoder = context.encoder(&self.0, Capability::Dense).await?;
        let encoded = embeddings::encode(&self.0, &context.call, request.request(encoder, output)).await?;
        let rows = encoded.vectors()?;
        Ok((encoded, rows.into_iter().map(|row| floats(&row).collect())))
    }

    async fn embed_one(&self, context: &Context, request: tei::EmbedRequest) -> Result<tei::EmbedResponse, Fault> {
        let read = chars([&request.inputs]);
        let wanted = EmbedInput {
            inputs: Inputs::Text(request.inputs),
            truncate: request.truncate,
            truncation_direction: direction(request.truncation_direction)?,
            normalize: request.normalize,
            prompt_name: request.prompt_name,
            dimensions: request.dimensions,
        };
        let (encoded, mut vectors) = self.vectors(context, wanted, Output::TextVector).await?;
        let vector = vectors.next();
        Ok(tei::EmbedResponse {
            embeddings: vector.ok_or_else(|| Fault::internal("the encoder returned no vector"))?,
            metadata: metadata(context.arrived, read, Some(&encoded.usage), encoded.timing.as_ref()),
        })
    }

    async fn embed_tokens(
        &self,
        context: &Context,
        request: tei::EmbedAllRequest,
    ) -> Result<tei::EmbedAllResponse, Fault> {
        let read = chars([&request.inputs]);
        let wanted = EmbedInput {
            inputs: Inputs::Text(request.inputs),
            truncate: request.truncate,
            truncation_direction: direction(request.truncation_direction)?,
            normalize: None,
            prompt_name: request.prompt_name,
            dimensions: None,
        };
        let (encoded, vectors) = self.vectors(context, wanted, Output::TokenVectors).await?;
        Ok(tei::EmbedAllResponse {
            token_embeddings: vectors.map(|embeddings| tei::TokenEmbedding { embeddings }).collect(),
            metadata: metadata(context.arrived, read, Some(&encoded.usage), encoded.timing.as_ref()),
        })
    }

    async fn embed_sparse(
        &self,
        context: &Context,
        request: tei::EmbedSparseRequest,
    ) -> Result<tei::EmbedSparseResponse, Fault> {
        let read = chars([&request.inputs]);
        let wanted = EmbedInput {
            inputs: Inputs::Text(request.inputs),
            truncate: request.truncate,
            truncation_direction: direction(request.truncation_direction)?,
            normalize: None,
            prompt_name: request.prompt_name,
            dimensions: None,
        };
        let encoder = context.encoder(&self.0, Capability::Sparse).await?;
        let encoded = embeddings::encode(&self.0, &context.call, wanted.request(encoder, Output::Sparse)).await?;
        encoded.whole()?;
        let value = |Entry { index, value }| tei::SparseValue { index, value };
        Ok(tei::EmbedSparseResponse {
            metadata: metadata(context.arrived, read, Some(&encoded.usage), encoded.timing.as_ref()),
            sparse_embeddings: encoded.sparse.into_iter().flat_map(entries).map(value).collect(),
        })
    }

    async fn predict_one(
        &self,
        context: &Context,
        request: tei::PredictPairRequest,
    ) -> Result<tei::PredictResponse, Fault> {
        rank::check(direction(request.truncation_direction)?)?;
        let pair: [String; 2] = request.inputs.try_into().map_err(|texts: Vec<String>| {
            Fault::invalid(
                "inputs",
                format!("holds {} texts, should hold the two of a pair", texts.len()),
            )
        })?;
        let read = chars(&pair);
        let id = context.encoder(&self.0, Capability::Rerank).await?;
        let encoder = self.0.router.get(&id, context.call.deadline).await?;
        let pair = (pair, request.raw_scores);
        let (labels, answer) = rank::labels(&self.0, &encoder, &context.call, pair).await?;
        let prediction = |label: rank::LabelScore| tei::Prediction {
            score: label.score,
            label: label.label,
        };
        Ok(tei::PredictResponse {
            predictions: labels.into_iter().map(prediction).collect(),
            metadata: metadata(context.arrived, read, answer.usage.as_ref(), None),
        })
    }

    async fn rank(&self, context: &Context, request: tei::RerankRequest) -> Result<tei::RerankResponse, Fault> {
        rank::check(direction(request.truncation_direction)?)?;
        let read = chars(request.texts.iter().chain([&request.query]));
        let wanted = RerankRequest {
            encoder_id: context.encoder(&self.0, Capability::Rerank).await?,
            query: request.query,
            documents: request.texts,
            activation: rank::activation(request.raw_scores).into(),
            ..RerankRequest::default()
        };
        let (ranked, usage) = rank::ranked(&self.0, &context.call, wanted, request.return_text).await?;
        let rank = |ranked: rank::RerankRow| tei::Rank {
            index: ranked.index,
            text: ranked.text,
            score: ranked.score,
        };
        Ok(tei::RerankResponse {
            ranks: ranked.into_iter().map(rank).collect(),
            metadata: metadata(context.arrived, read, usage.as_ref(), None),
        })
    }

    async fn tokenize_one(&self, context: &Context, request: tei::EncodeRequest) -> Result<tei::EncodeResponse, Fault> {
        let wanted = TokenizeRequest {
            encoder_id: context.encoder(&self.0, Capability::Dense).await?,
            texts: vec![request.inputs],
            prompt: request.prompt_name.map(tokenize_request::Prompt::PromptName),
            special_tokens: Some(request.add_special_tokens),
        };
        let answer = self.0.router.tokenize(wanted, context.call.deadline).await?;
        let token = |token: isomer_proto::encoder::v1::Token| tei::SimpleToken {
            id: token.id,
            text: token.text,
            special: token.special,
            start: token.start,
            stop: token.end,
        };
        let tokens = answer.texts.into_iter().flat_map(|text| text.tokens).map(token);
        Ok(tei::EncodeResponse {
            tokens: tokens.collect(),
        })
    }

    async fn decode_one(&self, context: &Context, request: tei::DecodeRequest) -> Result<tei::DecodeResponse, Fault> {
        let wanted = DetokenizeRequest {
            encoder_id: context.encoder(&self.0, Capability::Dense).await?,
            token_ids: vec![TokenIds { ids: request.ids }],
            special_tokens: !request.skip_special_tokens,
        };
        let answer = self.0.router.detokenize(wanted, context.call.deadline).await?;
        Ok(tei::DecodeResponse {
            text: answer.texts.into_iter().next().unwrap_or_default(),
        })
    }

    async fn one<T, A, F>(
        &self,
        request: Request<T>,
        answer: impl FnOnce(Self, Context, T) -> F,
    ) -> Result<Response<A>, Status>
    where
        F: Future<Output = Result<A, Fault>>,
    {
        let context = Context::of(request.metadata(), request.extensions())?;
        let answered = answer(self.clone(), context, request.into_inner()).await;
        answered.map(Response::new).map_err(status)
    }

    /// Answers each message of a stream, in the order in which the messages were sent.
    fn each<T, A, F>(
        &self,
        request: Request<Streaming<T>>,
        answer: impl Fn(Self, Context, T) -> F + Clone + Send + 'static,
    ) -> Result<Response<BoxStream<A>>, Status>
    where
        T: Send + 'static,
        A: Send + 'static,
        F: Future<Output = Result<A, Fault>> + Send + 'static,
    {
        let context = Context::of(request.metadata(), request.extensions())?;
        let tei = self.clone();
        let answers = request.into_inner().enumerate().map(move |(number, message)| {
            let (tei, answer) = (tei.clone(), answer.clone());
            let context = Context {
                arrived: Instant::now(),
                ..context.clone()
            };
            async move {
                let message = message?;
                welcome(context.call.caller(), number).await?;
                answer(tei, context, message).await.map_err(status)
            }
        });
        Ok(Response::new(until_error(answers.buffered(STREAM_DEPTH)).boxed()))
    }
}

#[tonic::async_trait]
impl Info for Tei {
    async fn info(&self, request: Request<tei::InfoRequest>) -> Result<Response<tei::InfoResponse>, Status> {
        self.one(request, async |tei: Self, context: Context, _| {
            let encoder = described(&tei.0, context.named, &context.call).await?;
            let reranks = encoder.capabilities().any(|own| own == Capability::Rerank);
            Ok(tei::InfoResponse {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                model_id: encoder.id,
                model_sha: Some(encoder.revision).filter(|revision| !revision.is_empty()),
                model_dtype: "float32".to_owned(),
                model_type: match reranks {
                    true => tei::ModelType::Reranker.into(),
                    false => tei::ModelType::Embedding.into(),
                },
                max_input_length: encoder.max_tokens,
                max_batch_tokens: encoder.max_batch_tokens,
                max_client_batch_size: encoder.max_batch_items,
                ..tei::InfoResponse::default()
            })
        })
        .await
    }
}

#[tonic::async_trait]
impl Embed for Tei {
    async fn embed(&self, request: Request<tei::EmbedRequest>) -> Result<Response<tei::EmbedResponse>, Status> {
        self.one(request, |tei, context, message| async move {
            tei.embed_one(&context, message).await
        })
        .await
    }

    async fn embed_stream(
        &self,
        request: Request<Streaming<tei::EmbedRequest>>,
    ) -> Result<Response<BoxStream<tei::EmbedResponse>>, Status> {
        self.each(request, |tei, context, message| async move {
            tei.embed_one(&context, message).await
        })
    }

    async fn embed_sparse(
        &self,
        request: Request<tei::EmbedSparseRequest>,
    ) -> Result<Response<tei::EmbedSparseResponse>, Status> {
        self.one(request, |tei, context, message| async move {
            tei.embed_sparse(&context, message).await
        })
        .await
    }

    async fn embed_sparse_stream(
        &self,
        request: Request<Streaming<tei::EmbedSparseRequest>>,
    ) -> Result<Response<BoxStream<tei::EmbedSparseResponse>>, Status> {
        self.each(request, |tei, context, message| async move {
            tei.embed_sparse(&context, message).await
        })
    }

    async fn embed_all(
        &self,
        request: Request<tei::EmbedAllRequest>,
    ) -> Result<Response<tei::EmbedAllResponse>, Status> {
        self.one(request, |tei, context, message| async move {
            tei.embed_tokens(&context, message).await
        })
        .await
    }

    async fn embed_all_stream(
        &self,
        request: Request<Streaming<tei::EmbedAllRequest>>,
    ) -> Result<Response<BoxStream<tei::EmbedAllResponse>>, Status> {
        self.each(request, |tei, context, message| async move {
            tei.embed_tokens(&context, message).await
        })
    }
}

/// The refusal of calls that classify single texts. No model here classifies single texts.
fn of_pairs(call: &str) -> Status {
    Fault::unimplemented("classification models here read pairs of texts, not single texts")
        .hint(format!("call {call}"))
        .into()
}

#[tonic::async_trait]
impl Predict for Tei {
    async fn predict(&self, _: Request<tei::PredictRequest>) -> Result<Response<tei::PredictResponse>, Status> {
        Err(of_pairs("PredictPair"))
    }

    async fn predict_stream(
        &self,
        _: Request<Streaming<tei::PredictRequest>>,
    ) -> Result<Response<BoxStream<tei::PredictResponse>>, Status> {
        Err(of_pairs("PredictPairStream"))
    }

    async fn predict_pair(
        &self,
        request: Request<tei::PredictPairRequest>,
    ) -> Result<Response<tei::PredictResponse>, Status> {
        self.one(request, |tei, context, message| async move {
            tei.predict_one(&context, message).await
        })
        .await
    }

    async fn predict_pair_stream(
        &self,
        request: Request<Streaming<tei::PredictPairRequest>>,
    ) -> Result<Response<BoxStream<tei::PredictResponse>>, Status> {
        self.each(request, |tei, context, message| async move {
            tei.predict_one(&context, message).await
        })
    }
}

#[tonic::async_trait]
impl Rerank for Tei {
    async fn rerank(&self, request: Request<tei::RerankRequest>) -> Result<Response<tei::RerankResponse>, Status> {
        self.one(request, |tei, context, message| async move {
            tei.rank(&context, message).await
        })
        .await
    }

    async fn rerank_stream(
        &self,
        request: Request<Streaming<tei::RerankStreamRequest>>,
    ) -> Result<Response<tei::RerankResponse>, Status> {
        let context = Context::of(request.metadata(), request.extensions())?;
        let most = self.0.max_message_bytes;
        let (mut whole, mut bytes) = (None, 0);
        let mut messages = request.into_inner();
        while let Some(message) = messages.try_next().await? {
            bytes += message.text.len() + message.query.len() + size_of::<String>();
            if bytes > most {
                let fault = Fault::invalid(
                    "text",
                    format!("brings the stream to {bytes} bytes, the most is {most}"),
                );
                return Err(fault.hint("send fewer documents").into());
            }
            let whole = whole.get_or_insert_with(|| tei::RerankRequest {
                query: message.query,
                texts: Vec::new(),
                truncate: message.truncate,
                raw_scores: message.raw_scores,
                return_text: message.return_text,
                truncation_direction: message.truncation_direction,
            });
            whole.texts.push(message.text);
        }
        self.rank(&context, whole.unwrap_or_default())
            .await
            .map(Response::new)
            .map_err(status)
    }
}

#[tonic::async_trait]
impl Tokenize for Tei {
    async fn tokenize(&self, request: Request<tei::EncodeRequest>) -> Result<Response<tei::EncodeResponse>, Status> {
        self.one(request, |tei, context, message| async move {
            tei.tokenize_one(&context, message).await
        })
        .await
    }

    async fn tokenize_stream(
        &self,
        request: Request<Streaming<tei::EncodeRequest>>,
    ) -> Result<Response<BoxStream<tei::EncodeResponse>>, Status> {
        self.each(request, |tei, context, message| async move {
            tei.tokenize_one(&context, message).await
        })
    }

    async fn decode(&self, request: Request<tei::DecodeRequest>) -> Result<Response<tei::DecodeResponse>, Status> {
        self.one(request, |tei, context, message| async move {
            tei.decode_one(&context, message).await
        })
        .await
    }

    async fn decode_stream(
        &self,
        request: Request<Streaming<tei::DecodeRequest>>,
    ) -> Result<Response<BoxStream<tei::DecodeResponse>>, Status> {
        self.each(request, |tei, context, message| async move {
            tei.decode_one(&context, message).await
        })
    }
}
