//! text-embeddings-inference over HTTP.
//!
//! Source: <https://huggingface.github.io/text-embeddings-inference/> (`/embed`, `/embed_sparse`,
//! `/rerank`, `/tokenize`, `/info`). The header `x-compute-tokens` gives the tokens of a request,
//! and `/info` the maximum number of texts per request.

use isomer_proto::gateway::v1::ProviderKind;
use isomer_service_kit::Fault;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    kind::{Kind, foreign},
    tei::{ABILITIES, Info, side},
};
use crate::{
    foreign::{Entries, Facts, Protocol, RerankOrder, Rows, Scores},
    limits::{AnswerLimit, Deadline},
    params::{Abilities, Cut, Params, Piece},
    rest::{Rest, RestAnswer},
};

/// Header with the tokens of a request.
const TOKENS: &str = "x-compute-tokens";

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::TeiHttp,
    grpc: false,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| foreign(&KIND, provider, surroundings, |target| Ok(TeiHttp(Rest::new(target)?))),
};

#[derive(Debug)]
pub(super) struct TeiHttp(Rest);

#[derive(Serialize)]
struct EmbedRequest<'a> {
    inputs: &'a [String],
    normalize: bool,
    truncate: bool,
    truncation_direction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

#[derive(Serialize)]
struct EmbedSparseRequest<'a> {
    inputs: &'a [String],
    truncate: bool,
    truncation_direction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_name: Option<&'a str>,
}

#[derive(Deserialize)]
struct SparseValue {
    index: u32,
    value: f32,
}

#[derive(Serialize)]
struct RerankRequest<'a> {
    query: &'a str,
    texts: &'a [String],
    truncate: bool,
    raw_scores: bool,
    return_text: bool,
}

#[derive(Deserialize)]
struct Rank {
    index: usize,
    score: f32,
}

#[derive(Serialize)]
struct TokenizeRequest<'a> {
    inputs: &'a [String],
    add_special_tokens: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_name: Option<&'a str>,
}

#[derive(Deserialize)]
struct InfoAnswer {
    model_id: String,
    #[serde(default)]
    served_model_name: String,
    model_sha: Option<String>,
    #[serde(default)]
    model_dtype: String,
    /// `{"embedding": {"pooling": …}}`, `{"reranker": …}` or `{"classifier": …}`.
    #[serde(default)]
    model_type: Value,
    #[serde(default)]
    max_input_length: u32,
    #[serde(default)]
    max_client_batch_size: u32,
}

impl TeiHttp {
    async fn info(&self) -> Result<Info, Fault> {
        let rest = &self.0;
        let info: InfoAnswer = rest.get(rest.url("info"), None).await?.body;
        Ok(Info {
            model: info.model_id,
            served_as: info.served_model_name,
            revision: info.model_sha.unwrap_or_default(),
            dtype: info.model_dtype,
            reranks: info.model_type.get("reranker").is_some(),
            classifies: info.model_type.get("classifier").is_some(),
            splade: info
                .model_type
                .pointer("/embedding/pooling")
                .map(|pooling| pooling == "splade"),
            max_tokens: info.max_input_length,
            max_items: info.max_client_batch_size,
        })
    }
}

#[tonic::async_trait]
impl Protocol for TeiHttp {
    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    async fn facts(&self, model: &str) -> Result<Facts, Fault> {
        self.info().await?.facts(&self.0.target.id, model)
    }

    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let rest = &self.0;
        let limit = AnswerLimit::vectors(piece.len(), facts.dimensions);
        let request = EmbedRequest {
            inputs: piece.texts()?,
            normalize: params.normalise.unwrap_or(true),
            truncate: params.cut != Cut::Refuse,
            truncation_direction: side(params.cut),
            prompt_name: params.input_type.as_deref(),
            dimensions: params.dimensions,
        };
        let answer: RestAnswer<Vec<Vec<f32>>> = rest.post(rest.url("embed"), &request, limit, deadline).await?;
        Ok(Rows {
            tokens: tokens(&answer),
            vectors: answer.body,
            each: None,
        })
    }

    async fn embed_sparse(
        &self,
        params: &Params,
        piece: Piece<'_>,
        deadline: Deadline,
    ) -> Result<Rows<Entries>, Fault> {
        let rest = &self.0;
        let request = EmbedSparseRequest {
            inputs: piece.texts()?,
            truncate: params.cut != Cut::Refuse,
            truncation_direction: side(params.cut),
            prompt_name: params.input_type.as_deref(),
        };
        let limit = AnswerLimit::vectors(piece.len(), 0);
        let answer: RestAnswer<Vec<Vec<SparseValue>>> =
            rest.post(rest.url("embed_sparse"), &request, limit, deadline).await?;
        let entries = |vector: &Vec<SparseValue>| vector.iter().map(|entry| (entry.index, entry.value)).collect();
        Ok(Rows {
            tokens: tokens(&answer),
            vectors: answer.body.iter().map(entries).collect(),
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
        let rest = &self.0;
        let request = TokenizeRequest {
            inputs: texts,
            add_special_tokens: true,
            prompt_name: input_type,
        };
        let answer: RestAnswer<Vec<Vec<serde::de::IgnoredAny>>> = rest
            .post(rest.url("tokenize"), &request, AnswerLimit::tokens(texts), deadline)
            .await?;
        let count = |tokens: &Vec<_>| u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        Ok(answer.body.iter().map(count).collect())
    }

    async fn rerank(&self, order: RerankOrder<'_>, deadline: Deadline) -> Result<Scores, Fault> {
        let rest = &self.0;
        let request = RerankRequest {
            query: order.query,
            texts: order.documents,
            truncate: true,
            raw_scores: order.logits,
            return_text: false,
        };
        let limit = AnswerLimit::scores(order.documents.len());
        let answer: RestAnswer<Vec<Rank>> = rest.post(rest.url("rerank"), &request, limit, deadline).await?;
        Ok(Scores {
            tokens: tokens(&answer),
            scores: answer.body.into_iter().map(|rank| (rank.index, rank.score)).collect(),
        })
    }

    fn rerank_in_pieces(&self) -> bool {
        true
    }

    fn gives_logits(&self) -> bool {
        true
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.info().await.map(drop)
    }
}

fn tokens<T>(answer: &RestAnswer<T>) -> Option<u64> {
    answer.headers.get(TOKENS)?.to_str().ok()?.parse().ok()
}
