//! Jina AI.
//!
//! Source: <https://api.jina.ai/openapi.json>, <https://jina.ai/embeddings> and
//! <https://jina.ai/reranker>. The kind of input is called `task` (`retrieval.query`,
//! `retrieval.passage`, `text-matching`, `classification`, `separation`) and is optional. A text
//! that is too long is cut at its end or refused. `late_chunking` makes a text's vector depend on
//! the other texts of the request and is never used.

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
    kind: "jina",
    input_types: InputTypes::Optional,
    cuts: &[Cut::Refuse, Cut::Tail],
    dimensions: true,
    token_ids: false,
    counts: false,
    sparse: false,
    reranks: true,
    most_items: BatchLimit::UNKNOWN,
    most_tokens: BatchLimit::UNKNOWN,
    most_documents: BatchLimit::UNKNOWN,
    at_once: AT_ONCE,
};

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::Jina,
    grpc: false,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| foreign(&KIND, provider, surroundings, |target| Ok(Jina(Rest::new(target)?))),
};

#[derive(Debug)]
pub(super) struct Jina(Rest);

#[derive(Serialize)]
struct EmbedRequest<'a> {
    model: &'a str,
    input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    truncate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
    normalized: bool,
    embedding_type: &'static str,
}

#[derive(Serialize)]
struct RerankRequest<'a> {
    model: &'a str,
    query: &'a str,
    documents: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<u32>,
    return_documents: bool,
}

#[tonic::async_trait]
impl Protocol for Jina {
    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    async fn facts(&self, _model: &str) -> Result<Facts, Fault> {
        Ok(Facts {
            normalises_as_asked: true,
            ..Facts::default()
        })
    }

    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let rest = &self.0;
        let limit = AnswerLimit::vectors(piece.len(), facts.dimensions);
        let request = EmbedRequest {
            model: &params.model,
            input: piece.texts()?,
            task: params.input_type.as_deref(),
            truncate: params.cut != Cut::Refuse,
            dimensions: params.dimensions,
            normalized: params.normalise.unwrap_or(true),
            embedding_type: "base64",
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
            top_n: order.top_n,
            return_documents: false,
        };
        let limit = AnswerLimit::scores(order.documents.len());
        let answer = rest
            .post::<RelevanceList>(rest.url("v1/rerank"), &request, limit, deadline)
            .await?;
        Ok(answer.body.scores())
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.0.answers(self.0.url("v1/models")).await
    }
}
