//! The errors of this crate, and their one conversion to [`Fault`].

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use isomer_models::ModelError;
use isomer_service_kit::{Fault, config::ConfigError};
use tonic::Code;

/// A text could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The configuration is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A request field is invalid.
    #[error("{field}: {message} ({hint})")]
    Invalid {
        /// Path of the field.
        field: String,
        message: String,
        /// How to fix it.
        hint: String,
    },
    /// An encoder id that this server does not have.
    #[error("unknown encoder `{id}` ({hint})")]
    UnknownEncoder {
        id: String,
        /// The existing ids, or how to find them.
        hint: String,
    },
    /// A feature that this server does not support.
    #[error("{what}")]
    Unserved {
        /// The requested feature, and the supported alternative.
        what: String,
        field: String,
    },
    /// The model could not be found or fetched.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A file of a model folder is missing, broken, or requests an unsupported feature.
    #[error("{}: {problem} ({hint})", file.display())]
    File {
        file: PathBuf,
        problem: String,
        /// How to fix it.
        hint: String,
    },
    /// The requested device cannot be used.
    #[error("device `{device}`: {problem}")]
    Device {
        /// The configured device.
        device: String,
        problem: String,
    },
    /// The model's queue is full.
    #[error("the queue of encoder `{id}` is full: {queued_tokens} tokens wait")]
    Overloaded {
        /// The encoder.
        id: String,
        /// Tokens in the queue now.
        queued_tokens: usize,
        /// When there is likely to be room.
        retry_after: Duration,
    },
    /// There is currently no room for another model.
    #[error("encoder `{id}` needs {bytes} bytes; models that work hold {held} of embed.max_model_bytes = {most}")]
    NoRoom {
        /// The encoder.
        id: String,
        /// The bytes that it needs.
        bytes: u64,
        /// Bytes that cannot be freed now.
        held: u64,
        /// The bound.
        most: u64,
    },
    /// A model is larger than the bound on all models.
    #[error("encoder `{id}` needs {bytes} bytes, embed.max_model_bytes is {most}")]
    TooLarge {
        /// The encoder.
        id: String,
        /// The bytes that it needs.
        bytes: u64,
        /// The bound.
        most: u64,
    },
    /// The caller's deadline passed while the request waited.
    #[error("the request's deadline passed before its turn came")]
    DeadlineExceeded,
    /// The model returned a vector with NaN or infinite elements.
    #[error("encoder `{id}` returned a vector that is not finite for {list}[{index}]")]
    NotFinite {
        /// The encoder.
        id: String,
        /// Field of the request that holds the texts.
        list: &'static str,
        /// Index of the text in the request.
        index: usize,
    },
    /// The tokenizer refused a text.
    #[error("{field} cannot be tokenised: {message}")]
    Tokenise {
        /// Path of the text in the request.
        field: String,
        /// The tokenizer's message.
        message: String,
    },
    /// The tensor library failed.
    #[error("computing on `{device}` failed: {source}")]
    Compute {
        device: String,
        /// The library's error.
        source: candle_core::Error,
    },
    /// The device has too little free memory for a batch.
    #[error("`{device}` has too little free memory for this batch")]
    OutOfMemory { device: String },
    /// A device that fails at every call until the process is restarted.
    #[error("`{device}` can compute nothing until the process is restarted: {problem}")]
    DeviceLost {
        /// Its name, e.g. `cuda:0`.
        device: String,
        /// The driver's error.
        problem: String,
    },
    /// An internal error, such as a thread that has ended.
    #[error("internal: {0}")]
    Internal(String),
}

/// Errors of the CUDA driver after which every further call of the process fails with the same
/// error, according to its documentation.
const LOST: [&str; 13] = [
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_UNKNOWN",
];

impl EmbedError {
    /// The tensor library's error on a device.
    pub(crate) fn compute(device: String, source: candle_core::Error) -> Self {
        // These are names of codes of the driver and of cublas.
        let message = source.to_string();
        if message.contains("CUDA_ERROR_OUT_OF_MEMORY") || message.contains("CUBLAS_STATUS_ALLOC_FAILED") {
            return Self::OutOfMemory { device };
        }
        if LOST.iter().any(|name| message.contains(name)) {
            return Self::DeviceLost {
                device,
                problem: message,
            };
        }
        Self::Compute { device, source }
    }

