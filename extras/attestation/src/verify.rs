//! Verifies an attestation: its signature, its report, and that its statement follows from the
//! report.

use isomer_report::Report;

use crate::{
    envelope::Envelope,
    key::PublicKey,
    statement::{Outcome, Resource, Statement, statements},
};

/// The reason why an attestation is invalid.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Not an envelope.
    #[error("it is not a DSSE envelope: {0}")]
    Envelope(String),
    /// No signature was made with the key.
    #[error(
        "no signature is of this key, or the content was changed; it names the {}",
        named(.0)
    )]
    Signature(Vec<String>),
    /// Not a statement of a check.
    #[error("its content is not a statement of a check: {0}")]
    Statement(String),
    /// The report cannot be read.
    #[error("the report cannot be read: {0}")]
    Report(String),
    /// The statement does not follow from the report.
    #[error(
        "it does not follow from this report: {0}; the report was changed since, or the statement was not made from it"
    )]
    Differs(String),
}

fn named(keys: &[String]) -> String {
    match keys {
        [] => "no key".to_owned(),
        keys => format!("key {}", keys.join(", ")),
    }
}

/// A valid attestation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedAttestation {
    /// Id of the encoder.
    pub encoder: String,
    /// SHA-256 (hex) of its weights.
    pub weights: String,
    pub result: Outcome,
    /// Artifacts that contain these weights, according to the signature.
    pub artifacts: Vec<Resource>,
    pub statement: Statement,
}

/// Verifies an envelope (JSON), alone or in a bundle, against a key and the bytes of its report.
///
/// # Errors
/// If it is invalid.
pub fn verify(envelope: &[u8], key: &PublicKey, report: &[u8]) -> Result<VerifiedAttestation, VerifyError> {
    let envelope = Envelope::read(envelope).map_err(|error| VerifyError::Envelope(error.to_string()))?;
    let Some(payload) = envelope.opened(key) else {
        let keys = envelope.signatures.into_iter().map(|signature| signature.keyid);
        return Err(VerifyError::Signature(keys.filter(|id| !id.is_empty()).collect()));
    };
    let statement: Statement =
        serde_json::from_slice(&payload).map_err(|error| VerifyError::Statement(error.to_string()))?;
    let read: Report = isomer_report::read(report).map_err(VerifyError::Report)?;
    let all = statements(&read, report).map_err(|error| VerifyError::Differs(error.to_string()))?;
    let subject = statement.subject.first();
    let (encoder, weights) = subject
        .and_then(|subject| Some((subject.name.clone(), subject.digest.get("sha256")?.clone())))
        .ok_or_else(|| VerifyError::Statement("it names no weights".to_owned()))?;
    let made = all.into_iter().find(|(id, _)| *id == encoder);
    let (_, made) = made.ok_or_else(|| VerifyError::Differs(format!("its gate does not judge `{encoder}`")))?;
    // The report does not know the artifacts after these two; the signer is responsible for them.
    let Some(artifacts) = statement.subject.strip_prefix(made.subject.as_slice()) else {
        return Err(VerifyError::Differs("the digests are others".to_owned()));
    };
    // Versions of Isomer may write the configuration differently, and its signature is sufficient.
    let said = |statement: &Statement| {
        let mut predicate = statement.predicate.clone();
        predicate.configuration.clear();
        (statement.kind.clone(), statement.predicate_type.clone(), predicate)
    };
    if said(&made) != said(&statement) {
        return Err(VerifyError::Differs("the result is another".to_owned()));
    }
    Ok(VerifiedAttestation {
        encoder,
        weights,
        result: statement.predicate.result,
        artifacts: artifacts.to_vec(),
        statement,
    })
}
