//! Ollama.
//!
//! Source: <https://docs.ollama.com/api/embed>,
//! <https://docs.ollama.com/api-reference/show-model-details> and
//! <https://docs.ollama.com/api/tags>. A text that is too long is cut at its end or refused. The
//! digest of the model's manifest serves as its revision, because a tag such as `latest` can be
//! another model tomorrow.

use std::collections::HashMap;

use isomer_proto::gateway::v1::ProviderKind;
use isomer_service_kit::Fault;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kind::{Kind, foreign};
use crate::{
    foreign::{Facts, Protocol, Rows},
    limits::{AnswerLimit, BatchLimit, Deadline},
    params::{AT_ONCE, Abilities, Cut, InputTypes, Params, Piece},
    rest::Rest,
};

const ABILITIES: Abilities = Abilities {
    kind: "ollama",
    input_types: InputTypes::None,
    cuts: &[Cut::Refuse, Cut::Tail],
    dimensions: true,
    token_ids: false,
    counts: false,
    sparse: false,
    reranks: false,
    most_items: BatchLimit::UNKNOWN,
    most_tokens: BatchLimit::UNKNOWN,
    most_documents: BatchLimit::UNKNOWN,
    at_once: AT_ONCE,
};

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::Ollama,
    grpc: false,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| foreign(&KIND, provider, surroundings, |target| Ok(Ollama(Rest::new(target)?))),
};

#[derive(Debug)]
pub(super) struct Ollama(Rest);

#[derive(Serialize)]
struct EmbedRequest<'a> {
    model: &'a str,
    input: &'a [String],
    truncate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

#[derive(Deserialize)]
struct EmbedAnswer {
    embeddings: Vec<Vec<f32>>,
    prompt_eval_count: Option<u64>,
}

#[derive(Serialize)]
struct ShowRequest<'a> {
    model: &'a str,
}

#[derive(Deserialize)]
struct ModelDetails {
    #[serde(default)]
    model_info: HashMap<String, Value>,
    #[serde(default)]
    details: Details,
}

#[derive(Deserialize, Default)]
struct Details {
    #[serde(default)]
    quantization_level: String,
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
    #[serde(default)]
    digest: String,
}

#[tonic::async_trait]
impl Protocol for Ollama {
    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    async fn facts(&self, model: &str) -> Result<Facts, Fault> {
        let rest = &self.0;
        let model_details: ModelDetails = rest
            .post(rest.url("api/show"), &ShowRequest { model }, AnswerLimit::FACTS, None)
            .await?
            .body;
        let tags: Tags = rest.get(rest.url("api/tags"), None).await?.body;
        let full = if model.contains(':') {
            model.to_owned()
        } else {
            format!("{model}:latest")
        };
        let digest = tags
            .models
            .into_iter()
            .find(|tag| tag.name == full)
            .map(|tag| tag.digest);
        let text = |key: &str| {
            model_details
                .model_info
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let architecture = text("general.architecture");
        let number = |what: &str| {
            let value = model_details
                .model_info
                .get(&format!("{architecture}.{what}"))
                .and_then(Value::as_u64);
            value.and_then(|value| u32::try_from(value).ok()).unwrap_or_default()
        };
        let level = model_details.details.quantization_level.to_ascii_lowercase();
        Ok(Facts {
            revision: digest.unwrap_or_default(),
            arithmetic: if matches!(level.as_str(), "f32" | "unknown") {
                String::new()
            } else {
                level
            },
            dimensions: number("embedding_length"),
            max_tokens: number("context_length"),
            architecture,
            ..Facts::default()
        })
    }

    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let rest = &self.0;
        let limit = AnswerLimit::vectors(piece.len(), facts.dimensions);
        let request = EmbedRequest {
            model: &params.model,
            input: piece.texts()?,
            truncate: params.cut != Cut::Refuse,
            dimensions: params.dimensions,
        };
        let answer: EmbedAnswer = rest.post(rest.url("api/embed"), &request, limit, deadline).await?.body;
        Ok(Rows {
            vectors: answer.embeddings,
            tokens: answer.prompt_eval_count.filter(|tokens| *tokens > 0),
            each: None,
        })
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.0.answers(self.0.url("api/version")).await
    }
}
