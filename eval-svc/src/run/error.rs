//! Errors of a run.

use std::{io, path::PathBuf};

use isomer_service_kit::Fault;
use tokio::task::JoinError;

use crate::{
    dataset::DatasetError, encoding::EncodingError, gate::GateError, run::record::RunState, suite::SuiteError,
    task::ScoreError,
};

/// A failure of the store of runs.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system or the parser.
        #[source]
        source: io::Error,
    },
    /// The database of the ledger failed.
    #[error("the ledger of runs: {0}")]
    Ledger(Box<Fault>),
    /// Another replica leads the run now, so nothing was written.
    #[error("another replica leads the run now")]
    Superseded,
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        Self::Ledger(Box::new(fault))
    }
}

/// A run cannot be created, found, continued or reported.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The suite is invalid.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    /// Too many runs are waiting in the queue.
    #[error("{most} runs {whose} are already waiting, which is the limit")]
    TooMany {
        /// The owner of the runs: the server or one caller.
        whose: &'static str,
        /// The limit.
        most: usize,
    },
    /// A field of the request is invalid.
    #[error("{message}")]
    Invalid {
        /// Path of the field.
        field: String,
        /// The problem and how to fix it.
        message: String,
    },
    /// A rule of the gate does not fit the run.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// A dataset of the suite cannot be used.
    #[error("{origin}: data set `{name}`: {source}")]
    Dataset {
        /// Place of the suite's entry.
        origin: String,
        /// Name of the dataset.
        name: String,
        /// The reason.
        #[source]
        source: DatasetError,
    },
    /// Two data sets of the suite have the same content.
    #[error("{first} and {second} have the same texts and labels, which would count twice; leave one of them out")]
    DatasetTwice {
        /// Place and name of the first.
        first: String,
        /// Place and name of the second.
        second: String,
    },
    /// Several datasets of the suite cannot be made available.
    #[error(
        "{} of the suite's {of} data sets cannot be had. The first: {source}. All of them (`isomer datasets` says where they come from): {}",
        .missing.len(),
        .missing.join(", ")
    )]
    Datasets {
        /// Datasets of the suite.
        of: usize,
        /// The missing datasets with the places of their entries.
        missing: Vec<String>,
        /// The reason why the first of them is missing.
        #[source]
        source: DatasetError,
    },
    /// A transformation does not support the language of some texts.
    #[error("{what} of texts in `{language}` ({}): {problem}", .datasets.join(", "))]
    Language {
        language: String,
        /// The data sets with texts in this language.
        datasets: Vec<String>,
        /// The transformation.
        what: String,
        /// The transform service's message.
        problem: String,
    },
    /// The transform service knows the transformation but does not serve it yet.
    #[error("the transform service does not serve `{name}`; it serves {}", .served.join(", "))]
    NotServed {
        /// The transformation.
        name: String,
        /// The transformations that are served.
        served: Vec<String>,
    },
    /// An encoder refused or failed.
    #[error("encoder `{id}`: {}", .fault.without_field())]
    Encoder {
        id: String,
        /// The encoder's error.
        fault: Box<Fault>,
    },
    /// An encoder returned an unusable response.
    #[error("encoder `{id}`: {message}")]
    BadVectors {
        id: String,
        /// The problem with the response.
        message: String,
    },
    /// The transform service or its generator refused or failed.
    #[error("{what}: {}", .fault.without_field())]
    Transform {
        /// The requested texts, for example `paraphrase, seed 1337`.
        what: String,
        /// The service's error.
        fault: Box<Fault>,
    },
    /// The memory of the data sets cannot be reserved for a request that waits for a plan.
    #[error("{0}")]
    Memory(Box<Fault>),
    /// The workers' queue or store cannot be used.
    #[error("{0}")]
    Fleet(Box<Fault>),
    /// The generator returned none of the texts.
    #[error("{what}: the generator answered none of {texts} texts: {reason}")]
    GeneratorSilent {
        /// The requested texts.
        what: String,
        /// Number of texts.
        texts: usize,
        /// The generator's error for the first of them.
        reason: String,
    },
    /// The judge is unreachable, does not have its model, or cannot rate.
    #[error("judge `{id}`: {}", .fault.message)]
    Judge {
        id: String,
        /// The field that names it.
        field: String,
        /// The judge's error.
        fault: Box<Fault>,
    },
    /// The judge failed on every pair.
    #[error("judge `{id}`: it failed on all of {pairs} pairs")]
    JudgeSilent {
        id: String,
        /// Number of pairs.
        pairs: usize,
    },
    /// A score cannot be computed.
    #[error("{encoder} on {dataset}, {variant}: {source}")]
    Score {
        /// Encoder id.
        encoder: String,
        /// Dataset name.
        dataset: String,
        /// `original`, or transformation and seed.
        variant: String,
        /// The reason.
        #[source]
        source: ScoreError,
    },
    /// The run would exceed its limits.
    #[error("{0}")]
    OverLimit(String),
    /// The run has exceeded a limit.
    #[error("the run was stopped by limits.{field}: it has taken {taken}, and the limit is {limit}")]
    LimitReached {
        /// The limit's field.
        field: &'static str,
        /// The amount used.
        taken: String,
        /// The maximum amount.
        limit: String,
    },
    /// No such run.
    #[error("there is no run `{0}`")]
    Unknown(String),
    /// The run has not ended.
    #[error("run `{0}` is still active")]
    Active(String),
    /// The run belongs to another process on this machine.
    #[error("run `{0}` belongs to another process; only that process can stop it")]
    Elsewhere(String),
    /// The replica that leads the run has not stopped it in time.
    #[error("run `{0}` is led by another replica, which has not stopped it yet")]
    NotStopped(String),
    /// An earlier leader of the run made a look of the gate on other scores.
    #[error(
        "look {number} of the gate is in the ledger already, made on other scores; a second look would spend the chance of error again"
    )]
    LookChanged {
        /// Number of the look, from 1.
        number: usize,
    },
    /// The run has no report.
    #[error("run `{id}` has no report: it is {state:?}")]
    NoReport {
        /// The run.
        id: String,
        state: RunState,
    },
    /// The run was created by a version that stored no items.
    #[error("run `{id}` has no items: it is of an Isomer that did not keep them")]
    NoItems {
        /// The run.
        id: String,
    },
    /// A file of the store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A finished unit cannot be written.
    #[error("cannot store a finished unit: {0}")]
    Units(std::io::Error),
    /// A page of a report cannot be rendered, which is a bug of Isomer.
    #[error("the report cannot be written: {0}")]
    Report(String),
    /// A task of this process panicked or violated an invariant, which is a bug of Isomer.
    #[error("internal: {0}")]
    Internal(String),
}

impl RunError {
    /// The run's error for an encoder's error; `text` describes the text at an index.
    pub(crate) fn encoding(id: &str, error: EncodingError, text: impl FnOnce(usize) -> String) -> Self {
        let id = id.to_owned();
        match error {
            EncodingError::Refused(fault) => Self::Encoder { id, fault },
            EncodingError::Unusable(message) => Self::BadVectors { id, message },
            EncodingError::Text { index, message } => Self::BadVectors {
                id,
                message: format!("could not encode {}: {message}", text(index)),
            },
        }
    }
}

impl From<JoinError> for RunError {
    fn from(error: JoinError) -> Self {
        Self::Internal(error.to_string())
    }
}

/// A value of a request that is not valid.
pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> RunError {
    RunError::Invalid {
        field: field.into(),
        message: message.into(),
    }
}
