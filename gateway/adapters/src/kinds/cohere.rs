//! Cohere's API, version 2.
//!
//! Source: <https://docs.cohere.com/reference/embed> and
//! <https://docs.cohere.com/reference/rerank>. At most 96 texts. The kind of input
//! (`search_document`, `search_query`, `classification`, `clustering`) is required. A text that is
//! too long is cut at its end or its start, or refused. Reranking is billed in searches and reports
//! no tokens.

use isomer_proto::gateway::v1::ProviderKind;
use isomer_service_kit::Fault;
use serde::{Deserialize, Serialize};

use super::{
    embedding_list::Relevance,
    kind::{Kind, foreign},
};
use crate::{
    foreign::{Facts, Protocol, RerankOrder, Rows, Scores},
    limits::{AnswerLimit, BatchLimit, Deadline},
    params::{AT_ONCE, Abilities, Cut, InputTypes, Params, Piece},
    rest::Rest,
};

const ABILITIES: Abilities = Abilities {
    kind: "cohere",
    input_types: InputTypes::Required,
    cuts: &[Cut::Refuse, Cut::Head, Cut::Tail],
    dimensions: true,
    token_ids: false,
    counts: false,
    sparse: false,
    reranks: true,
    most_items: BatchLimit::of(96),
    most_tokens: BatchLimit::UNKNOWN,
    most_documents: BatchLimit::of(1000),
    at_once: AT_ONCE,
};

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::CohereV2,
    grpc: false,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| foreign(&KIND, provider, surroundings, |target| Ok(Cohere(Rest::new(target)?))),
};

#[derive(Debug)]
pub(super) struct Cohere(Rest);

#[derive(Serialize)]
struct EmbedRequest<'a> {
    model: &'a str,
    texts: &'a [String],
    input_type: &'a str,
    embedding_types: [&'static str; 1],
    truncate: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<u32>,
}

#[derive(Deserialize)]
struct EmbedAnswer {
    embeddings: ByType,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct ByType {
    float: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Meta {
    billed_units: Option<BilledUnits>,
}

#[derive(Deserialize)]
struct BilledUnits {
    /// Cohere's schema allows a fraction.
    input_tokens: Option<f64>,
}

#[derive(Serialize)]
struct RerankRequest<'a> {
    model: &'a str,
    query: &'a str,
    documents: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<u32>,
}

#[derive(Deserialize)]
struct RerankAnswer {
    results: Vec<Relevance>,
}

#[tonic::async_trait]
impl Protocol for Cohere {
    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let rest = &self.0;
        let limit = AnswerLimit::vectors(piece.len(), facts.dimensions);
        let request = EmbedRequest {
            model: &params.model,
            texts: piece.texts()?,
            input_type: params.input_type.as_deref().unwrap_or_default(),
            embedding_types: ["float"],
            truncate: match params.cut {
                Cut::Refuse => "NONE",
                Cut::Head => "START",
                Cut::Tail | Cut::AsItIs => "END",
            },
            output_dimension: params.dimensions,
        };
        let answer: EmbedAnswer = rest.post(rest.url("v2/embed"), &request, limit, deadline).await?.body;
        let billed = answer.meta.and_then(|meta| meta.billed_units?.input_tokens);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Rows {
            vectors: answer.embeddings.float,
            tokens: billed.filter(|tokens| *tokens >= 1.0).map(|tokens| tokens as u64),
            each: None,
        })
    }

    async fn rerank(&self, order: RerankOrder<'_>, deadline: Deadline) -> Result<Scores, Fault> {
        let rest = &self.0;
        let request = RerankRequest {
            model: order.model,
            query: order.query,
            documents: order.documents,
            top_n: order.top_n,
        };
        let limit = AnswerLimit::scores(order.documents.len());
        let answer: RerankAnswer = rest.post(rest.url("v2/rerank"), &request, limit, deadline).await?.body;
        Ok(Scores {
            scores: answer.results.into_iter().map(Relevance::pair).collect(),
            tokens: None,
        })
    }

    async fn healthy(&self) -> Result<(), Fault> {
        // The list of models belongs to version 1 and is free.
        self.0.answers(self.0.url("v1/models")).await
    }
}
