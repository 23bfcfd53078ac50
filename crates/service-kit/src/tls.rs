//! Server side of TLS, and the process's one cryptography provider.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{RootCertStore, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde::{Deserialize, Serialize};

use crate::error::Fault;

/// Server side of TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file with the server's certificate chain.
    pub certificate_file: PathBuf,
    /// PEM file with its key.
    pub key_file: PathBuf,
    /// PEM file with the authorities whose clients are let in (mTLS); absent: any client.
    #[serde(default)]
    pub client_ca_file: Option<PathBuf>,
}

/// Makes ring the process's cryptography provider. Does nothing when one is installed already.
pub fn install_crypto() {
    // An error means that a provider is installed already, and one is all that is needed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub(crate) fn read(field: &str, file: &Path) -> Result<Vec<u8>, Fault> {
    std::fs::read(file)
        .map_err(|e| Fault::invalid(field, format!("cannot read {}: {e}", file.display())).hint("check the path"))
}

/// HTTP/2 and HTTP/1.1 on one port, for gRPC and plain HTTP clients.
pub(crate) fn server_config(tls: &TlsConfig) -> Result<Arc<rustls::ServerConfig>, Fault> {
    install_crypto();
    let certificates = certificates("server.tls.certificate_file", &tls.certificate_file)?;
    let key = PrivateKeyDer::from_pem_slice(&read("server.tls.key_file", &tls.key_file)?)
        .map_err(|e| bad("server.tls.key_file", &tls.key_file, &e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault::internal(format!("TLS cannot be set up: {error}")))?;
    let builder = match &tls.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for authority in self::certificates("server.tls.client_ca_file", file)? {
                roots
                    .add(authority)
                    .map_err(|e| bad("server.tls.client_ca_file", file, &e))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|e| bad("server.tls.client_ca_file", file, &e))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(|e| bad("server.tls.certificate_file", &tls.certificate_file, &e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(field: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let pem = read(field, file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|e| bad(field, file, &e))?;
    if found.is_empty() {
        return Err(
            Fault::invalid(field, format!("{} does not contain a certificate", file.display())).hint("give a PEM file"),
        );
    }
    Ok(found)
}

fn bad(field: &str, file: &Path, error: &dyn std::error::Error) -> Fault {
    Fault::invalid(field, format!("{}: {error}", file.display())).hint("give a PEM file of the right kind")
}
