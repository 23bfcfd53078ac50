//! Failures and exit codes: 0 done, 1 the gate failed, 2 usage or configuration, 3 a dependency
//! failed, 4 the gate is undecided or invalid, 130 interrupted.

use std::{io::Write, process::ExitCode};

use isomer_service_kit::Fault;
use tonic::{Code, Status};

/// Success.
pub(crate) const DONE: u8 = 0;
/// The gate failed.
pub(crate) const GATE_FAILED: u8 = 1;
/// The gate is undecided or invalid, and that blocks the run.
pub(crate) const GATE_NOT_PASSED: u8 = 4;
/// Something could not be checked at all.
#[cfg(feature = "registry")]
pub(crate) const UNCHECKED: u8 = DEPENDENCY;
const USAGE: u8 = 2;
const DEPENDENCY: u8 = 3;
/// As shells report Ctrl-C: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// A failure to report, with the exit code of the process.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// The command line or the configuration is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: USAGE,
        }
    }

    /// The same failure, prefixed with the responsible flag.
    pub(crate) fn of_flag(self, flag: &str) -> Self {
        Self {
            message: format!("{flag}: {}", self.message),
            code: self.code,
        }
    }

    /// The exit code.
    #[cfg(test)]
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// The reader of the output has closed: there is nothing to report.
    pub(crate) fn closed_pipe() -> Self {
        Self {
            message: String::new(),
            code: DONE,
        }
    }

    /// A file that the command line names cannot be read. One that does not exist is an error of
    /// the command line.
    pub(crate) fn unreadable(message: impl Into<String>, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::usage(message),
            _ => Self::dependency(message),
        }
    }

    /// A signal ended the work.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: INTERRUPTED,
        }
    }

    /// A model, provider, generator or file failed.
    pub(crate) fn dependency(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: DEPENDENCY,
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let code = match fault.code {
            // An error in the request is a usage error. An error in a file that it names (a data
            // file, a model's folder) is not.
            Code::InvalidArgument if names_a_file(&fault.reason) => DEPENDENCY,
            // A name or a path of the request, and not what a provider or a run lacks.
            Code::NotFound if fault.reason.starts_with("UNKNOWN_") || fault.reason == "MODEL_PATH_MISSING" => USAGE,
            Code::InvalidArgument | Code::Unimplemented | Code::OutOfRange | Code::AlreadyExists => USAGE,
            _ => DEPENDENCY,
        };
        Self {
            message: fault.to_string(),
            code,
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Fault::from_status(&status).into()
    }
}

impl From<isomer_client::Error> for Failure {
    fn from(error: isomer_client::Error) -> Self {
        Fault::from(error).into()
    }
}

fn names_a_file(reason: &str) -> bool {
    reason == "BROKEN_DATASET" || reason.starts_with("MODEL")
}

/// Prints the failure on stderr and returns the exit code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    if failure.code != DONE {
        let error = console::style("error:").red().bold().for_stderr();
        // The exit code still reports the failure if stderr cannot be written.
        let _ = writeln!(std::io::stderr(), "{error} {}", failure.message);
    }
    ExitCode::from(failure.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(fault: Fault) -> u8 {
        Failure::from(fault).code
    }

    #[test]
    fn a_name_that_the_caller_wrote_is_a_usage_error() {
        for reason in [
            "UNKNOWN_SUITE",
            "UNKNOWN_GENERATOR",
            "UNKNOWN_ENCODER",
            "UNKNOWN_FAMILY",
            "MODEL_PATH_MISSING",
        ] {
            assert_eq!(code(Fault::not_found(reason, "there is none")), USAGE, "{reason}");
        }
        assert_eq!(code(Fault::invalid("spec.limit", "is 0")), USAGE);
    }

    #[test]
    fn what_is_missing_elsewhere_is_a_failed_dependency() {
        for reason in ["NOTHING_THERE", "RUN_FAILED"] {
            assert_eq!(code(Fault::not_found(reason, "there is none")), DEPENDENCY, "{reason}");
        }
        assert_eq!(code(Fault::unavailable("MODEL_UNREACHABLE", "no answer")), DEPENDENCY);
    }
}
