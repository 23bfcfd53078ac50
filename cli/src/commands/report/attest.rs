//! `isomer report attest`, `isomer report verify`, and `isomer check --attest`.

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use isomer_attestation::{Envelope, Outcome, PrivateKey, PublicKey, VerifiedAttestation, statements, verify};
use isomer_eval::report::{self, Report};
use isomer_models::{ModelError, ModelFiles, ModelKind, Resolver, files::differences};
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

/// Reads the private key named by a flag.
pub(crate) fn key(file: &Path, flag: &str) -> Result<PrivateKey, Failure> {
    let text = bytes(file, flag)?;
    PrivateKey::from_pem(&String::from_utf8_lossy(&text))
        .map_err(|error| Failure::usage(format!("{flag}: {}: {error}", file.display())))
}

fn bytes(file: &Path, flag: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| Failure::dependency(format!("{flag}: cannot read {}: {error}", file.display())))
}

/// Name of the attestation if there is one encoder.
pub(crate) const FILE: &str = "attestation.dsse.json";

/// Digests of the encoders' files, by the encoder's id.
pub(crate) type EncoderFiles = BTreeMap<String, ModelFiles>;

/// The attestations of a report: id of the encoder, and the signed envelope. `files` are those of
/// encoders that were checked on this machine.
pub(crate) fn envelopes(
    report: &Report,
    json: &[u8],
    key: &PrivateKey,
    files: &EncoderFiles,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    let all = statements(report, json).map_err(|error| error.to_string())?;
    let signed = all.into_iter().map(|(encoder, statement)| {
        let info = report.encoders.iter().find(|one| one.id == encoder);
        let served = info
            .and_then(|one| one.variant.as_ref())
            .map(|variant| &variant.encoder);
        let statement = match files.get(served.unwrap_or(&encoder)) {
            Some(own) => {
                let checked = statement
                    .subject
                    .first()
                    .and_then(|weights| weights.digest.get("sha256"));
                if checked != Some(&own.weights_digest) {
                    return Err(format!(
                        "the weights of {encoder} changed during the check; check it again"
                    ));
                }
                statement.with_files(&own.files)
            }
            None => statement,
        };
        let statement = serde_json::to_vec(&statement).map_err(|error| error.to_string())?;
        let signed = Envelope::sign(&statement, key).map_err(|error| error.to_string())?;
        let signed = serde_json::to_vec(&signed).map_err(|error| error.to_string())?;
        Ok((encoder, signed))
    });
    signed.collect()
}

/// The attestations of a report, by file name.
fn signed(
    report: &Report,
    json: &[u8],
    key: &PrivateKey,
    files: &EncoderFiles,
) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let signed = envelopes(report, json, key, files).map_err(Failure::usage)?;
    Ok(of_encoders("attestation", signed, ".dsse.json"))
}

/// Signs the results of a check, next to its report.
pub(crate) fn beside(
    json: &[u8],
    key: &PrivateKey,
    encoder_files: &EncoderFiles,
    out: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let report = report::read(json).map_err(Failure::dependency)?;
    let files = signed(&report, json, key, encoder_files)?
        .into_iter()
        .map(|(name, content)| {
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
    // The report does not state where its check ran, so files of this machine prove nothing.
    let files = signed(&report, &json, &key, &EncoderFiles::new()).map_err(|error| error.of_flag("--report"))?;
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
        let found = files_of(session, model).await?;
        compare(model, &verified, &found)?;
        if verified.statement.files().is_empty() {
            Display::new(session.global.quiet).message(
                "the attestation names the weights alone: other files, such as the tokenizer, were not compared",
            );
        }
    }
    say(&session.global, &verified)?;
    Ok(ExitCode::from(match verified.result {
        Outcome::Passed => DONE,
        Outcome::Warned => GATE_NOT_PASSED,
        Outcome::Failed => GATE_FAILED,
    }))
}

/// Refuses an encoder whose files differ from the checked ones.
fn compare(model: &str, verified: &VerifiedAttestation, found: &ModelFiles) -> Result<(), Failure> {
    if found.weights_digest != verified.weights {
        return Err(Failure::dependency(format!(
            "--model: {model} does not have the weights of the checked encoder: SHA-256 {}, not {}; check it, or deploy what was checked",
            found.weights_digest, verified.weights
        )));
    }
    let checked = verified.statement.files();
    let differing = differences(&checked, &found.files);
    if checked.is_empty() || differing.is_empty() {
        return Ok(());
    }
    Err(Failure::dependency(format!(
        "--model: {model} is not the encoder that was checked: {}; check it, or deploy what was checked",
        differing.join(", ")
    )))
}

/// Reads the encoder files that this machine has. Encoders of providers have none here.
///
/// # Errors
/// If a file cannot be read.
pub(crate) async fn local_files(session: &Session, encoders: &[String]) -> Result<EncoderFiles, Failure> {
    let resolver = session.resolver()?;
    let mut all = EncoderFiles::new();
    for encoder in encoders {
        if is_here(&resolver, encoder) {
            all.insert(encoder.clone(), digested(session, &resolver, encoder).await?);
        }
    }
    Ok(all)
}

/// Refuses files that changed during the check.
pub(crate) fn unchanged(before: &EncoderFiles, after: &EncoderFiles) -> Result<(), Failure> {
    for (encoder, files) in before {
        let empty = BTreeMap::new();
        let now = after.get(encoder).map_or(&empty, |own| &own.files);
        let differing = differences(&files.files, now);
        if !differing.is_empty() {
            return Err(Failure::dependency(format!(
                "{encoder} changed during the check: {}; check it again",
                differing.join(", ")
            )));
        }
    }
    Ok(())
}

fn model_failure(error: ModelError) -> Failure {
    Failure::from(Fault::from(error)).of_flag("--model")
}

fn is_here(resolver: &Resolver, model: &str) -> bool {
    resolver.is_name(model) || Path::new(model).exists() || resolver.present(model).is_some()
}

async fn digested(session: &Session, resolver: &Resolver, model: &str) -> Result<ModelFiles, Failure> {
    let display = Display::new(session.global.quiet);
    let files = resolver.read_files(model, ModelKind::Encoder, &display).await;
    files.map_err(model_failure)
}

/// Digests of the files of an encoder of this machine.
pub(super) async fn files_of(session: &Session, model: &str) -> Result<ModelFiles, Failure> {
    let resolver = session.resolver()?;
    // The model to deploy must be present; nothing is fetched for the comparison.
    if !is_here(&resolver, model) {
        let message = format!("--model: {model} is neither a file or folder nor in the cache of models");
        return Err(Failure::dependency(message));
    }
    digested(session, &resolver, model).await
}

fn say(global: &Global, verified: &VerifiedAttestation) -> Result<(), Failure> {
    let test = &verified.statement.predicate;
    let mut out = std::io::stdout().lock();
    let text = match global.format {
        Format::Json => json!({
            "encoder": verified.encoder,
            "weights_sha256": verified.weights,
            "files": verified.statement.files(),
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
