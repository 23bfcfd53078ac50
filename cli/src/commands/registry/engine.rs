//! Runs the checks of a registry with the run service, like those of `isomer check`.

use std::path::Path;

use isomer_attestation::PrivateKey;
use isomer_client::Channel;
use isomer_eval::report;
use isomer_model_registry::{
    RegistryError, Result,
    engine::{Candidate, Engine, RunResult},
};
use isomer_models::{ModelFiles, ModelKind};
use isomer_proto::{
    encoder::v1::{GetEncoderRequest, encoder_service_client::EncoderServiceClient},
    eval::v1::{CreateRunRequest, Run, RunSpec, RunState, Verdict},
};
use isomer_service_kit::Fault;
use prost::Message;
use sha2::{Digest, Sha256};
use tonic::{Code, Status};

use crate::{
    commands::{
        check,
        report::attest::{self, EncoderFiles},
    },
    progress::Display,
};

/// Maximum number of runs of a check: a failed run is started again.
const MOST_ATTEMPTS: u32 = 1_000;
/// Reasons for which a folder is not an encoder that can be computed here.
const UNSUPPORTED: [&str; 4] = [
    "MODEL_UNUSABLE",
    "MODEL_TOO_LARGE",
    "INVALID_ARGUMENT",
    "NOT_SERVED_YET",
];

/// Runs checks over a channel.
pub(super) struct RunEngine {
    channel: Channel,
    is_remote: bool,
    spec: RunSpec,
    digest: String,
    /// Signs the results of checks.
    key: Option<PrivateKey>,
    display: Display,
}

impl RunEngine {
    pub(super) fn new(
        channel: Channel,
        is_remote: bool,
        spec: RunSpec,
        key: Option<PrivateKey>,
        display: Display,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update(env!("CARGO_PKG_VERSION"));
        hash.update(spec.encode_to_vec());
        Self {
            channel,
            is_remote,
            spec,
            digest: hex::encode(hash.finalize()),
            key,
            display,
        }
    }

    /// The run of a request id: an active or successful one, else a new one. A run that failed
    /// earlier is not used as the answer to this request.
    async fn create(&self, request_id: &str, spec: RunSpec) -> Result<Run> {
        let mut client = check::client(&self.channel);
        for attempt in 1..=MOST_ATTEMPTS {
            let request = CreateRunRequest {
                spec: Some(spec.clone()),
                request_id: format!("registry {request_id} {attempt}"),
            };
            let answer = client.create_run(request).await.map_err(of_status)?.into_inner();
            let run = answer
                .run
                .ok_or_else(|| Fault::internal("the server answered without a run"))?;
            if !matches!(run.state(), RunState::Failed | RunState::Cancelled) {
                return Ok(run);
            }
        }
        Err(Fault::internal(format!("{MOST_ATTEMPTS} runs of this check have failed")).into())
    }
}

impl Engine for RunEngine {
    fn settings_digest(&self) -> &str {
        &self.digest
    }

    async fn usable(&self, encoder: &Path) -> Result<Result<(), String>> {
        let id = encoder.display().to_string();
        let mut client = EncoderServiceClient::new(self.channel.clone());
        let Err(status) = client.get_encoder(GetEncoderRequest { id: id.clone() }).await else {
            return Ok(Ok(()));
        };
        let fault = Fault::from_status(&status);
        if UNSUPPORTED.contains(&fault.reason.as_str()) {
            // The path on this machine is meaningless to readers of the registry.
            return Ok(Err(fault
                .to_string()
                .replace(&format!("{id}/"), "")
                .replace(&id, "the model")));
        }
        if fault.code == Code::NotFound {
            // This is not a property of the version, so no result is recorded.
            return Err(RegistryError::Unavailable {
                doing: "opening the encoder".to_owned(),
                message: format!(
                    "{fault}; with --server, the gateway has to have {id} under the same path, and embed.allow_paths = true"
                ),
            });
        }
        Err(fault.into())
    }

    async fn run(&self, request_id: &str, encoder: &Candidate, baseline: Option<&Candidate>) -> Result<RunResult> {
        let id = |one: &Candidate| one.folder.display().to_string();
        let names: Vec<(String, String)> = [Some(encoder), baseline]
            .into_iter()
            .flatten()
            .map(|one| (id(one), one.name.clone()))
            .collect();
        let spec = RunSpec {
            encoder_ids: vec![id(encoder)],
            baseline_encoder_id: baseline.map(id).unwrap_or_default(),
            ..self.spec.clone()
        };
        let mut run = self.create(request_id, spec).await?;
        let mut client = check::client(&self.channel);
        if run.state() != RunState::Succeeded {
            let watched = check::watch(client.clone(), &run.id, &self.display, self.is_remote).await;
            run = watched.map_err(of_status)?;
        }
        if run.state() != RunState::Succeeded {
            return Err(RegistryError::RunFailed {
                code: match run.state() {
                    RunState::Cancelled => Code::Cancelled,
                    _ => Code::from_i32(run.error_code),
                },
                message: names
                    .iter()
                    .fold(run.error, |text, (path, name)| text.replace(path, name)),
                run: run.id,
            });
        }
        let files = check::reports(&mut client, &run.id, false).await.map_err(of_status)?;
        let json = files.iter().find(|(name, _)| name == check::JSON);
        let json = json.ok_or_else(|| Fault::internal("the server gave no report.json"))?;
        let report = report::read(&json.1).map_err(|error| {
            Fault::precondition("REPORT", format!("the server's report.json {error}"))
                .hint("use the same version of Isomer here and there")
        })?;
        // The folders are temporary folders of this machine.
        let report = report::renamed(&report, &names).map_err(Fault::internal)?;
        let mut files: Vec<(String, Vec<u8>)> = report::files(&report)
            .map_err(Fault::internal)?
            .into_iter()
            .map(|(name, content)| (name.to_owned(), content))
            .collect();
        if let Some(key) = &self.key
            && run.verdict() != Verdict::Unspecified
        {
            let folder = encoder.folder.clone();
            let read = tokio::task::spawn_blocking(move || ModelFiles::read(&folder, ModelKind::Encoder)).await;
            let own = read.map_err(|error| Fault::internal(format!("reading the encoder's files: {error}")))?;
            let own = EncoderFiles::from([(encoder.name.clone(), own.map_err(Fault::from)?)]);
            files.push(attested(&report, &files, &encoder.name, key, &own)?);
        }
        Ok(RunResult {
            verdict: run.verdict(),
            run: run.id,
            encoder: encoder.name.clone(),
            report,
            files,
        })
    }
}

/// The result of the check for an encoder, signed over the stored report.
fn attested(
    report: &report::Report,
    files: &[(String, Vec<u8>)],
    encoder: &str,
    key: &PrivateKey,
    own: &EncoderFiles,
) -> Result<(String, Vec<u8>)> {
    let json = files.iter().find(|(name, _)| name == check::JSON);
    let json = json.ok_or_else(|| Fault::internal("no report.json was made"))?;
    let all = attest::envelopes(report, &json.1, key, own)
        .map_err(|message| Fault::precondition("ATTESTATION", message).hint("leave out --attest"))?;
    let own = all.into_iter().find(|(id, _)| id == encoder);
    let (_, envelope) = own.ok_or_else(|| Fault::internal(format!("the gate does not judge {encoder}")))?;
    Ok((attest::FILE.to_owned(), envelope))
}

fn of_status(status: Status) -> RegistryError {
    Fault::from_status(&status).into()
}
