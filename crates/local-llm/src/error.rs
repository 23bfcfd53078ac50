//! Errors whose messages tell the user what to do.

use std::path::PathBuf;

/// Errors of loading a model and of generating with it.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The file cannot be opened.
    #[error("cannot open model file {path}: {source}")]
    Open { path: PathBuf, source: std::io::Error },
    /// The file is not a GGUF file, or it ends too early.
    #[error("{path} is not a complete GGUF file: {message}; download it again")]
    Format {
        path: PathBuf,
        /// The actual content.
        message: String,
    },
    /// A metadata key is absent.
    #[error("the model file has no metadata key `{key}`")]
    MissingKey { key: String },
    /// A metadata key has a value that cannot be used.
    #[error("metadata key `{key}`: {message}")]
    BadValue { key: String, message: String },
    /// A tensor is absent.
    #[error("the model file has no tensor `{name}`")]
    MissingTensor {
        /// The tensor.
        name: String,
    },
    /// A tensor has a shape or type that cannot be used.
    #[error("tensor `{name}`: {message}")]
    BadTensor {
        /// The tensor.
        name: String,
        message: String,
    },
    /// The vocabulary in the file does not make a tokenizer, or a text could not be tokenised.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// The chat template in the file cannot be parsed, or refuses the messages.
    #[error("chat template: {0}")]
    Template(String),
    /// The decoding threads could not be started.
    #[error("cannot start the decoding threads: {0}")]
    Threads(String),
    /// A request or option field has a value that cannot be used.
    #[error("{field}: {message}")]
    Invalid { field: &'static str, message: String },
    /// Prompt and answer exceed the context.
    #[error(
        "the prompt has {prompt_tokens} tokens and max_tokens is {max_tokens}: together more than the context of {limit}; \
         shorten the text, lower max_tokens or raise the context limit"
    )]
    ContextLength {
        prompt_tokens: usize,
        /// Maximum number of tokens of the answer.
        max_tokens: usize,
        /// Maximum number of tokens of prompt and answer together.
        limit: usize,
    },
    /// Too many requests are waiting already.
    #[error("{limit} requests wait for the model already; try again later")]
    QueueFull {
        /// The bound.
        limit: usize,
    },
    /// The decoding thread has ended.
    #[error("the local model has stopped")]
    Stopped,
}
