//! A run as it is stored on disk.

use std::{collections::BTreeMap, path::PathBuf};

pub use isomer_proto::eval::v1::{RunState, Stage};

pub use isomer_report::terms::{Counters, JudgeCounters};
use isomer_service_kit::Tenant;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tonic::Code;

use crate::{
    gate::{Gate, OnUndecided},
    judging::Judge,
    limits::Limits,
    prompts::GivenPrompt,
    report::{GateReport, GateVerdict},
    separation::Separation,
};

/// Version of the `run.json` format.
pub(crate) const SCHEMA: &str = "isomer.run/1";

/// A request for a run; the domain's form of the proto's `RunSpec`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRequest {
    /// The suite to run.
    pub suite: SuiteChoice,
    /// Encoders to profile; empty: the suite's, else the server's default.
    pub encoders: Vec<String>,
    /// Stored forms of their vectors; empty: the suite's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forms: Vec<String>,
    /// Variants of their prompts; empty: the suite's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompt_variants: Vec<String>,
    /// Generator; absent: the suite's, else the transform service's default.
    pub generator: Option<String>,
    /// Overrides the suite's seeds unless empty.
    pub seeds: Vec<u64>,
    /// Overrides the suite's sampling temperature.
    pub temperature: Option<f64>,
    /// Name of an `OnFingerprintChange` that overrides the suite's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_fingerprint_change: Option<String>,
    /// Overrides the number of rows of each dataset.
    pub limit: Option<u32>,
    /// Overrides the number of rows of all datasets together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_items: Option<u32>,
    /// Overrides the seed of the samples.
    pub sample_seed: Option<u64>,
    /// The encoder to compare the others with.
    pub baseline: Option<String>,
    /// Overrides the suite's transformations (names) unless empty.
    pub transformations: Vec<String>,
    /// Overrides fields of the suite's gate.
    pub gate: Gate,
    /// Overrides fields of the suite's judge.
    pub judge: Judge,
    /// Prompts of the encoders; they take precedence over the suite's.
    pub prompts: Vec<GivenPrompt>,
    /// Overrides fields of the suite's separation.
    pub separation: Separation,
    /// Overrides fields of the suite's limits.
    #[serde(skip_serializing_if = "no_limits")]
    pub limits: Limits,
}

fn no_limits(limits: &Limits) -> bool {
    !limits.any()
}

/// The source of the suite's text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum SuiteChoice {
    /// Ships with Isomer.
    Builtin {
        /// The suite's name, for example `quick`.
        name: String,
    },
    /// Sent by the caller.
    Toml {
        /// The file's text.
        text: String,
        /// Its name, for messages.
        file_name: String,
        /// Base folder of relative paths.
        base_dir: Option<PathBuf>,
    },
}

impl Default for SuiteChoice {
    fn default() -> Self {
        Self::Builtin {
            name: "quick".to_owned(),
        }
    }
}

/// Progress of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageProgress {
    /// The stage that has started or ended.
    pub stage: Stage,
    /// Units done.
    pub done: u64,
    /// Units planned.
    pub total: u64,
    /// Number of `done` units that were found in a store.
    pub cached: u64,
    /// Seconds left at the current rate; absent until it can be estimated.
    pub remaining_seconds: Option<f64>,
    /// Description of the current work.
    pub detail: String,
}

/// The reason for a failure or a cancellation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// `google.rpc.Code`.
    pub code: i32,
    /// The error and how to fix it.
    pub message: String,
}

