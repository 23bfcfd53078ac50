//! Hugging Face Inference: feature extraction.
//!
//! Source: <https://huggingface.co/docs/inference-providers/tasks/feature-extraction>. An address
//! without a path is the router's (`https://router.huggingface.co`), where each model has its own
//! path. An address with a path is an endpoint of one model (Inference Endpoints) and is used
//! unchanged. The fields of the request are those of text-embeddings-inference, which runs behind
//! it.

use isomer_proto::gateway::v1::ProviderKind;
use isomer_service_kit::Fault;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    kind::{Kind, foreign},
    tei::side,
};
use crate::{
    foreign::{Facts, Protocol, Rows},
    limits::{AnswerLimit, BatchLimit, Deadline},
    params::{AT_ONCE, Abilities, Cut, InputTypes, Params, Piece},
    rest::Rest,
};

const ABILITIES: Abilities = Abilities {
    kind: "huggingface",
    input_types: InputTypes::Optional,
    cuts: &[Cut::Refuse, Cut::Head, Cut::Tail],
    dimensions: false,
    token_ids: false,
    counts: false,
    sparse: false,
    reranks: false,
    // The default limit of text-embeddings-inference.
    most_items: BatchLimit::of(32),
    most_tokens: BatchLimit::UNKNOWN,
    most_documents: BatchLimit::UNKNOWN,
    at_once: AT_ONCE,
};

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::HuggingFace,
    grpc: false,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| {
        foreign(&KIND, provider, surroundings, |target| {
            HuggingFace::new(Rest::new(target)?, provider.encoders.len())
        })
    },
};

#[derive(Debug)]
pub(super) struct HuggingFace {
    rest: Rest,
    /// Whether the address is a single model's endpoint.
    endpoint: bool,
}

#[derive(Serialize)]
struct Request<'a> {
    inputs: &'a [String],
    normalize: bool,
    truncate: bool,
    truncation_direction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_name: Option<&'a str>,
}

/// One vector per text, or one vector per token from a model without pooling.
#[derive(Deserialize)]
#[serde(untagged)]
enum FeatureAnswer {
    Texts(Vec<Vec<f32>>),
    #[expect(dead_code, reason = "read to distinguish it, then refused")]
    Tokens(Vec<Vec<Vec<f32>>>),
}

impl HuggingFace {
    fn new(rest: Rest, encoders: usize) -> Result<Self, Fault> {
        let endpoint = rest.target.url.path() != "/";
        if endpoint && encoders > 1 {
            return Err(Fault::invalid(
                "provider.encoders",
                "names several models, and an address with a path is of one",
            )
            .hint("give the router's address without a path, or one provider for each endpoint"));
        }
        Ok(Self { rest, endpoint })
    }

    fn url(&self, model: &str) -> Url {
        if self.endpoint {
            return self.rest.url("");
        }
        self.rest
            .url(&format!("hf-inference/models/{model}/pipeline/feature-extraction"))
    }
}

#[tonic::async_trait]
impl Protocol for HuggingFace {
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
        let limit = AnswerLimit::vectors(piece.len(), facts.dimensions);
        let request = Request {
            inputs: piece.texts()?,
            normalize: params.normalise.unwrap_or(true),
            truncate: params.cut != Cut::Refuse,
            truncation_direction: side(params.cut),
            prompt_name: params.input_type.as_deref(),
        };
        match self
            .rest
            .post(self.url(&params.model), &request, limit, deadline)
            .await?
            .body
        {
            FeatureAnswer::Texts(vectors) => Ok(Rows {
                vectors,
                tokens: None,
                each: None,
            }),
            FeatureAnswer::Tokens(_) => Err(Fault::precondition(
                "NO_POOLING",
                format!(
                    "`{}` gives a vector for each token: the model has no pooling there",
                    params.model
                ),
            )
            .hint("offer a sentence-transformers model")),
        }
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.rest.answers(self.rest.url("")).await
    }
}
