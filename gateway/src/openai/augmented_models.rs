//! Names that stand for an encoder with augmentation. They serve clients that can send only a
//! model's name, such as search engines.

use std::{collections::BTreeMap, sync::Arc};

use isomer_encoder_client::answer::asks;
use isomer_proto::encoder::v1::{EncodeRequest, Output, Truncation, encode_request::Prompt, input};
use isomer_service_kit::config::ConfigError;

use super::{
    Backends, Call,
    augment::{self, Augment, Originals},
    encoded_inputs::EncodedInputs,
    error::ApiError,
};
use crate::config::AugmentedModelConfig;

/// A configured name.
#[derive(Debug, Clone)]
pub(crate) struct AugmentedModel {
    pub(super) encoder: String,
    prompt_name: Option<String>,
    augment: Augment,
}

/// All configured names.
pub(crate) type AugmentedModels = Arc<BTreeMap<String, AugmentedModel>>;

/// Resolves the names of a configuration.
///
/// # Errors
/// If a name, its encoder or its `augment` is invalid.
pub(crate) fn models(config: &BTreeMap<String, AugmentedModelConfig>) -> Result<AugmentedModels, ConfigError> {
    let models = config.iter().map(|(name, own)| {
        let model = model(config, name, own).map_err(|error| error.within(name))?;
        Ok((name.clone(), model))
    });
    models.collect::<Result<_, _>>().map(Arc::new)
}

fn model(
    all: &BTreeMap<String, AugmentedModelConfig>,
    name: &str,
    config: &AugmentedModelConfig,
) -> Result<AugmentedModel, ConfigError> {
    let augment: Augment = serde_json::from_value(config.augment.clone()).map_err(|error| {
        let hint = "give what the field `augment` of /v1/embeddings takes, e.g. { transformations = [\"paraphrase\"], mode = \"cached\" }";
        ConfigError::new("augment", format!("cannot be read: {error}"), hint)
    })?;
    augment.check_standing()?;
    if config.encoder.is_empty() || config.encoder == name {
        return Err(ConfigError::new(
            "encoder",
            "names no encoder",
            "give the id of an encoder, which is another than this name",
        ));
    }
    if all.contains_key(&config.encoder) {
        return Err(ConfigError::new(
            "encoder",
            format!("`{}` is itself an augmented model", config.encoder),
            "give the id of its encoder",
        ));
    }
    Ok(AugmentedModel {
        encoder: config.encoder.clone(),
        prompt_name: config.prompt_name.clone(),
        augment,
    })
}

impl AugmentedModel {
    /// An encoder with the augmentation of one request.
    pub(super) fn of_request(encoder: String, augment: Augment) -> Self {
        Self {
            encoder,
            prompt_name: None,
            augment,
        }
    }

    /// The augmented vectors for a request through any of the HTTP APIs.
    pub(super) async fn encode(
        self,
        backends: &Backends,
        call: &Call,
        request: EncodeRequest,
    ) -> Result<EncodedInputs, ApiError> {
        let other = [Output::TokenVectors, Output::Sparse];
        if other.into_iter().any(|output| asks(&request, output)) {
            let field = match request.outputs.as_slice() {
                [] => "output",
                _ => "outputs",
            };
            return Err(
                ApiError::invalid(field, "an augmented text has one dense vector and no other result")
                    .hint(format!("name the encoder alone: {}", self.encoder)),
            );
        }
        if !matches!(request.truncation(), Truncation::Unspecified | Truncation::Tail) {
            return Err(ApiError::invalid(
                "truncation",
                "augmented texts that are too long are always cut at their end",
            )
            .hint("leave it out"));
        }
        let texts = request.inputs.into_iter().map(|input| match input.input {
            Some(input::Input::Text(text)) => Ok(text),
            _ => Err(
                ApiError::invalid("input", "token ids cannot be augmented: a generator reads texts")
                    .hint("send texts, or leave `augment` out"),
            ),
        });
        let texts = texts.collect::<Result<_, _>>()?;
        let own = || self.prompt_name.map(Prompt::PromptName);
        let originals = Originals {
            encoder_id: self.encoder,
            texts,
            prompt: request.prompt.or_else(own),
            dimensions: request.dimensions,
        };
        let wanted = self.augment.normalised(request.normalise)?;
        augment::encode(backends, call, originals, wanted).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn refused(config: Value) -> String {
        let config = serde_json::from_value(config).unwrap();
        models(&config).unwrap_err().field().to_owned()
    }

    #[test]
    fn what_a_name_stands_for_is_checked_at_the_start() {
        let good =
            json!({"fast-gase": {"encoder": "mini", "augment": {"transformations": ["paraphrase"], "mode": "cached"}}});
        let config = serde_json::from_value(good).unwrap();
        assert_eq!(models(&config).unwrap()["fast-gase"].encoder, "mini");
        let augment = json!({"transformations": ["paraphrase"]});
        for (config, field) in [
            (json!({"a": {"augment": augment}}), "a.encoder"),
            (json!({"a": {"encoder": "a", "augment": augment}}), "a.encoder"),
            (
                json!({"a": {"encoder": "b", "augment": augment}, "b": {"encoder": "mini", "augment": augment}}),
                "a.encoder",
            ),
            (json!({"a": {"encoder": "mini"}}), "a.augment"),
            (
                json!({"a": {"encoder": "mini", "augment": {"transformations": []}}}),
                "a.augment.transformations",
            ),
            (
                json!({"a": {"encoder": "mini", "augment": {"transformation": ["paraphrase"]}}}),
                "a.augment",
            ),
            (
                json!({"a": {"encoder": "mini", "augment": {"transformations": ["paraphrase"], "evidence": [[0.1]]}}}),
                "a.augment.evidence",
            ),
        ] {
            assert_eq!(refused(config.clone()), field, "{config}");
        }
    }
}
