//! OpenAI's `POST /v1/embeddings`, and servers compatible with it (infinity, llama.cpp, LM Studio
//! and others). None of them gives sparse vectors: infinity (version 0.0.78) has none.
//!
//! Source: <https://platform.openai.com/docs/api-reference/embeddings>. Texts or token ids, at most
//! 2048 of them and 300,000 tokens; `dimensions` if the model was trained for it; base64 of
//! little-endian floats, which OpenAI's own clients request too. A text that is too long is an
//! error there, so refusal can be requested and cutting cannot.

use isomer_proto::gateway::v1::ProviderKind;
use isomer_service_kit::Fault;
use serde::Serialize;

use super::{
    embedding_list::EmbeddingList,
    kind::{Kind, foreign},
};
use crate::{
    foreign::{Facts, Protocol, Rows},
    limits::{AnswerLimit, BatchLimit, Deadline},
    params::{AT_ONCE, Abilities, Cut, InputTypes, Params, Piece},
    rest::Rest,
};

pub(super) const ABILITIES: Abilities = Abilities {
    kind: "openai",
    input_types: InputTypes::None,
    cuts: &[Cut::Refuse],
    dimensions: true,
    token_ids: true,
    counts: false,
    sparse: false,
    reranks: false,
    most_items: BatchLimit::of(2048),
    most_tokens: BatchLimit::of(300_000),
    most_documents: BatchLimit::UNKNOWN,
    at_once: AT_ONCE,
};

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::Openai,
    grpc: false,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| foreign(&KIND, provider, surroundings, |target| Ok(OpenAi(Rest::new(target)?))),
};

#[derive(Debug)]
pub(super) struct OpenAi(Rest);

#[derive(Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    input: Input<'a>,
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    Texts(&'a [String]),
    Tokens(&'a [Vec<u32>]),
}

impl<'a> From<Piece<'a>> for Input<'a> {
    fn from(piece: Piece<'a>) -> Self {
        match piece {
            Piece::Texts(texts) => Self::Texts(texts),
            Piece::Tokens(all) => Self::Tokens(all),
        }
    }
}

impl<'a> Request<'a> {
    pub(super) fn new(params: &'a Params, piece: Piece<'a>) -> Self {
        Self {
            model: &params.model,
            input: piece.into(),
            encoding_format: "base64",
            dimensions: params.dimensions,
        }
    }
}

#[tonic::async_trait]
impl Protocol for OpenAi {
    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let rest = &self.0;
        let limit = AnswerLimit::vectors(piece.len(), facts.dimensions);
        let answer = rest
            .post::<EmbeddingList>(rest.url("v1/embeddings"), &Request::new(params, piece), limit, deadline)
            .await?;
        answer.body.rows(&rest.target.id, piece.len())
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.0.answers(self.0.url("v1/models")).await
    }
}
