//! In-toto statements with the predicate `test-result`, one for each encoder that a gate judged.

use std::collections::BTreeMap;

use isomer_report::{EncoderInfo, EncoderVerdict, GateReport, GateVerdict, Report};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
pub const PREDICATE_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// Name of the report among the subjects.
pub const REPORT: &str = "report.json";

/// Prefix of the name of an encoder's file in the configuration.
const FILE: &str = "file ";

/// An in-toto statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// [`STATEMENT_TYPE`].
    #[serde(rename = "_type")]
    pub kind: String,
    /// Its subjects: the encoder's weights, then the report, then artifacts that contain these
    /// weights.
    pub subject: Vec<Resource>,
    /// [`PREDICATE_TYPE`].
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    pub predicate: TestResult,
}

/// An object with its digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    pub name: String,
    /// Digests in hex, by algorithm.
    pub digest: BTreeMap<String, String>,
    /// Further facts about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The predicate `test-result`, version 0.1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    pub result: Outcome,
    /// The configuration of the check: suite, data sets, the encoder as served, its files.
    pub configuration: Vec<Resource>,
    /// Rules that are kept.
    pub passed_tests: Vec<String>,
    /// Rules that are undecided.
    pub warned_tests: Vec<String>,
    /// Rules that are broken or invalid.
    pub failed_tests: Vec<String>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Every rule is kept.
    Passed,
    /// No rule is broken or invalid, and at least one is undecided.
    Warned,
    /// At least one rule is broken or invalid.
    Failed,
}

/// The reason why a report supports no statement.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum StatementError {
    /// The check had no rules.
    #[error(
        "the check had no rules, so there is nothing to attest; give it a gate (--rule, or [[gate.rule]] in the suite)"
    )]
    NoGate,
    /// An encoder without a digest.
    #[error(
        "the encoder `{0}` does not say the digest of its weights, so a statement could not name what was checked; serve it from files, or \
         from a provider that reports its weights_digest"
    )]
    NoDigest(String),
    /// A report that contradicts itself.
    #[error("the report is not consistent: {0}")]
    Inconsistent(String),
}

impl Statement {
    /// The statement, with the SHA-256 (hex) of each file of the encoder, by its path.
    #[must_use]
    pub fn with_files(mut self, files: &BTreeMap<String, String>) -> Self {
        let files = files
            .iter()
            .map(|(path, digest)| resource(format!("{FILE}{path}"), "sha256", digest));
        self.predicate.configuration.extend(files);
        self
    }

    /// SHA-256 (hex) of each file of the encoder, by its path; empty if the statement names only
    /// its weights.
    pub fn files(&self) -> BTreeMap<String, String> {
        let of = |resource: &Resource| {
            let path = resource.name.strip_prefix(FILE)?;
            Some((path.to_owned(), resource.digest.get("sha256")?.clone()))
        };
        self.predicate.configuration.iter().filter_map(of).collect()
    }

    /// The statement, extended by an artifact with the weights: its name, and the SHA-256 (hex) of
    /// its manifest.
    #[must_use]
    pub fn with_artifact(mut self, name: &str, sha256: &str) -> Self {
        self.subject.push(resource(name.to_owned(), "sha256", sha256));
        self
    }
}

fn resource(name: String, algorithm: &str, digest: &str) -> Resource {
    Resource {
        name,
        digest: BTreeMap::from([(algorithm.to_owned(), digest.to_owned())]),
        annotations: BTreeMap::new(),
    }
}

/// The statements of a report with the bytes `json`: for each encoder that its gate judged, the id
/// and the statement.
///
/// # Errors
/// If there was no gate, or an encoder has no digest.
pub fn statements(report: &Report, json: &[u8]) -> Result<Vec<(String, Statement)>, StatementError> {
    let gate = report
        .gate
        .as_ref()
        .filter(|gate| !gate.rules.is_empty() && !gate.encoders.is_empty());
    let gate = gate.ok_or(StatementError::NoGate)?;
    let of = |verdict: &EncoderVerdict| {
        let encoder = report.encoders.iter().find(|encoder| encoder.id == verdict.encoder);
        let encoder = encoder.ok_or_else(|| {
            StatementError::Inconsistent(format!("the gate judges `{}`, which was not profiled", verdict.encoder))
        })?;
        if !is_sha256(&encoder.weights_digest) {
            return Err(StatementError::NoDigest(encoder.id.clone()));
        }
        let statement = Statement {
            kind: STATEMENT_TYPE.to_owned(),
            subject: vec![
                resource(encoder.id.clone(), "sha256", &encoder.weights_digest),
                resource(REPORT.to_owned(), "sha256", &hex::encode(Sha256::digest(json))),
            ],
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: test_result(report, gate, encoder, verdict)?,
        };
        Ok((encoder.id.clone(), statement))
    };
    gate.encoders.iter().map(of).collect()
}

fn is_sha256(digest: &str) -> bool {
    digest.len() == 64
        && digest
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn test_result(
    report: &Report,
    gate: &GateReport,
    encoder: &EncoderInfo,
    verdict: &EncoderVerdict,
) -> Result<TestResult, StatementError> {
    if verdict.rules.len() != gate.rules.len() {
        let message = format!(
            "`{}` has {} verdicts on {} rules",
            encoder.id,
            verdict.rules.len(),
            gate.rules.len()
        );
        return Err(StatementError::Inconsistent(message));
    }
    let mut tests: BTreeMap<Outcome, Vec<String>> = BTreeMap::new();
    let said = (1..).zip(gate.rules.iter().zip(&verdict.rules));
    for (number, (rule, said)) in said.filter(|(_, (_, said))| !said.not_applicable) {
        // Rules may have equal titles.
        tests
            .entry(outcome(said.verdict))
            .or_default()
            .push(format!("{number}. {}", rule.title));
    }
    // The worst result of the rules, and never better than the report's verdict on the encoder.
    let of_rules = tests.keys().max().copied().unwrap_or(Outcome::Failed);
    let result = of_rules.max(outcome(verdict.verdict));
    let mut configuration = vec![resource(
        format!("suite {}", report.suite.name),
        "blake3",
        &report.suite.digest,
    )];
    configuration.extend(report.datasets.iter().map(|dataset| {
        resource(
            format!("data set {}/{}", dataset.name, dataset.split),
            "blake3",
            &dataset.digest,
        )
    }));
    let mut served = resource(format!("encoder {}", encoder.id), "sha256", &encoder.weights_digest);
    served.annotations = BTreeMap::from(
        [
            ("vectorSpace", &encoder.vector_space),
            ("revision", &encoder.revision),
            ("isomerVersion", &report.isomer_version),
            ("run", &report.run.id),
        ]
        .map(|(name, value)| (name.to_owned(), value.clone())),
    );
    configuration.push(served);
    if let Some(baseline) = report
        .encoders
        .iter()
        .find(|one| Some(&one.id) == gate.baseline.as_ref())
    {
        configuration.push(resource(
            format!("baseline {}", baseline.id),
            "sha256",
            &baseline.weights_digest,
        ));
    }
    let mut take = |outcome| tests.remove(&outcome).unwrap_or_default();
    Ok(TestResult {
        result,
        configuration,
        passed_tests: take(Outcome::Passed),
        warned_tests: take(Outcome::Warned),
        failed_tests: take(Outcome::Failed),
    })
}

fn outcome(verdict: GateVerdict) -> Outcome {
    match verdict {
        GateVerdict::Pass => Outcome::Passed,
        GateVerdict::Undecided => Outcome::Warned,
        GateVerdict::Invalid | GateVerdict::Fail => Outcome::Failed,
    }
}
