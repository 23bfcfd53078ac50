//! Voyage AI.
//!
//! Source: <https://docs.voyageai.com/reference/embeddings-api> and
//! <https://docs.voyageai.com/reference/reranker-api>. At most 1000 texts and 120,000 tokens (the
//! lowest limit of its models); no text may be empty. The kind of input (`query`, `document`) is
//! optional. A text that is too long is cut at its end or refused.

use isomer_proto::gateway::v1::ProviderKind;
use isomer_service_kit::Fault;
use serde::Serialize;

use super::{
    embedding_list::{EmbeddingList, RelevanceList},
    kind::{Kind, foreign},
};
use crate::{
    foreign::{Facts, Protocol, RerankOrder, Rows, Scores},
    limits::{AnswerLimit, BatchLimit, Deadline},
    params::{AT_ONCE, Abilities, Cut, InputTypes, Params, Piece},
    rest::Rest,
};

const ABILITIES: Abilities = Abilities {
    kind: "voyage",
    input_types: InputTypes::Optional,
    cuts: &[Cut::Refuse, Cut::Tail],
    dimensions: true,
    token_ids: false,
    counts: false,
    sparse: false,
    reranks: true,
    most_items: BatchLimit::of(1000),
    most_tokens: BatchLimit::of(120_000),
    most_documents: BatchLimit::of(1000),
    at_once: AT_ONCE,
};

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::Voyage,
    grpc: false,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| foreign(&KIND, provider, surroundings, |target| Ok(Voyage(Rest::new(target)?))),
};

#[derive(Debug)]
pub(super) struct Voyage(Rest);

#[derive(Serialize)]
struct EmbedRequest<'a> {
    model: &'a str,
    input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    input_type: Option<&'a str>,
    truncation: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<u32>,
    output_dtype: &'static str,
    encoding_format: &'static str,
}

#[derive(Serialize)]
struct RerankRequest<'a> {
    model: &'a str,
    query: &'a str,
    documents: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    truncation: bool,
}

#[tonic::async_trait]
impl Protocol for Voyage {
    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let rest = &self.0;
        let limit = AnswerLimit::vectors(piece.len(), facts.dimensions);
        let request = EmbedRequest {
            model: &params.model,
            input: piece.texts()?,
            input_type: params.input_type.as_deref(),
            truncation: params.cut != Cut::Refuse,
            output_dimension: params.dimensions,
            output_dtype: "float",
            encoding_format: "base64",
        };
        let answer = rest
            .post::<EmbeddingList>(rest.url("v1/embeddings"), &request, limit, deadline)
            .await?;
        answer.body.rows(&rest.target.id, piece.len())
    }

    async fn rerank(&self, order: RerankOrder<'_>, deadline: Deadline) -> Result<Scores, Fault> {
        let rest = &self.0;
        let request = RerankRequest {
            model: order.model,
            query: order.query,
            documents: order.documents,
            top_k: order.top_n,
            truncation: true,
        };
        let limit = AnswerLimit::scores(order.documents.len());
        let answer = rest
            .post::<RelevanceList>(rest.url("v1/rerank"), &request, limit, deadline)
            .await?;
        Ok(answer.body.scores())
    }

    async fn healthy(&self) -> Result<(), Fault> {
        // This path does not exist; a 404 shows that the server answers.
        self.0.answers(self.0.url("v1/models")).await
    }
}
