//! The execution of a check. The command line implements it over `RunService`, so a check of a
//! registry is the same run as one of `isomer check`: it is charged, stored and resumed in the same
//! way.

use std::{
    future::Future,
    path::{Path, PathBuf},
};

use isomer_proto::eval::v1::Verdict;
use isomer_report::Report;

use crate::error::Result;

/// Runs checks under one suite and gate.
pub trait Engine: Send + Sync + 'static {
    /// sha256 (hex) of everything except the encoders on which the check depends: suite, gate,
    /// seeds, version of Isomer.
    fn settings_digest(&self) -> &str;

    /// Checks that the folder is an encoder that can be computed; the error gives the reason if
    /// not.
    fn usable(&self, encoder: &Path) -> impl Future<Output = Result<Result<(), String>>> + Send;

    /// Checks an encoder, against a baseline if there is one, and waits for the end. The same
    /// request id finds the run that was started with it before. The report uses the encoders'
    /// names.
    fn run(
        &self,
        request_id: &str,
        encoder: &Candidate,
        baseline: Option<&Candidate>,
    ) -> impl Future<Output = Result<RunResult>> + Send;
}

/// An encoder on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name in reports.
    pub name: String,
    pub folder: PathBuf,
}

/// A run that ended with a report.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// Id of the run.
    pub run: String,
    /// The verdict of its gate.
    pub verdict: Verdict,
    /// Id of the encoder in the report.
    pub encoder: String,
    pub report: Report,
    /// The report in all formats, and its attestation if it is signed: file name and content.
    pub files: Vec<(String, Vec<u8>)>,
}
