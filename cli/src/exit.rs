//! Failures and exit codes: 0 done, 1 the gate failed, 2 usage or configuration, 3 a dependency
//! failed, 4 the gate is undecided or invalid, 130 interrupted.

use std::{fmt, io::Write, process::ExitCode};

use isomer_service_kit::{Fault, with_subject};
use tonic::{Code, Status};

use crate::flags::{RequestFlags, flag_of};

/// Success.
pub(crate) const DONE: u8 = 0;
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
    /// The flag or place that the failure is about, with a colon; may be empty.
    prefix: String,
    /// Field of a request or of the configuration that is to blame.
    field: Option<String>,
    message: String,
    code: u8,
}

impl Failure {
    fn new(message: impl Into<String>, code: u8) -> Self {
        Self {
            prefix: String::new(),
            field: None,
            message: message.into(),
            code,
        }
    }

    /// The command line or the configuration is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(message, USAGE)
    }

    /// The same failure, prefixed with the responsible flag.
    pub(crate) fn of_flag(mut self, flag: &str) -> Self {
        self.prefix.insert_str(0, &format!("{flag}: "));
        self
    }

    /// The same failure, with the flag in place of the field of a request.
    pub(crate) fn with_flags(mut self, requests: &[RequestFlags]) -> Self {
        let flag = self.field.as_deref().and_then(|field| flag_of(requests, field));
        self.field = flag.or(self.field);
        self
    }

    /// The same failure of a request that began with this item of the list `list`.
    pub(crate) fn after_items(mut self, list: &str, first: usize) -> Self {
        let at = |field: &str| {
            let (position, rest) = field.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?;
            Some(format!("{list}[{}]{rest}", position.parse::<usize>().ok()? + first))
        };
        self.field = self.field.map(|field| at(&field).unwrap_or(field));
        self
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// The reader of the output has closed: there is nothing to report.
    pub(crate) fn closed_pipe() -> Self {
        Self::new("", DONE)
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
        Self::new(message, INTERRUPTED)
    }

    /// A model, provider, generator or file failed.
    pub(crate) fn dependency(message: impl Into<String>) -> Self {
        Self::new(message, DEPENDENCY)
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
            field: fault.field.clone(),
            ..Self::new(fault.without_field(), code)
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix)?;
        match &self.field {
            Some(field) => f.write_str(&with_subject(field, &self.message)),
            None => f.write_str(&self.message),
        }
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
        let _ = writeln!(std::io::stderr(), "{error} {failure}");
    }
    ExitCode::from(failure.code)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, requests::requests};

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
    fn a_failure_names_the_flag_in_place_of_the_field() {
        let fault = Fault::invalid("inputs[3].text", "is empty").hint("leave it out");
        let failure = || Failure::from(fault.clone()).after_items("inputs", 256);
        assert_eq!(failure().to_string(), "inputs[259].text is empty (leave it out)");
        let embed = Cli::try_parse_from(["isomer", "embed"]).map(|cli| requests(&cli.command));
        let failure = failure().with_flags(embed.unwrap_or_default()).of_flag("x.txt");
        assert_eq!(failure.to_string(), "x.txt: --input: text 260 is empty (leave it out)");
    }

    #[test]
    fn what_is_missing_elsewhere_is_a_failed_dependency() {
        for reason in ["NOTHING_THERE", "RUN_FAILED"] {
            assert_eq!(code(Fault::not_found(reason, "there is none")), DEPENDENCY, "{reason}");
        }
        assert_eq!(code(Fault::unavailable("MODEL_UNREACHABLE", "no answer")), DEPENDENCY);
    }
}
