//! Keys in PEM: ECDSA on P-256 or Ed25519, private keys in PKCS#8, public keys as
//! SubjectPublicKeyInfo, in the format of `openssl genpkey`.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
        UnparsedPublicKey, VerificationAlgorithm,
    },
};
use sha2::{Digest, Sha256};

/// The bytes before the point of a P-256 key, and before an Ed25519 key, in SubjectPublicKeyInfo
/// (RFC 5480, RFC 8410).
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const EDWARDS: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A key that cannot be used.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum KeyError {
    /// It is not PEM, or is damaged.
    #[error("it is not a key in PEM with the heading `{wanted}`")]
    NotPem {
        /// The expected heading.
        wanted: &'static str,
    },
    #[error(
        "it is encrypted; decrypt it: openssl pkey -in KEY -out PLAIN (a key of cosign's own: make one with openssl and give it to cosign \
         import-key-pair)"
    )]
    Encrypted,
    /// It is another kind of key.
    #[error("it is neither an ECDSA key on P-256 nor an Ed25519 key{0}")]
    Kind(String),
    /// The signature could not be made.
    #[error("the system gives no random numbers")]
    Random,
}

/// The bytes between `BEGIN` and `END` of a heading.
fn pem(text: &str, heading: &'static str) -> Result<Vec<u8>, KeyError> {
    let (begin, end) = (format!("-----BEGIN {heading}-----"), format!("-----END {heading}-----"));
    let wrong = KeyError::NotPem { wanted: heading };
    let body = text
        .split_once(&begin)
        .and_then(|(_, rest)| rest.split_once(&end))
        .map(|(body, _)| body.split_ascii_whitespace().collect::<String>());
    let body = body.ok_or_else(|| wrong.clone())?;
    STANDARD.decode(body).map_err(|_| wrong)
}

/// A key that signs.
pub struct PrivateKey(Pair);

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("public", &self.public()).finish()
    }
}

impl PrivateKey {
    /// Parses a private key in PEM (`PRIVATE KEY`).
    ///
    /// # Errors
    /// If it is not such a key.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        if text.contains("-----BEGIN ENCRYPTED") {
            return Err(KeyError::Encrypted);
        }
        if text.contains("-----BEGIN EC PRIVATE KEY-----") {
            return Err(KeyError::Kind(
                " in PKCS#8; convert it: openssl pkcs8 -topk8 -nocrypt -in KEY -out PKCS8".to_owned(),
            ));
        }
        let der = pem(text, "PRIVATE KEY")?;
        let random = SystemRandom::new();
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random) {
            return Ok(Self(Pair::Ecdsa(pair)));
        }
        // OpenSSL writes the first version, without the public part.
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der)
            .map(|pair| Self(Pair::Edwards(pair)))
            .map_err(|error| KeyError::Kind(format!(" ({error})")))
    }

    /// The key that verifies this key's signatures.
    pub fn public(&self) -> PublicKey {
        match &self.0 {
            Pair::Ecdsa(pair) => PublicKey::new(Kind::Ecdsa, pair.public_key().as_ref()),
            Pair::Edwards(pair) => PublicKey::new(Kind::Edwards, pair.public_key().as_ref()),
        }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match &self.0 {
            Pair::Ecdsa(pair) => {
                let signed = pair.sign(&SystemRandom::new(), message);
                Ok(signed.map_err(|_| KeyError::Random)?.as_ref().to_vec())
            }
            Pair::Edwards(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ecdsa,
    Edwards,
}

/// A key that verifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: Kind,
    bytes: Vec<u8>,
}

impl PublicKey {
    fn new(kind: Kind, bytes: &[u8]) -> Self {
        Self {
            kind,
            bytes: bytes.to_vec(),
        }
    }

    /// Parses a public key in PEM (`PUBLIC KEY`).
    ///
    /// # Errors
    /// If it is not such a key.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let der = pem(text, "PUBLIC KEY")?;
        match (der.strip_prefix(&P256), der.strip_prefix(&EDWARDS)) {
            // An uncompressed point.
            (Some(point), _) if point.len() == 65 && point[0] == 4 => Ok(Self::new(Kind::Ecdsa, point)),
            (_, Some(bytes)) if bytes.len() == 32 => Ok(Self::new(Kind::Edwards, bytes)),
            _ => Err(KeyError::Kind(String::new())),
        }
    }

    fn der(&self) -> Vec<u8> {
        let head: &[u8] = match self.kind {
            Kind::Ecdsa => &P256,
            Kind::Edwards => &EDWARDS,
        };
        [head, &self.bytes].concat()
    }

    pub fn to_pem(&self) -> String {
        let body = STANDARD.encode(self.der());
        let lines: Vec<&str> = body
            .as_bytes()
            .chunks(64)
            .filter_map(|line| std::str::from_utf8(line).ok())
            .collect();
        format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            lines.join("\n")
        )
    }

    /// SHA-256 (hex) of its SubjectPublicKeyInfo, by which envelopes name it.
    pub fn id(&self) -> String {
        hex::encode(Sha256::digest(self.der()))
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn VerificationAlgorithm = match self.kind {
            Kind::Ecdsa => &ECDSA_P256_SHA256_ASN1,
            Kind::Edwards => &ED25519,
        };
        UnparsedPublicKey::new(algorithm, &self.bytes)
            .verify(message, signature)
            .is_ok()
    }
}
