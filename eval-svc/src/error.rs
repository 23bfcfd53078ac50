//! Errors of this crate, and their conversion to a [`Fault`].

use isomer_learn::LearnError;
use isomer_service_kit::Fault;
use tonic::Code;

use crate::{
    dataset::DatasetError,
    metric::MatrixError,
    run::{RunError, StoreError},
    stats::StatsError,
    suite::SuiteError,
    task::ScoreError,
};

/// An error of the evaluation service.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A dataset is invalid or unavailable.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Vectors cannot be scored.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// The numbers do not form a matrix.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// A statistic is undefined.
    #[error(transparent)]
    Stats(#[from] StatsError),
    /// A suite is invalid.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<EvalError> for Fault {
    fn from(error: EvalError) -> Self {
        match error {
            EvalError::Dataset(error) => dataset(&error),
            EvalError::Score(error) => score(&error),
            EvalError::Matrix(error) => Fault::invalid("vectors", error.to_string()),
            EvalError::Stats(error) => Fault::invalid("values", error.to_string()),
            EvalError::Suite(error) => suite(&error),
            EvalError::Run(error) => run(error),
        }
    }
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Self {
        EvalError::from(error).into()
    }
}

fn suite(error: &SuiteError) -> Fault {
    match error {
        SuiteError::NoSuchSuite { .. } => Fault::not_found("UNKNOWN_SUITE", error.to_string())
            .field("spec.suite.builtin")
            .hint("name a suite, or give a suite file"),
        _ => Fault::new(Code::InvalidArgument, "BROKEN_SUITE", error.to_string()).field("spec.suite"),
    }
}

fn dataset(error: &DatasetError) -> Fault {
    let message = error.to_string();
    match error {
        DatasetError::NotServed { .. } => Fault::unimplemented(message),
        DatasetError::UnknownBuiltin { .. } | DatasetError::NotFound { .. } | DatasetError::UnknownName { .. } => {
            Fault::not_found("UNKNOWN_DATASET", message).field("dataset")
        }
        DatasetError::Hub { .. } | DatasetError::Unreachable { .. } => {
            Fault::unavailable("DATASET_UNREACHABLE", message).field("dataset")
        }
        DatasetError::HubClosed { .. } => Fault::new(Code::PermissionDenied, "HUB_CLOSED", message).field("dataset"),
        DatasetError::OtherTexts { .. } => Fault::internal(message),
        DatasetError::OtherTask { .. } | DatasetError::NoTask => Fault::invalid("task_type", message),
        DatasetError::OutsideRoots { .. } => Fault::new(Code::PermissionDenied, "OUTSIDE_DATA_ROOTS", message)
            .field("dataset.path")
            .hint("send the files inline, or let the server's operator add the folder to eval.data_roots"),
        DatasetError::Undefined { .. } => Fault::precondition("UNDEFINED_SCORE", message).field("dataset"),
        DatasetError::TrainIsTest { .. } => {
            Fault::new(Code::InvalidArgument, "TRAIN_IS_TEST", message).field("dataset")
        }
        DatasetError::Unreadable { .. } => Fault::precondition("UNREADABLE_DATASET", message).field("dataset"),
        DatasetError::InlinePath { .. }
        | DatasetError::MissingFile { .. }
        | DatasetError::Language { .. }
        | DatasetError::Languages { .. }
        | DatasetError::Row { .. }
        | DatasetError::NotUtf8 { .. }
        | DatasetError::Broken { .. }
        | DatasetError::Empty { .. }
        | DatasetError::ZeroLimit => Fault::new(Code::InvalidArgument, "BROKEN_DATASET", message).field("dataset"),
    }
}

fn score(error: &ScoreError) -> Fault {
    let message = error.to_string();
    match error {
        ScoreError::Undefined { .. } | ScoreError::Told { .. } => Fault::precondition("UNDEFINED_SCORE", message),
        ScoreError::NotServed { .. } => Fault::unimplemented(message),
        ScoreError::MissingMain { .. } => Fault::internal(message),
        ScoreError::Rows { what, .. } | ScoreError::Matrix { what, .. } | ScoreError::Item { what, .. } => {
            Fault::invalid(*what, message)
        }
        ScoreError::Learn(LearnError::OneClass { .. }) => Fault::precondition("UNDEFINED_SCORE", message),
        ScoreError::Learn(_) => Fault::invalid("vectors", message),
        ScoreError::UnknownId { .. } | ScoreError::DuplicateId { .. } => Fault::invalid("judgements", message),
    }
}

