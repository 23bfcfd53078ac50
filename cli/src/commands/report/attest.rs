//! `isomer report attest`, `isomer report verify`, and `isomer check --attest`.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use isomer_attestation::{Envelope, Outcome, PrivateKey, PublicKey, Verified, statements, verify};
use isomer_eval::report::{self, Report};
use isomer_models::{ModelKind, Resolver};
use isomer_service_kit::Fault;
use serde_json::json;

use super::{super::stdout_failure, encoder_files::of_encoders, read, write};
use crate::{
    args::{
        Format, Global,
        evidence::{AttestArgs, VerifyArgs},
    },
    connect::Session,
    exit::{DONE, Failure, GATE_FAILED, GATE_NOT_PASSED},
    progress::Display,
};

/// Reads the private key that a flag names.
pub(crate) fn key(file: &Path, flag: &str) -> Result<PrivateKey, Failure> {
    let text = bytes(file, flag)?;
    PrivateKey::from_pem(&String::from_utf8_lossy(&text))
        .map_err(|error| Failure::usage(format!("{flag}: {}: {error}", file.display())))
}

fn bytes(file: &Path, flag: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| Failure::dependency(format!("{flag}: cannot read {}: {error}", file.display())))
}

/// Name of the attestation where there is one encoder.
pub(crate) const FILE: &str = "attestation.dsse.json";

/// The attestations of a report: id of the encoder, and the signed envelope.
pub(crate) fn envelopes(report: &Report, json: &[u8], key: &PrivateKey) -> Result<Vec<(String, Vec<u8>)>, String> {
    let all = statements(report, json).map_err(|error| error.to_string())?;
    let signed = all.into_iter().map(|(encoder, statement)| {
        let statement = serde_json::to_vec(&statement).map_err(|error| error.to_string())?;
        let signed = Envelope::sign(&statement, key).map_err(|error| error.to_string())?;
        let signed = serde_json::to_vec(&signed).map_err(|error| error.to_string())?;
        Ok((encoder, signed))
    });
    signed.collect()
}

/// The attestations of a report, by file name.
fn signed(report: &Report, json: &[u8], key: &PrivateKey) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let signed = envelopes(report, json, key).map_err(Failure::usage)?;
    Ok(of_encoders("attestation", signed, ".dsse.json"))
}

/// Signs what a check came to, beside its report.
pub(crate) fn beside(json: &[u8], key: &PrivateKey, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    let report = report::read(json).map_err(Failure::dependency)?;
    let files = signed(&report, json, key)?.into_iter().map(|(name, content)| {
        let path = out.join(name);
        let written = std::fs::write(&path, content);
        written.map_err(|error| Failure::dependency(format!("cannot write {}: {error}", path.display())))?;
        Ok(path)
    });
    files.collect()
}

pub(super) fn attest(global: &Global, args: &AttestArgs) -> Result<ExitCode, Failure> {
    let key = key(&args.key, "--key")?;
    let (report, json) = read(&args.report, "--report")?;
    let files = signed(&report, &json, &key).map_err(|error| error.of_flag("--report"))?;
    write(global, files, &args.out)
}

pub(super) async fn verify_one(session: &Session, args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let public = String::from_utf8_lossy(&bytes(&args.key, "--key")?).into_owned();
    let key = PublicKey::from_pem(&public)
        .map_err(|error| Failure::usage(format!("--key: {}: {error}", args.key.display())))?;
    let (envelope, json) = (
        bytes(&args.attestation, "attestation")?,
        bytes(&args.report, "--report")?,
    );
    let verified = verify(&envelope, &key, &json)
        .map_err(|error| Failure::dependency(format!("{}: {error}", args.attestation.display())))?;
    if let Some(model) = &args.model {
        let digest = weights(session, model).await?;
        if digest != verified.weights {
            return Err(Failure::dependency(format!(
                "--model: {model} has other weights than the encoder that was checked: SHA-256 {digest}, not {}; check it, or deploy what was \
                 checked",
                verified.weights
            )));
        }
    }
    say(&session.global, &verified)?;
    Ok(ExitCode::from(match verified.result {
        Outcome::Passed => DONE,
        Outcome::Warned => GATE_NOT_PASSED,
        Outcome::Failed => GATE_FAILED,
    }))
}

/// SHA-256 of a model's weights, as encoders tell it.
pub(super) async fn weights(session: &Session, model: &str) -> Result<String, Failure> {
    let told = |error: isomer_models::ModelError| Failure::from(Fault::from(error)).of_flag("--model");
    let resolver = Resolver::new(session.config.models.clone()).map_err(told)?;
    // What is to be deployed is here; nothing is fetched to compare it with.
    if !Path::new(model).exists() && resolver.present(model).is_none() {
        let message = format!("--model: {model} is neither a file or folder nor in the cache of models");
        return Err(Failure::dependency(message));
    }
    let found = resolver
        .resolve(model, ModelKind::Encoder, &Display::new(session.global.quiet))
        .await;
    Ok(found.map_err(told)?.weights_digest)
}

fn say(global: &Global, verified: &Verified) -> Result<(), Failure> {
    let test = &verified.statement.predicate;
    let mut out = std::io::stdout().lock();
    let text = match global.format {
        Format::Json => json!({
            "encoder": verified.encoder,
            "weights_sha256": verified.weights,
            "result": verified.result,
            "passed": test.passed_tests,
            "undecided": test.warned_tests,
            "failed": test.failed_tests,
            "artifacts": verified.artifacts,
        })
        .to_string(),
        Format::Text => {
            let result = match verified.result {
                Outcome::Passed => "every rule is kept",
                Outcome::Warned => "undecided",
                Outcome::Failed => "broken or invalid",
            };
            let mut lines = vec![format!(
                "{}: {result}; weights SHA-256 {}",
                verified.encoder, verified.weights
            )];
            let artifacts = verified.artifacts.iter().map(|artifact| {
                let digest = artifact.digest.get("sha256").map_or("", String::as_str);
                format!("  carried by: {}@sha256:{digest}", artifact.name)
            });
            lines.extend(artifacts);
            let lists = [
                ("kept", &test.passed_tests),
                ("undecided", &test.warned_tests),
                ("broken or invalid", &test.failed_tests),
            ];
            lines.extend(
                lists
                    .iter()
                    .flat_map(|(what, rules)| rules.iter().map(move |rule| format!("  {what}: {rule}"))),
            );
            lines.join("\n")
        }
    };
    writeln!(out, "{text}").map_err(|error| stdout_failure(&error))
}
