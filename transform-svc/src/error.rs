//! The errors of this crate, and their one conversion to a [`Fault`].

use std::{sync::Arc, time::Duration};

use isomer_models::ModelError;
use isomer_outbound::shared_limits::PAUSED;
use isomer_service_kit::{Fault, config::ConfigError};

use crate::cache::CacheError;

pub const GENERATOR_FORMS: &str = "`local:ID`, `local:` and a path to a .gguf file, `openai:MODEL@URL`, or `none`";

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum TransformError {
    /// A request field that cannot be used.
    #[error("{field}: {message}")]
    Invalid {
        /// Path of the field.
        field: String,
        message: String,
        /// How to fix it.
        hint: String,
    },
    /// A generator id that matches nothing.
    #[error("unknown generator `{id}`")]
    UnknownGenerator {
        id: String,
        /// Ids of the configuration.
        configured: Vec<String>,
    },
    /// A generator that cannot be connected to.
    #[error("the generator `{id}` cannot be reached: {message}")]
    Unreachable { id: String, message: String },
    /// A generator that refuses every request: wrong key, unknown model, no quota left.
    #[error("the generator `{id}` refuses every request: {message}")]
    Refused {
        id: String,
        /// The generator's message.
        message: String,
        /// How to fix it.
        hint: String,
    },
    /// A generator whose server asked all processes of the fleet to stop calling it for a long
    /// time.
    #[error("the generator `{id}` asked for a pause of another {} s", .wait.as_secs_f64().ceil())]
    Paused {
        id: String,
        /// The remaining pause.
        wait: Duration,
    },
    /// A local model that cannot be used.
    #[error("the local model `{id}` cannot be used: {message}")]
    LocalModel { id: String, message: String },
    /// A text failed, and the request's policy is to abort.
    #[error("text {index} (id `{id}`) failed: {why}")]
    Aborted {
        index: u32,
        id: String,
        /// Checks that fired, or the generator's error.
        why: String,
    },
    /// A prompt file that cannot be used.
    #[error("prompt {file}: {message}")]
    Prompt { file: String, message: String },
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A cache error that affects several texts at once.
    #[error("{0}")]
    SharedCache(Arc<CacheError>),
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A model was not found.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The process is shutting down while texts are being generated.
    #[error("the service is shutting down")]
    ShuttingDown,
    #[error("{0}")]
    Serve(Box<Fault>),
}

impl TransformError {
    /// Whether a generator failed, rather than the request or this process.
    pub(crate) fn is_of_generator(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Refused { .. } | Self::Paused { .. }
        )
    }

    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl From<Fault> for TransformError {
    fn from(fault: Fault) -> Self {
        Self::Serve(Box::new(fault))
    }
}

impl From<TransformError> for Fault {
    fn from(error: TransformError) -> Self {
        use tonic::Code;
        let message = error.to_string();
        match error {
            TransformError::Invalid { field, message, hint } => Fault::invalid(field, message).hint(hint),
            TransformError::UnknownGenerator { id, configured } => {
                let configured = if configured.is_empty() { "none".to_owned() } else { configured.join(", ") };
                Fault::not_found("UNKNOWN_GENERATOR", message)
                    .field("spec.generator_id")
                    .hint(format!("use {GENERATOR_FORMS}, or an id of the configuration, which has {configured}"))
                    .with("generator_id", id)
            }
            TransformError::Unreachable { id, .. } => Fault::unavailable("GENERATOR_UNREACHABLE", message)
                .hint("start the server, or correct the URL of the generator")
                .retry_after(Duration::from_secs(5))
                .with("generator_id", id),
            TransformError::Refused { id, hint, .. } => {
                Fault::precondition("GENERATOR_REFUSED", message).hint(hint).with("generator_id", id)
            }
            TransformError::Paused { id, wait } => Fault::unavailable(PAUSED, message)
                .hint("ask again after the pause, or use another generator")
                .retry_after(wait)
                .with("generator_id", id),
            TransformError::LocalModel { id, .. } => Fault::precondition("LOCAL_MODEL_UNUSABLE", message)
                .hint("`isomer models verify` says whether the file is whole; the model must be a GGUF of a supported architecture")
                .with("generator_id", id),
            TransformError::Aborted { index, .. } => Fault::new(Code::Aborted, "TEXT_FAILED", message)
                .field(format!("items[{index}]"))
                .hint("set on_failure to keep the original or to drop it, allow more attempts, or take a stronger generator"),
            TransformError::Prompt { .. } => {
                Fault::precondition("BAD_PROMPT", message).hint("correct it, or leave it out")
            }
            TransformError::SharedCache(error) if error.shared => Fault::unavailable("STORE_UNAVAILABLE", message)
                .hint("check store.url, its credentials, and that the store can be reached"),
            TransformError::Cache(_) | TransformError::SharedCache(_) => Fault::precondition("CACHE_UNUSABLE", message)
                .hint("make `cache_dir` writable and free space, or set `bypass_cache` (--no-cache)"),
            TransformError::Config(_) => Fault::precondition("BAD_CONFIGURATION", message),
            TransformError::Model(error) => error.into(),
            TransformError::ShuttingDown => Fault::unavailable("SHUTTING_DOWN", message)
                .hint("ask again: what was made is in the cache")
                .retry_after(Duration::from_secs(5)),
            TransformError::Serve(fault) => *fault,
        }
    }
}

impl From<TransformError> for tonic::Status {
    fn from(error: TransformError) -> Self {
        Fault::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn each_error_has_a_code_and_says_how_to_hint_it() {
        let id = || "openai:m@http://x".to_owned();
        for (error, code) in [
            (
                TransformError::invalid("items", "no texts", "send one"),
                Code::InvalidArgument,
            ),
            (
                TransformError::UnknownGenerator {
                    id: id(),
                    configured: vec!["big".into()],
                },
                Code::NotFound,
            ),
            (
                TransformError::Unreachable {
                    id: id(),
                    message: "connection refused".into(),
                },
                Code::Unavailable,
            ),
            (
                TransformError::Refused {
                    id: id(),
                    message: "401".into(),
                    hint: "set the key".into(),
                },
                Code::FailedPrecondition,
            ),
            (
                TransformError::Aborted {
                    index: 3,
                    id: "x".into(),
                    why: "empty".into(),
                },
                Code::Aborted,
            ),
        ] {
            let text = error.to_string();
            let fault = Fault::from(error);
            assert_eq!(fault.code, code, "{text}");
            assert!(fault.hint.is_some_and(|hint| !hint.is_empty()), "{text}");
        }
        let fault = Fault::from(TransformError::UnknownGenerator {
            id: id(),
            configured: vec!["big".into()],
        });
        assert!(
            fault
                .hint
                .is_some_and(|hint| hint.contains("openai:MODEL@URL") && hint.contains("big"))
        );
    }
}
