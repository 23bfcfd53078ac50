//! The probe of a provider: a dozen small real calls, and a description of their results.
//!
//! Findings that affect the meaning of vectors decide whether a provider is usable; the others
//! describe its behaviour.

mod findings;
mod fingerprint;
mod numbers;
mod rerank;
mod sparse;
mod texts;

use std::time::Duration;

use isomer_proto::{
    common::v1::VectorSpace,
    encoder::v1::{Capability, EncodeRequest, EncodeResponse, Encoder, Input, encode_request::Prompt, input},
    gateway::v1::{ProbeFinding, Provider},
};
use isomer_service_kit::{Fault, code_name};
use tokio::time::Instant;

use crate::{EncoderBackend, limits::Deadline};

pub use fingerprint::Fingerprint;

use numbers::Vectors;

/// Options of a probe.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Prompt to encode with; `None`: the encoder's default.
    pub prompt_name: Option<String>,
    /// Maximum duration of a call.
    pub call_timeout: Duration,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            prompt_name: None,
            call_timeout: Duration::from_secs(30),
        }
    }
}

impl CheckOptions {
    /// Options for this provider. If no prompt is the default and its protocol may need one, its
    /// first prompt is used.
    pub fn of(provider: &Provider) -> Self {
        let prompt_name = match provider.input_types.contains_key("") {
            true => None,
            false => provider.input_types.keys().min().cloned(),
        };
        Self {
            prompt_name,
            ..Self::default()
        }
    }
}

/// The result of a probe.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// One finding per check, in the order of the checks.
    pub findings: Vec<ProbeFinding>,
    /// Whether requests may be routed to the provider.
    pub usable: bool,
    /// The verdict in words.
    pub verdict: String,
    pub vector_space: Option<VectorSpace>,
    /// For comparison with a later probe; `None` for an encoder without dense vectors, or if no
    /// vectors arrived.
    pub fingerprint: Option<Fingerprint>,
}

/// Probes an encoder of a provider. Never fails: failures are findings.
pub async fn check(backend: &dyn EncoderBackend, encoder_id: &str, options: &CheckOptions) -> CheckReport {
    let mut probe = Probe {
        backend,
        encoder_id,
        options,
        findings: Vec::new(),
        essential_failed: Vec::new(),
    };
    let encoder = probe.described().await;
    let (mut vector_space, mut fingerprint) = (None, None);
    if let Some(encoder) = encoder {
        let has = |capability: Capability| encoder.capabilities.contains(&capability.into());
        let dense = has(Capability::Dense);
        if !dense && has(Capability::Rerank) {
            rerank::look(&mut probe).await;
        } else if !dense && has(Capability::Sparse) {
            sparse::look(&mut probe).await;
        } else if let Some(first) = findings::look(&mut probe, &encoder).await {
            vector_space = first.vector_space;
            fingerprint = Some(first.fingerprint);
        }
    }
    let usable = probe.essential_failed.is_empty();
    CheckReport {
        verdict: probe.verdict(),
        findings: probe.findings,
        usable,
        vector_space,
        fingerprint,
    }
}

/// The vectors of a few fixed texts, for comparison with those of another time, and the provider's
/// description of their space. Costs one small call.
///
/// # Errors
/// If the provider does not answer with vectors.
pub async fn fingerprint(
    backend: &dyn EncoderBackend,
    encoder_id: &str,
    options: &CheckOptions,
) -> Result<(Fingerprint, VectorSpace), Fault> {
    let probe = Probe {
        backend,
        encoder_id,
        options,
        findings: Vec::new(),
        essential_failed: Vec::new(),
    };
    let (answer, vectors) = probe.vectors(texts::SAMPLES).await?;
    Ok((Fingerprint::of(&vectors), answer.vector_space.unwrap_or_default()))
}

/// A probe in flight.
struct Probe<'a> {
    backend: &'a dyn EncoderBackend,
    encoder_id: &'a str,
    options: &'a CheckOptions,
    findings: Vec<ProbeFinding>,
    essential_failed: Vec<&'static str>,
}

impl Probe<'_> {
    /// Records a finding that decides whether the provider is usable.
    fn essential(&mut self, name: &'static str, passed: bool, detail: impl Into<String>) -> bool {
        if !passed {
            self.essential_failed.push(name);
        }
        self.note(name, passed, detail);
        passed
    }

    /// Records a finding for information.
    fn note(&mut self, name: &'static str, passed: bool, detail: impl Into<String>) {
        self.findings.push(ProbeFinding {
            name: name.to_owned(),
            passed,
            detail: detail.into(),
        });
    }

    fn deadline(&self) -> Deadline {
        Some(Instant::now() + self.options.call_timeout)
    }

    fn request<T: AsRef<str>>(&self, texts: &[T]) -> EncodeRequest {
        let input = |text: &T| Input {
            input: Some(input::Input::Text(text.as_ref().to_owned())),
        };
        EncodeRequest {
            encoder_id: self.encoder_id.to_owned(),
            inputs: texts.iter().map(input).collect(),
            prompt: self.options.prompt_name.clone().map(Prompt::PromptName),
            ..EncodeRequest::default()
        }
    }

    /// Encodes texts like any caller.
    async fn vectors<T: AsRef<str>>(&self, texts: &[T]) -> Result<(EncodeResponse, Vectors), Fault> {
        let answer = self.backend.encode(self.request(texts), self.deadline()).await?;
        let vectors = Vectors::read(&answer, texts.len())?;
        Ok((answer, vectors))
    }

    async fn described(&mut self) -> Option<Encoder> {
        let called = tokio::time::timeout(self.options.call_timeout, self.backend.get(self.encoder_id)).await;
        let detail = match called {
            Ok(Ok(encoder)) => {
                let detail = match encoder.dimensions {
                    0 => "is described".to_owned(),
                    dimensions => format!("is described: {dimensions} dimensions"),
                };
                self.essential("description", true, detail);
                return Some(encoder);
            }
            Ok(Err(fault)) => fault_text(&fault),
            Err(_) => format!("no answer within {:?}", self.options.call_timeout),
        };
        self.essential("description", false, detail);
        None
    }

    fn verdict(&self) -> String {
        let failed: Vec<&str> = self
            .findings
            .iter()
            .filter(|finding| !finding.passed)
            .map(|finding| finding.name.as_str())
            .collect();
        match (self.essential_failed.as_slice(), failed.as_slice()) {
            ([], []) => format!("usable: `{}` passed all checks", self.encoder_id),
            ([], minor) => format!("usable, with reservations: see {}", minor.join(", ")),
            (essential, _) => format!("not usable: {} failed", essential.join(", ")),
        }
    }
}

/// A fault as the text of a finding.
fn fault_text(fault: &Fault) -> String {
    format!("{}: {fault}", code_name(fault.code))
}

/// Converts a probe's result to the fields of the message.
impl From<CheckReport> for isomer_proto::gateway::v1::CheckProviderResponse {
    fn from(report: CheckReport) -> Self {
        Self {
            findings: report.findings,
            usable: report.usable,
            verdict: report.verdict,
            vector_space: report.vector_space,
        }
    }
}

#[cfg(test)]
mod tests;
