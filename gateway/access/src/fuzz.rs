//! Entry points for the fuzz targets of `tests/fuzz` into readers that are private to this crate.
//! Not part of the crate's interface.

use http::{HeaderMap, request::Parts};
use isomer_service_kit::Fault;

use crate::{JwtConfig, Scopes, credential, host, jwks, jwt::Tokens, key};

/// Verifies tokens of an identity provider.
#[derive(Debug)]
pub struct TokenReader(Tokens);

impl TokenReader {
    /// A reader with its own cache.
    ///
    /// # Errors
    /// If the configuration cannot work.
    pub fn new(config: JwtConfig) -> Result<Self, Fault> {
        Tokens::new(config).map(Self)
    }

    /// Name, scopes and expiry (microseconds since 1970) of the subject of a valid token.
    ///
    /// # Errors
    /// If the token is not valid.
    pub async fn verify(&self, text: &str) -> Result<(String, Scopes, i64), Fault> {
        let subject = self.0.verify(text).await?;
        Ok((subject.name.clone(), subject.scopes, subject.expires))
    }
}

/// Parses a set of public keys. Returns the number of keys that can verify signatures.
///
/// # Errors
/// The reader's errors.
pub fn key_set(text: &[u8]) -> Result<usize, String> {
    jwks::parse(text).map(|keys| keys.len())
}

/// The public id of a well-formed API key.
pub fn key_id(text: &str) -> Option<&str> {
    key::read(text).map(|key| key.id)
}

/// A text with everything removed that looks like a key's secret part.
pub fn without_keys(text: &str) -> String {
    key::without_keys(text)
}

/// Reads the credential of a request; returns `true` if there is one.
///
/// # Errors
/// The reader's errors.
pub fn credential(headers: &HeaderMap, basic: bool) -> Result<bool, Fault> {
    let found = credential::read(headers, basic)?;
    Ok(!matches!(found, credential::Credential::None))
}

/// Whether a request is addressed to this machine and sent by one of its own pages.
///
/// # Errors
/// The check's errors.
pub fn check_local(parts: &Parts, allowed: &[String]) -> Result<(), Fault> {
    host::check_local(parts, allowed)
}
