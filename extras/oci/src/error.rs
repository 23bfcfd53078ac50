//! The errors of this crate, and their one conversion to [`Fault`].

use std::{io, path::PathBuf};

use isomer_service_kit::Fault;

/// A request to a registry, or its preparation, failed.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// The text is not the name of an artifact.
    #[error("`{text}` does not name an artifact of a registry: {why}")]
    Reference { text: String, why: &'static str },
    /// Docker's configuration cannot be read.
    #[error("{}: {message}", .file.display())]
    Credentials { file: PathBuf, message: String },
    /// The registry cannot be reached, is overloaded, or failed.
    #[error("{doing}: {message}")]
    Unavailable {
        /// The operation.
        doing: String,
        message: String,
    },
    /// The registry denies access.
    #[error("{doing}: the registry refuses it: {message}")]
    Denied {
        /// The operation.
        doing: String,
        /// The registry's message.
        message: String,
    },
    /// The registry refused a request.
    #[error("{doing}: the registry answered {status}: {message}")]
    Refused {
        /// The operation.
        doing: String,
        /// The HTTP status.
        status: u16,
        /// The registry's message.
        message: String,
    },
    /// The artifact does not exist.
    #[error("the registry has no {0}")]
    Absent(String),
    /// An answer is invalid.
    #[error("{doing}: {message}")]
    Unreadable {
        /// The operation.
        doing: String,
        message: String,
    },
    /// An error with a file of this machine.
    #[error("writing {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl From<OciError> for Fault {
    fn from(error: OciError) -> Self {
        let message = error.to_string();
        match error {
            OciError::Reference { .. } => Self::invalid("OCI_REFERENCE", message)
                .hint("name it as registry.example.com/encoders/enc:1 or registry.example.com/encoders/enc@sha256:…"),
            OciError::Credentials { .. } => Self::precondition("OCI_CREDENTIALS", message)
                .hint("log in again (docker login, oras login), or name another folder in DOCKER_CONFIG"),
            OciError::Unavailable { .. } => {
                Self::unavailable("OCI_REGISTRY", message).hint("check that the registry can be reached, and try again")
            }
            OciError::Denied { .. } => Self::new(tonic::Code::PermissionDenied, "OCI_REGISTRY", message)
                .hint("log in with an account that may push there (docker login, oras login)"),
            OciError::Absent(_) => Self::not_found("OCI_ARTIFACT", message).hint("push the artifact first"),
            OciError::Refused { .. } | OciError::Unreadable { .. } => Self::precondition("OCI_REGISTRY", message),
            OciError::Io { .. } => Self::unavailable("OCI_FILE", message).hint("check that the disk has room"),
        }
    }
}

/// The result type of this crate's operations.
pub type Result<T, E = OciError> = std::result::Result<T, E>;
