//! Parameters of the requests to a generator, and the form of its answers.

use isomer_config::spelling::nearest;
use isomer_service_kit::config::ConfigError;
use serde::{Deserialize, Serialize};

/// An optional parameter of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Parameter {
    MaxTokens,
    MaxCompletionTokens,
    Temperature,
    TopP,
    TopK,
    Seed,
    ResponseFormat,
}

isomer_names::names!(Parameter {
    MaxTokens = "max_tokens", MaxCompletionTokens = "max_completion_tokens", Temperature = "temperature", TopP = "top_p",
    TopK = "top_k", Seed = "seed", ResponseFormat = "response_format"
});

/// Parameters of the requests to a server that refuses some of OpenAI's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParametersConfig {
    /// Name of the parameter with the longest answer: `max_tokens`, or `max_completion_tokens`, as
    /// OpenAI's reasoning models require.
    pub max_tokens: MaxTokensName,
    /// Parameters that are not sent, for example `["temperature"]`: the server's own values count.
    /// A parameter that the server refuses by name is left out without this setting, too.
    pub omit: Vec<String>,
}

/// Name of the parameter with the longest answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensName {
    /// Every compatible server knows it.
    #[default]
    MaxTokens,
    /// OpenAI's newer models know this one only.
    MaxCompletionTokens,
}

/// Whether a server is asked for JSON with the text in a field of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structured {
    /// Plain text.
    #[default]
    Off,
    /// JSON by a schema (`response_format`), or plain text if the server refuses that.
    Auto,
    /// JSON by a schema; a server that refuses it gives no text.
    JsonSchema,
}

isomer_names::names!(Structured { Off = "off", Auto = "auto", JsonSchema = "json_schema" });

impl ParametersConfig {
    /// The parameters that are not sent.
    pub(crate) fn omitted(&self) -> Vec<Parameter> {
        let named = |name: &String| Parameter::named(name);
        let mut omitted: Vec<Parameter> = self.omit.iter().filter_map(named).collect();
        if omitted.contains(&Parameter::MaxTokens) {
            omitted.push(Parameter::MaxCompletionTokens);
        }
        if self.max_tokens == MaxTokensName::MaxCompletionTokens {
            omitted.push(Parameter::MaxTokens);
        }
        omitted
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let known = || {
            Parameter::ALL
                .into_iter()
                .filter(|one| *one != Parameter::ResponseFormat)
        };
        for name in &self.omit {
            if known().any(|one| one.name() == name) {
                continue;
            }
            let names: Vec<&str> = known().map(Parameter::name).collect();
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("give some of {}", names.join(", ")),
            };
            return Err(ConfigError::new(
                "parameters.omit",
                format!("`{name}` is not a parameter that may be left out"),
                hint,
            ));
        }
        Ok(())
    }
}
