//! Server side of TLS, and the process's one cryptography provider.

mod renewal;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{RootCertStore, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde::{Deserialize, Serialize};

use isomer_fault::Fault;

pub(crate) use renewal::{Contents, Renewal, Role, TlsFiles};

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

/// Installs ring as the process's cryptography provider. Does nothing if a provider is installed
/// already.
pub fn install_crypto() {
    // An error means that a provider is installed already, which is sufficient.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn read(field: &str, file: &Path) -> Result<Vec<u8>, Fault> {
    std::fs::read(file)
        .map_err(|e| Fault::invalid(field, format!("cannot read {}: {e}", file.display())).hint("check the path"))
}

impl TlsFiles for TlsConfig {
    type Config = rustls::ServerConfig;

    fn files(&self) -> Vec<(&'static str, &Path)> {
        let mut files = vec![
            ("server.tls.certificate_file", self.certificate_file.as_path()),
            ("server.tls.key_file", self.key_file.as_path()),
        ];
        files.extend(
            self.client_ca_file
                .as_deref()
                .map(|file| ("server.tls.client_ca_file", file)),
        );
        files
    }

    /// HTTP/2 and HTTP/1.1 on one port, for gRPC and plain HTTP clients.
    fn build(&self, contents: &Contents) -> Result<Arc<rustls::ServerConfig>, Fault> {
        install_crypto();
        let (chain, key) = contents.identity("server.tls.certificate_file", "server.tls.key_file")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::internal(format!("TLS cannot be set up: {error}")))?;
        let builder = match &self.client_ca_file {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let roots = contents.authorities("server.tls.client_ca_file")?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|e| bad("server.tls.client_ca_file", file, &e))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|e| bad("server.tls.certificate_file", &self.certificate_file, &e))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// A certificate chain and its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Contents {
    /// The certificate chain and the key in two of the files.
    pub(crate) fn identity(&self, chain: &'static str, key: &'static str) -> Result<Identity, Fault> {
        let (file, pem) = self.of(key)?;
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|e| bad(key, file, &e))?;
        Ok((self.certificates(chain)?, key))
    }

    /// The authorities in one of the files.
    pub(crate) fn authorities(&self, field: &'static str) -> Result<RootCertStore, Fault> {
        let mut roots = RootCertStore::empty();
        for authority in self.certificates(field)? {
            let (file, _) = self.of(field)?;
            roots.add(authority).map_err(|e| bad(field, file, &e))?;
        }
        Ok(roots)
    }

    fn certificates(&self, field: &'static str) -> Result<Vec<CertificateDer<'static>>, Fault> {
        let (file, pem) = self.of(field)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let found = found.map_err(|e| bad(field, file, &e))?;
        if found.is_empty() {
            return Err(
                Fault::invalid(field, format!("{} does not contain a certificate", file.display()))
                    .hint("give a PEM file"),
            );
        }
        Ok(found)
    }
}

/// The fault for a file whose content does not suit its field.
pub(crate) fn bad(field: &str, file: &Path, error: &dyn std::error::Error) -> Fault {
    Fault::invalid(field, format!("{}: {error}", file.display())).hint("give a PEM file of the right kind")
}