fn run(error: RunError) -> Fault {
    let message = error.to_string();
    match error {
        RunError::Suite(error) => suite(&error),
        RunError::TooMany { .. } => Fault::overloaded(message, std::time::Duration::from_secs(60))
            .hint("wait until some of them start, cancel some (CancelRun), or ask the operator to raise eval.max_pending_runs"),
        RunError::Invalid { field, .. } => Fault::invalid(field, message),
        // The field of a request stands beside the message, and a place in the suite within it.
        RunError::Gate(error) if error.origin.is_empty() => {
            Fault::new(Code::InvalidArgument, "BROKEN_GATE", error.message).field(format!("spec.{}", error.field))
        }
        RunError::Gate(_) => Fault::new(Code::InvalidArgument, "BROKEN_GATE", message).field("spec.suite"),
        RunError::Dataset { source, .. } => Fault {
            message,
            ..dataset(&source)
        }
        .field("spec.suite"),
        RunError::DatasetTwice { .. } => {
            Fault::new(Code::InvalidArgument, "DATASET_TWICE", message).field("spec.suite")
        }
        RunError::Datasets { .. } => Fault::unavailable("DATASET_UNREACHABLE", message).field("spec.suite"),
        RunError::Language { .. } => Fault::new(Code::InvalidArgument, "LANGUAGE", message)
            .field("spec.suite")
            .hint("name the language of the texts with `languages` of that [[dataset]], or leave the data set or the transformation out"),
        RunError::NotServed { .. } => Fault::unimplemented(message).field("spec.suite"),
        RunError::Encoder { fault, .. } | RunError::Transform { fault, .. } => {
            // The message already contains the inner hint; the code and the reason are kept.
            let reason = if fault.reason.is_empty() {
                "UPSTREAM_FAILED".to_owned()
            } else {
                fault.reason.clone()
            };
            Fault {
                message,
                field: None,
                hint: None,
                reason,
                ..*fault
            }
        }
        RunError::Fleet(fault) | RunError::Memory(fault) => *fault,
        RunError::Judge { field, fault, .. } => Fault {
            message,
            field: Some(field),
            ..*fault
        },
        RunError::JudgeSilent { .. } => Fault::unavailable("JUDGE_FAILED", message)
            .hint("check the judge's address, model and key, and start the run again; finished units are kept"),
        RunError::BadVectors { .. } => Fault::precondition("BAD_VECTORS", message),
        RunError::GeneratorSilent { .. } => Fault::unavailable("GENERATOR_FAILED", message)
            .hint("check the generator's address, model and key, and start the run again; finished units are kept"),
        RunError::Score { source, .. } => Fault {
            message,
            ..score(&source)
        },
        RunError::OverLimit(_) => Fault::precondition("OVER_LIMIT", message)
            .field("spec.limits")
            .hint("raise the limit (--max-calls, --max-cost, or [limits] of the suite), or take fewer texts, seeds or transformations"),
        RunError::LimitReached { .. } => Fault::new(Code::ResourceExhausted, "LIMIT_REACHED", message)
            .field("spec.limits")
            .hint("raise the limit and start the run again; what was made is kept"),
        RunError::Unknown(_) => Fault::not_found("UNKNOWN_RUN", message).field("id"),
        RunError::Active(_) => Fault::precondition("RUN_ACTIVE", message).hint("cancel it, or wait until it ends"),
        RunError::Elsewhere(_) => Fault::precondition("RUN_ELSEWHERE", message),
        RunError::NotStopped(_) => Fault::unavailable("RUN_NOT_STOPPED", message)
            .hint("the cancellation is noted and takes effect when a replica reads it; look at the run again"),
        RunError::LookChanged { .. } => Fault::precondition("LOOK_CHANGED", message)
            .hint("another version of Isomer, or other data, took the run over; start it again"),
        RunError::NoReport { .. } => {
            Fault::precondition("NO_REPORT", message).hint("reports belong to runs that succeeded")
        }
        RunError::NoItems { .. } => Fault::precondition("NO_ITEMS", message).hint("run the check again"),
        RunError::Store(StoreError::Ledger(fault)) => Fault {
            message,
            ..*fault
        },
        // The run continues on another replica; no caller receives this error.
        RunError::Store(StoreError::Superseded) => Fault::new(Code::Aborted, "SUPERSEDED", message),
        RunError::Store(StoreError::File { .. }) | RunError::Units(_) => {
            // The path is for the operator only, so the message does not name it.
            tracing::error!(error = message, "the state of runs cannot be read or written");
            let problem = "the state of runs cannot be read or written; the service's log names the file";
            Fault::unavailable("STATE_UNWRITABLE", problem)
                .hint("check open files, space and permissions of eval.state_dir and eval.cache_dir")
        }
        RunError::Report(_) | RunError::Internal(_) => Fault::internal(message),
    }
}
