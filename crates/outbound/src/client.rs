//! The HTTP client of every call to third-party servers.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use isomer_service_kit::{client::ClientTls, tls};
use reqwest::{Certificate, ClientBuilder, Identity, redirect};

use crate::{guard::Resolver, said::cause};

/// Default of the longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings that all our clients share. Redirects are not followed: they would carry the secret
/// to an unchecked address.
pub fn builder() -> ClientBuilder {
    tls::install_crypto();
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("isomer/", env!("CARGO_PKG_VERSION")))
}

/// A client that connects only to addresses that the guard allows. It uses no proxy, because a
/// proxy would resolve names itself.
pub fn guarded(builder: ClientBuilder, resolver: Resolver) -> ClientBuilder {
    builder.no_proxy().dns_resolver(resolver)
}

/// A TLS file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", .file.display())]
pub struct BadTlsFile {
    /// The field of [`ClientTls`] that names it.
    pub field: &'static str,
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub message: String,
}

/// A client that trusts these authorities alone and shows this certificate. The caller sets the
/// server's name.
///
/// # Errors
/// If a file cannot be read or holds something else.
pub fn with_tls(mut builder: ClientBuilder, tls: &ClientTls) -> Result<ClientBuilder, BadTlsFile> {
    if let Some(file) = &tls.ca_file {
        builder = trusting(builder, file)?;
    }
    if let (Some(certificate), Some(key)) = (&tls.certificate_file, &tls.key_file) {
        let mut pem = read("certificate_file", certificate)?;
        pem.push(b'\n');
        pem.extend(read("key_file", key)?);
        let identity = Identity::from_pem(&pem).map_err(|error| bad("certificate_file", certificate, cause(&error)))?;
        builder = builder.identity(identity);
    }
    Ok(builder)
}

/// A client that trusts the authorities of a PEM file, and no others.
///
/// # Errors
/// If the file cannot be read or holds no certificate.
pub fn trusting(builder: ClientBuilder, file: &Path) -> Result<ClientBuilder, BadTlsFile> {
    let found = Certificate::from_pem_bundle(&read("ca_file", file)?);
    let found = found.map_err(|error| bad("ca_file", file, cause(&error)))?;
    if found.is_empty() {
        return Err(bad("ca_file", file, "it holds no certificate"));
    }
    Ok(builder.tls_certs_only(found))
}

fn read(field: &'static str, file: &Path) -> Result<Vec<u8>, BadTlsFile> {
    fs::read(file).map_err(|error| bad(field, file, error.to_string()))
}

fn bad(field: &'static str, file: &Path, message: impl Into<String>) -> BadTlsFile {
    BadTlsFile {
        field,
        file: file.to_owned(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = trusting(builder(), file.path()).unwrap_err();
        assert_eq!((error.field, error.file.as_path()), ("ca_file", file.path()));
        assert!(error.to_string().contains("no certificate"), "{error}");
        let missing = ClientTls {
            ca_file: Some("nowhere.pem".into()),
            ..ClientTls::default()
        };
        let error = with_tls(builder(), &missing).unwrap_err();
        assert!(error.to_string().starts_with("nowhere.pem: "), "{error}");
    }
}