    pub(crate) fn tokenise(field: impl std::fmt::Display, message: String) -> Self {
        Self::Tokenise {
            field: field.to_string(),
            message,
        }
    }

    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            message: message.into(),
            hint: hint.into(),
        }
    }

    pub(crate) fn unserved(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Unserved {
            what: what.into(),
            field: field.into(),
        }
    }

    pub(crate) fn file(file: &Path, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File {
            file: file.to_path_buf(),
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    /// The same error for another text of the failed batch.
    pub(crate) fn for_another(&self) -> Self {
        match self {
            Self::File { file, problem, hint } => Self::file(file, problem, hint),
            Self::OutOfMemory { device } => Self::OutOfMemory { device: device.clone() },
            Self::DeviceLost { device, problem } => Self::DeviceLost {
                device: device.clone(),
                problem: problem.clone(),
            },
            error => Self::Internal(error.to_string()),
        }
    }
}

impl From<EmbedError> for Fault {
    fn from(error: EmbedError) -> Self {
        let message = error.to_string();
        match error {
            EmbedError::Config(error) => Fault::new(Code::FailedPrecondition, "CONFIG_INVALID", error.to_string()),
            EmbedError::Invalid { field, message, hint } => Fault::invalid(field, message).hint(hint),
            EmbedError::UnknownEncoder { id, hint } => {
                Fault::not_found("UNKNOWN_ENCODER", format!("unknown encoder `{id}`"))
                    .field("encoder_id")
                    .hint(hint)
                    .with("encoder_id", id)
            }
            EmbedError::Unserved { what, field } => Fault::unimplemented(what).field(field),
            EmbedError::Model(error) => error.into(),
            EmbedError::File { file, problem, hint } => {
                let file = file.display().to_string();
                Fault::precondition("MODEL_UNUSABLE", format!("{file}: {problem}"))
                    .hint(hint)
                    .with("file", file)
            }
            EmbedError::Device { .. } => Fault::precondition("DEVICE_UNUSABLE", message),
            EmbedError::Overloaded { id, retry_after, .. } => {
                Fault::overloaded(message, retry_after).with("encoder_id", id)
            }
            EmbedError::NoRoom { id, .. } => Fault::overloaded(message, Duration::from_secs(1)).with("encoder_id", id),
            EmbedError::TooLarge { id, .. } => Fault::precondition("MODEL_TOO_LARGE", message)
                .hint("raise embed.max_model_bytes, or ask for a smaller encoder")
                .with("encoder_id", id),
            EmbedError::DeadlineExceeded => Fault::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message),
            EmbedError::NotFinite { id, list, index } => Fault::precondition("VECTOR_NOT_FINITE", message)
                .field(format!("{list}[{index}]"))
                .hint("the weights are damaged or overflow on this text; verify the model's files")
                .with("encoder_id", id),
            EmbedError::Tokenise { field, message } => Fault::invalid(field, format!("cannot be tokenised: {message}")),
            EmbedError::OutOfMemory { .. } => Fault::new(Code::ResourceExhausted, "OUT_OF_DEVICE_MEMORY", message)
                .hint("lower embed.max_batch_tokens, or serve fewer models on this device"),
            EmbedError::DeviceLost { .. } => Fault::unavailable("DEVICE_LOST", message)
                .hint("send the request to another server; this process ends, and serves again once it is restarted"),
            EmbedError::Compute { .. } | EmbedError::Internal(_) => Fault::internal(message),
        }
    }
}

impl From<EmbedError> for tonic::Status {
    fn from(error: EmbedError) -> Self {
        Fault::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_driver_are_sorted_by_their_code() {
        let of = |code: &str| {
            let message = format!("DriverError({code}, \"said by the driver\")");
            EmbedError::compute("cuda:0".into(), candle_core::Error::Msg(message))
        };
        for code in LOST {
            let error = of(code);
            assert!(matches!(error, EmbedError::DeviceLost { .. }), "{error:?}");
            assert!(error.to_string().contains(code), "{error}");
            // Every caller with texts in the batch gets the error.
            let fault = Fault::from(error.for_another());
            assert_eq!((fault.code, fault.reason.as_str()), (Code::Unavailable, "DEVICE_LOST"));
        }
        assert!(matches!(of("CUDA_ERROR_OUT_OF_MEMORY"), EmbedError::OutOfMemory { .. }));
        assert!(matches!(of("CUDA_ERROR_INVALID_VALUE"), EmbedError::Compute { .. }));
    }
}
