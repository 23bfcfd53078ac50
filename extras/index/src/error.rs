//! The errors of this crate, and their one conversion to [`Fault`].

use isomer_datasets::DatasetError;
use isomer_service_kit::Fault;
use tonic::{Code, Status};

/// Filling, checking or comparing an index failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A setting cannot be used.
    #[error("{field}: {message}")]
    Setting {
        /// The flag, or the part of an address.
        field: &'static str,
        message: String,
        hint: &'static str,
    },
    /// A store or a database cannot be reached, is overloaded, or failed.
    #[error("{doing}: {message}")]
    Unavailable {
        /// The operation.
        doing: String,
        message: String,
    },
    /// A store or a database refused a request.
    #[error("{doing}: {message}")]
    Refused {
        /// The operation.
        doing: String,
        /// The message of the store.
        message: String,
    },
    /// A row of the source cannot be used.
    #[error(transparent)]
    File(#[from] DatasetError),
    /// An invalid row of a source that is not a file.
    #[error("{source_name}: {message}")]
    Source { source_name: String, message: String },
    /// Two rows of the source have the same key.
    #[error("the source has the key `{key}` twice; which of the two rows is indexed would depend on chance")]
    SameKey { key: String },
    /// The collection holds vectors of another space, augmentation or division into chunks.
    #[error("{collection} holds vectors that differ from those of these settings: {difference}")]
    OtherSpace {
        collection: String,
        /// The difference, in words.
        difference: String,
    },
    /// An older isomer filled the collection.
    #[error(
        "{collection} was filled by an older isomer, which did not record the encoder's settings (configuration, tokenizer, \
         maximum length): whether they are those of now is unknown"
    )]
    OlderSpace {
        /// Its name, as the user wrote it.
        collection: String,
    },
    /// A collection of this name was not made by Isomer.
    #[error("{collection} was not made by `isomer index`: {message}")]
    Foreign {
        collection: String,
        /// The evidence.
        message: String,
    },
    /// The collection does not exist.
    #[error("there is no {collection}")]
    NoCollection { collection: String },
    /// A step of a migration is not due.
    #[error("cannot {step} {name}: {message}")]
    Order {
        name: String,
        step: &'static str,
        message: String,
        hint: &'static str,
    },
    /// The name of a collection no longer leads to the collection of the run's beginning.
    #[error("{collection} is no longer written to as this run does: {message}")]
    Moved {
        collection: String,
        /// The change.
        message: String,
    },
    /// The new collection of a migration lacks content of the old one.
    #[error("{collection} cannot serve in the place of {serving}: {message}")]
    Incomplete {
        /// The collection that should serve.
        collection: String,
        serving: String,
        /// The missing content.
        message: String,
        hint: &'static str,
    },
    /// More rows are gone from the source than may be deleted.
    #[error(
        "{gone} of {rows} stored rows belong to documents that the source no longer has; at most {most} may be deleted"
    )]
    TooManyDeletes {
        /// Number of rows to delete.
        gone: usize,
        /// Number of stored rows.
        rows: usize,
        /// Maximum number of rows to delete.
        most: usize,
    },
    /// The encoder could not encode many of the documents.
    #[error("{failed} of the first {documents} documents could not be encoded, for example `{key}`: {reason}")]
    TooManyFailed {
        failed: u64,
        documents: u64,
        /// One of them.
        key: String,
        reason: String,
    },
    /// The encoder, the generator or the server in front of them.
    #[error(transparent)]
    Encoder(#[from] Fault),
    /// A statistic that is undefined.
    #[error("{0}")]
    Statistic(#[from] isomer_stats::StatsError),
}

impl IndexError {
    /// Whether the same request may succeed later without changes.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Encoder(fault) => matches!(
                fault.code,
                Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted
            ),
            _ => false,
        }
    }
}

impl From<Status> for IndexError {
    fn from(status: Status) -> Self {
        Self::Encoder(Fault::from_status(&status))
    }
}

impl From<IndexError> for Fault {
    fn from(error: IndexError) -> Self {
        let message = error.to_string();
        match error {
            IndexError::Encoder(fault) => fault,
            IndexError::Setting { field, message, hint } => Self::invalid(field, message).hint(hint),
            IndexError::Unavailable { .. } => Self::unavailable("INDEX", message).hint(
                "check that it runs and can be reached; run the same command again to resume",
            ),
            IndexError::Refused { .. } => Self::precondition("INDEX", message),
            IndexError::File(_) => Self::new(Code::InvalidArgument, "BROKEN_DATASET", message),
            IndexError::Source { .. } => Self::precondition("SOURCE", message),
            IndexError::TooManyFailed { .. } => Self::precondition("NOT_ENCODED", message)
                .hint("check the encoder and these documents; run the same command again to resume"),
            IndexError::SameKey { .. } => Self::precondition("SAME_KEY", message)
                .hint("name a column with a value of its own for each row (--key)"),
            IndexError::OtherSpace { .. } => Self::precondition("OTHER_SPACE", message)
                .hint("name a collection that does not exist yet, or give the settings that this one was filled with"),
            IndexError::OlderSpace { .. } => Self::precondition("OLDER_SPACE", message).hint(
                "fill a new collection, or pass --accept-unrecorded-settings if the encoder's files have not changed since; \
                 `isomer index verify` with that flag compares stored vectors with new ones",
            ),
            IndexError::Foreign { .. } => Self::precondition("FOREIGN_COLLECTION", message)
                .hint("name a collection that does not exist yet: it is created"),
            IndexError::NoCollection { .. } => {
                Self::precondition("NO_COLLECTION", message).hint("`isomer index run` creates it")
            }
            IndexError::Order { hint, .. } => Self::precondition("MIGRATION_ORDER", message).hint(hint),
            IndexError::Moved { .. } => Self::precondition("COLLECTION_MOVED", message).hint(
                "write to the name of the collection, not to a collection behind it: the same command then resumes",
            ),
            IndexError::Incomplete { hint, .. } => Self::precondition("MIGRATION_INCOMPLETE", message).hint(hint),
            IndexError::TooManyDeletes { .. } => Self::precondition("TOO_MANY_DELETES", message).hint(
                "nothing was deleted; if the source is the right one and complete, allow more with --delete-more SHARE",
            ),
            IndexError::Statistic(_) => Self::internal(message),
        }
    }
}

/// The result type of this crate's operations.
pub type Result<T, E = IndexError> = std::result::Result<T, E>;
