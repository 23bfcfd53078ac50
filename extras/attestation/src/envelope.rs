//! DSSE envelopes: a payload, its type, and signatures over both.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use crate::key::{KeyError, PrivateKey, PublicKey};

/// The type of in-toto statements.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    #[serde(rename = "payloadType")]
    pub payload_type: String,
    /// The payload in base64.
    pub payload: String,
    pub signatures: Vec<Signature>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// [`PublicKey::id`]; a hint, which is not signed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub keyid: String,
    /// The signature in base64.
    pub sig: String,
}

/// The signed bytes: the "pre-authentication encoding" of the type and the payload, with their
/// lengths, so that no other pair gives the same bytes.
fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// Media type of a Sigstore bundle.
pub const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// An envelope with its verification material, in the form that Sigstore's tools expect in
/// registries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    #[serde(default)]
    verification_material: serde_json::Value,
    dsse_envelope: Envelope,
}

impl Envelope {
    /// Parses an envelope (JSON), alone or in a Sigstore bundle.
    ///
    /// # Errors
    /// If it is neither.
    pub fn read(json: &[u8]) -> Result<Self, serde_json::Error> {
        match serde_json::from_slice::<Bundle>(json) {
            Ok(bundle) => Ok(bundle.dsse_envelope),
            Err(_) => serde_json::from_slice(json),
        }
    }

    /// The envelope in a Sigstore bundle (v0.3), which names the key and has no entry of a
    /// transparency log.
    ///
    /// # Errors
    /// If it cannot be written as JSON, which is an internal error.
    pub fn bundle(&self, key: &PublicKey) -> Result<Vec<u8>, serde_json::Error> {
        let mut envelope = self.clone();
        // The material there names the key, and cosign skips signatures that name another.
        for signature in &mut envelope.signatures {
            signature.keyid.clear();
        }
        serde_json::to_vec(&Bundle {
            media_type: BUNDLE_TYPE.to_owned(),
            verification_material: serde_json::json!({ "publicKey": { "hint": key.id() } }),
            dsse_envelope: envelope,
        })
    }

    /// Signs an in-toto statement.
    ///
    /// # Errors
    /// If no random numbers are available.
    pub fn sign(statement: &[u8], key: &PrivateKey) -> Result<Self, KeyError> {
        let signature = key.sign(&signed_bytes(PAYLOAD_TYPE, statement))?;
        Ok(Self {
            payload_type: PAYLOAD_TYPE.to_owned(),
            payload: STANDARD.encode(statement),
            signatures: vec![Signature {
                keyid: key.public().id(),
                sig: STANDARD.encode(signature),
            }],
        })
    }

    /// The in-toto statement, if one of the signatures was made with this key.
    pub fn opened(&self, key: &PublicKey) -> Option<Vec<u8>> {
        if self.payload_type != PAYLOAD_TYPE {
            return None;
        }
        let payload = STANDARD.decode(&self.payload).ok()?;
        let signed = signed_bytes(&self.payload_type, &payload);
        let verifies = self
            .signatures
            .iter()
            .filter_map(|signature| STANDARD.decode(&signature.sig).ok())
            .any(|signature| key.verifies(&signed, &signature));
        verifies.then_some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_that_are_signed_are_those_of_the_specification() {
        // The example of the DSSE protocol's specification.
        let bytes = signed_bytes("http://example.com/HelloWorld", b"hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
