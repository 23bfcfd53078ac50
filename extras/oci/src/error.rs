//! The errors of this crate, and their one conversion to [`Fault`].

use std::{io, path::PathBuf};

use isomer_service_kit::Fault;

/// A request to a registry, or what leads to it, failed.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// Not the name of an artifact.
    #[error("`{text}` does not name an artifact of a registry: {why}")]
    Reference {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Docker's configuration cannot be read.
    #[error("{}: {message}", .file.display())]
    Credentials {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The registry cannot be reached, is overloaded, or failed.
    #[error("{doing}: {message}")]
    Unavailable {
        /// What was being done.
        doing: String,
        /// What went wrong.
        message: String,
    },
    /// The registry does not let us.
    #[error("{doing}: the registry refuses it: {message}")]
    Denied {
        /// What was being done.
        doing: String,
        /// The registry's words.
        message: String,
    },
    /// The registry refused a request.
    #[error("{doing}: the registry answered {status}: {message}")]
    Refused {
        /// What was being done.
        doing: String,
        /// The HTTP status.
        status: u16,
        /// The registry's words.
        message: String,
    },
    /// The artifact is not there.
    #[error("the registry has no {0}")]
    Absent(String),
    /// An answer is not what it should be.
    #[error("{doing}: {message}")]
    Unreadable {
        /// What was being done.
        doing: String,
        /// What is wrong with it.
        message: String,
    },
    /// A file of this machine.
    #[error("writing {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
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

/// What the operations of this crate return.
pub type Result<T, E = OciError> = std::result::Result<T, E>;
