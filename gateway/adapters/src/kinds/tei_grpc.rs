//! text-embeddings-inference over gRPC.
//!
//! Source: `proto/tei.proto` of <https://github.com/huggingface/text-embeddings-inference>, package `tei.v1`; the messages below describe
//! the fields that are used, by its numbers. A call carries one text; the server batches the calls that it has at once.

use isomer_service_kit::Fault;
use prost::Message;

use super::tei::{ABILITIES, Info};
use crate::{
    ask::{Abilities, Ask, Cut, Piece},
    foreign::{Facts, Protocol, RerankOrder, Rows, Scores},
    grpc::Grpc,
    limits::{Deadline, Most},
};

/// Texts under way at once where the provider's limits do not say: each is a call of its own, out of which the server makes batches.
const AT_ONCE: usize = 32;

#[derive(Clone, PartialEq, Message)]
struct InfoRequest {}

#[derive(Clone, PartialEq, Message)]
struct InfoResponse {
    #[prost(string, tag = "4")]
    model_id: String,
    #[prost(string, optional, tag = "5")]
    model_sha: Option<String>,
    #[prost(string, tag = "6")]
    model_dtype: String,
    /// 0 embedding, 1 classifier, 2 reranker.
    #[prost(int32, tag = "7")]
    model_type: i32,
    #[prost(uint32, tag = "9")]
    max_input_length: u32,
}

#[derive(Clone, PartialEq, Message)]
struct EmbedRequest {
    #[prost(string, tag = "1")]
    inputs: String,
    #[prost(bool, tag = "2")]
    truncate: bool,
    #[prost(bool, optional, tag = "3")]
    normalize: Option<bool>,
    /// 0 right, 1 left.
    #[prost(int32, tag = "4")]
    truncation_direction: i32,
    #[prost(string, optional, tag = "5")]
    prompt_name: Option<String>,
    #[prost(uint32, optional, tag = "6")]
    dimensions: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(uint32, tag = "2")]
    compute_tokens: u32,
}

#[derive(Clone, PartialEq, Message)]
struct EmbedResponse {
    #[prost(float, repeated, tag = "1")]
    embeddings: Vec<f32>,
    #[prost(message, optional, tag = "2")]
    metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct RerankRequest {
    #[prost(string, tag = "1")]
    query: String,
    #[prost(string, repeated, tag = "2")]
    texts: Vec<String>,
    #[prost(bool, tag = "3")]
    truncate: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Rank {
    #[prost(uint32, tag = "1")]
    index: u32,
    #[prost(float, tag = "3")]
    score: f32,
}

#[derive(Clone, PartialEq, Message)]
struct RerankResponse {
    #[prost(message, repeated, tag = "1")]
    ranks: Vec<Rank>,
    #[prost(message, optional, tag = "2")]
    metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct TokenizeRequest {
    #[prost(string, tag = "1")]
    inputs: String,
    #[prost(bool, tag = "2")]
    add_special_tokens: bool,
    #[prost(string, optional, tag = "3")]
    prompt_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct SimpleToken {
    #[prost(uint32, tag = "1")]
    id: u32,
}

#[derive(Clone, PartialEq, Message)]
struct TokenizeResponse {
    #[prost(message, repeated, tag = "1")]
    tokens: Vec<SimpleToken>,
}

#[derive(Debug)]
pub(super) struct TeiGrpc(Grpc);

impl TeiGrpc {
    pub(super) fn new(grpc: Grpc) -> Self {
        Self(grpc)
    }

    async fn info(&self) -> Result<Info, Fault> {
        let info: InfoResponse = self.0.unary("/tei.v1.Info/Info", InfoRequest {}, None).await?;
        Ok(Info {
            served_as: info.model_id.clone(),
            model: info.model_id,
            revision: info.model_sha.unwrap_or_default(),
            dtype: info.model_dtype,
            reranks: info.model_type == 2,
            classifies: info.model_type == 1,
            max_tokens: info.max_input_length,
            // A limit of its HTTP interface.
            max_items: 0,
        })
    }
}

#[tonic::async_trait]
impl Protocol for TeiGrpc {
    fn abilities(&self) -> Abilities {
        Abilities {
            // A call carries one text.
            most_items: Most::of(1),
            at_once: AT_ONCE,
            ..ABILITIES
        }
    }

    async fn facts(&self, model: &str) -> Result<Facts, Fault> {
        self.info().await?.facts(&self.0.target.id, model)
    }

    async fn embed(&self, ask: &Ask, piece: Piece<'_>, _facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let [text] = piece.texts()? else {
            return Err(Fault::internal("several texts for a call that carries one"));
        };
        let request = EmbedRequest {
            inputs: text.clone(),
            truncate: ask.cut != Cut::Refuse,
            normalize: Some(ask.normalise.unwrap_or(true)),
            truncation_direction: i32::from(ask.cut == Cut::Head),
            prompt_name: ask.input_type.clone(),
            dimensions: ask.dimensions,
        };
        let answer: EmbedResponse = self.0.unary("/tei.v1.Embed/Embed", request, deadline).await?;
        Ok(Rows {
            tokens: answer.metadata.map(|metadata| metadata.compute_tokens.into()),
            vectors: vec![answer.embeddings],
            each: None,
        })
    }

    async fn count(
        &self,
        _model: &str,
        input_type: Option<&str>,
        texts: &[String],
        deadline: Deadline,
    ) -> Result<Vec<u32>, Fault> {
        let [text] = texts else {
            return Err(Fault::internal("several texts for a call that carries one"));
        };
        let request = TokenizeRequest {
            inputs: text.clone(),
            add_special_tokens: true,
            prompt_name: input_type.map(ToOwned::to_owned),
        };
        let answer: TokenizeResponse = self.0.unary("/tei.v1.Tokenize/Tokenize", request, deadline).await?;
        Ok(vec![u32::try_from(answer.tokens.len()).unwrap_or(u32::MAX)])
    }

    async fn rerank(&self, order: RerankOrder<'_>, deadline: Deadline) -> Result<Scores, Fault> {
        let request = RerankRequest {
            query: order.query.to_owned(),
            texts: order.documents.to_vec(),
            truncate: true,
        };
        let answer: RerankResponse = self.0.unary("/tei.v1.Rerank/Rerank", request, deadline).await?;
        Ok(Scores {
            tokens: answer.metadata.map(|metadata| metadata.compute_tokens.into()),
            scores: answer
                .ranks
                .iter()
                .map(|rank| (rank.index as usize, rank.score))
                .collect(),
        })
    }

    fn rerank_in_pieces(&self) -> bool {
        true
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.info().await.map(drop)
    }
}