/// A run, as stored in `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The format of this record.
    pub schema: String,
    /// Id chosen by the server; later runs sort after earlier ones.
    pub id: String,
    /// Request id chosen by the client.
    pub request_id: Option<String>,
    pub state: RunState,
    /// The request that created the run.
    pub request: RunRequest,
    /// Time of the request.
    pub created: Timestamp,
    /// Start time.
    pub started: Option<Timestamp>,
    /// End time.
    pub ended: Option<Timestamp>,
    /// Progress of the stages, in order; stages that have not started are absent.
    pub progress: Vec<StageProgress>,
    /// The reason for a failure, or for a cancellation if one was given.
    pub failure: Option<Failure>,
    /// Counts of its work.
    pub counters: Counters,
    /// The result of its gate; absent without rules and before the end.
    #[serde(default)]
    pub gate: Option<GateOutcome>,
    /// Name of its owner in the gateway; absent if it has no owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The tenant whose caches it uses; absent: the common caches.
    #[serde(default, skip_serializing_if = "Tenant::is_common")]
    pub tenant: Tenant,
    /// Duration of its generation; absent unless exactly one generator generated texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// Usage of the judge's trials, before any text was rated; absent without a judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<JudgeCounters>,
    /// The observed version of each encoder that does not report its settings, by id of the
    /// encoder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provider_versions: BTreeMap<String, String>,
}

/// A look of a gate as stored in the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedLook {
    /// Digest of the look's inputs.
    pub inputs: String,
    /// The gate's report after the look.
    pub report: GateReport,
}

/// A run that decided some rules on some data for one encoder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptRecord {
    /// Digest of the encoder, the rules and the data from which the rows were drawn.
    pub subject: String,
    /// Id of the run.
    pub run: String,
    /// Owner of the run.
    pub owner: Option<String>,
    /// Digest of the scores of the first look.
    pub evidence: String,
    /// Time of the first look.
    pub at: Timestamp,
}

/// Duration of a generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// The generator's id, as in results.
    pub generator: String,
    /// Number of requested texts.
    pub texts: u64,
    /// Duration of the generation's stage, in seconds.
    pub seconds: f64,
}

/// The result of a run's gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateOutcome {
    /// The verdict over all rules and encoders.
    pub verdict: GateVerdict,
    /// Whether the verdict blocks.
    pub blocked: bool,
    /// The effect of an undecided gate. Records of older versions lack this field; with them, a
    /// gate that blocked exited with 1.
    #[serde(default = "failed")]
    pub undecided: OnUndecided,
}

fn failed() -> OnUndecided {
    OnUndecided::Fail
}

impl RunRecord {
    /// Whether the run has not ended yet.
    pub fn is_active(&self) -> bool {
        matches!(self.state, RunState::Pending | RunState::Running)
    }

    /// Whether a caller may see, cancel and delete the run. `None` sees all runs: runs are not
    /// separated by owner here, or the caller is an administrator.
    pub fn is_seen_by(&self, viewer: Option<&str>) -> bool {
        viewer.is_none_or(|viewer| self.owner.as_deref() == Some(viewer))
    }

    /// Ends the run as failed.
    pub(crate) fn fail(&mut self, code: Code, message: String) {
        let code = code as i32;
        (self.state, self.failure) = (RunState::Failed, Some(Failure { code, message }));
    }

    /// Ends the run as cancelled, with the reason if one was given.
    pub(crate) fn cancel(&mut self, reason: Option<String>) {
        let code = Code::Cancelled as i32;
        (self.state, self.failure) = (RunState::Cancelled, reason.map(|message| Failure { code, message }));
    }

    /// The suite's text, if the caller sent it.
    pub(crate) fn suite_text(&self) -> Option<&str> {
        match &self.request.suite {
            SuiteChoice::Toml { text, .. } if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The record with this text of its suite, if the caller sent one.
    pub(crate) fn with_suite_text(mut self, sent: String) -> Self {
        if let SuiteChoice::Toml { text, .. } = &mut self.request.suite {
            *text = sent;
        }
        self
    }

    /// The record without the suite's text: in lists, and in memory after the end.
    pub(crate) fn outline(self) -> Self {
        self.with_suite_text(String::new())
    }

    /// A run that has just been requested.
    pub fn new(id: String, request_id: Option<String>, request: RunRequest, now: Timestamp) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            id,
            request_id,
            state: RunState::Pending,
            request,
            created: now,
            started: None,
            ended: None,
            progress: Vec::new(),
            failure: None,
            counters: Counters::default(),
            gate: None,
            owner: None,
            tenant: Tenant::default(),
            generation: None,
            trial: None,
            provider_versions: BTreeMap::new(),
        }
    }
}
