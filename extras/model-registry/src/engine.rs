//! What runs a check. The command line implements it over `RunService`, so a check of a registry
//! is the same run as one of `isomer check`: charged, kept and continued in the same way.

use std::{
    future::Future,
    path::{Path, PathBuf},
};

use isomer_proto::eval::v1::Verdict;
use isomer_report::Report;

use crate::error::Result;

/// Runs checks under one suite and gate.
pub trait Engine: Send + Sync + 'static {
    /// sha256 (hex) of all that the check depends on beside its encoders: suite, gate, seeds,
    /// version of Isomer.
    fn settings_digest(&self) -> &str;

    /// Whether the folder is an encoder that can be computed; why not, if it is not.
    fn usable(&self, encoder: &Path) -> impl Future<Output = Result<Result<(), String>>> + Send;

    /// Checks an encoder, against a baseline if there is one, and waits for the end. The same
    /// request id finds the run that was started with it before. The report calls the encoders by
    /// their names.
    fn run(
        &self,
        request_id: &str,
        encoder: &Candidate,
        baseline: Option<&Candidate>,
    ) -> impl Future<Output = Result<Ended>> + Send;
}

/// An encoder on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What reports call it.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
}

/// A run that ended with a report.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Id of the run.
    pub run: String,
    /// What its gate says.
    pub verdict: Verdict,
    /// Id of the encoder in the report.
    pub encoder: String,
    /// The report.
    pub report: Report,
    /// The report in all forms, and its attestation where it is signed: file name and content.
    pub files: Vec<(String, Vec<u8>)>,
}
