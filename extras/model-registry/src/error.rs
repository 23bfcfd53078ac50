//! The errors of this crate, and their one conversion to [`Fault`].

use std::{io, path::PathBuf};

use isomer_service_kit::{Fault, config::ConfigError};
use tonic::Code;

/// A check of a version in a registry, or a part of it, failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A setting cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the registry has no version {version} of the model `{model}`")]
    NoVersion { model: String, version: String },
    /// The registry cannot be reached, is overloaded, or failed.
    #[error("{doing}: {message}")]
    Unavailable {
        /// The operation.
        doing: String,
        message: String,
    },
    #[error("{doing}: the registry answered {status}: {message}")]
    Refused {
        /// The operation.
        doing: String,
        /// The HTTP status.
        status: u16,
        /// The registry's code, e.g. `RESOURCE_DOES_NOT_EXIST`.
        code: String,
        message: String,
    },
    /// An answer has an unknown format.
    #[error("{doing}: the answer cannot be read: {message}")]
    Unreadable {
        /// The operation.
        doing: String,
        message: String,
    },
    /// The files of a version are in a location that cannot be read.
    #[error("the files are at `{uri}`: {message}")]
    Store {
        /// The location.
        uri: String,
        message: String,
    },
    /// The files of a version exceed a bound.
    #[error("{0}")]
    TooLarge(String),
    /// An error with a file of this machine.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    Check(#[from] Fault),
    /// The run ended without a report.
    #[error("the run {run} failed: {message}")]
    RunFailed {
        /// Id of the run.
        run: String,
        code: Code,
        message: String,
    },
}

impl RegistryError {
    /// For `map_err`: an error with a file.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// Whether the same request may succeed later without changes. Permanent failures are recorded
    /// in the registry; transient ones are retried.
    pub fn passes(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Io { .. } => true,
            Self::Refused { status, .. } => matches!(status, 401 | 403 | 408 | 429 | 500..),
            Self::Check(fault) => passes(fault.code),
            Self::RunFailed { code, .. } => passes(*code),
            Self::Config(_)
            | Self::NoVersion { .. }
            | Self::Unreadable { .. }
            | Self::Store { .. }
            | Self::TooLarge(_) => false,
        }
    }

    /// Whether the registry answered that something does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, code, .. } if *status == 404 || code == "RESOURCE_DOES_NOT_EXIST")
    }
}

fn passes(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::ResourceExhausted
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::Cancelled
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::Unknown
            | Code::Internal
    )
}

impl From<RegistryError> for Fault {
    fn from(error: RegistryError) -> Self {
        let message = error.to_string();
        match error {
            RegistryError::Config(error) => error.into(),
            RegistryError::Check(fault) => fault,
            RegistryError::NoVersion { .. } => Fault::not_found("UNKNOWN_VERSION", message)
                .hint("check --model and --version against the registry's page"),
            RegistryError::Unavailable { .. } => Fault::unavailable("REGISTRY", message)
                .hint("check that the registry runs (--tracking-uri, AWS_REGION); run the command again to resume"),
            RegistryError::Refused { status: 401 | 403, .. } => {
                Fault::new(Code::PermissionDenied, "REGISTRY", message).hint(
                    "MLflow: give MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; AWS: credentials \
                     that may list, describe and update model packages, and read and write the bucket",
                )
            }
            RegistryError::TooLarge(_) | RegistryError::Refused { .. } | RegistryError::Unreadable { .. } | RegistryError::Store { .. } => {
                Fault::precondition("REGISTRY", message)
            }
            RegistryError::Io { .. } => Fault::unavailable("REGISTRY_FOLDER", message)
                .hint("check that the folder is writable and the disk has room"),
            RegistryError::RunFailed { code, .. } => Fault::new(code, "RUN_FAILED", message),
        }
    }
}

/// The result type of this crate's operations.
pub type Result<T, E = RegistryError> = std::result::Result<T, E>;
