//! A certificate authority for tests of TLS, with the certificates it has issued, as files for the
//! configuration of servers and clients.
#![allow(clippy::unwrap_used, reason = "only tests depend on it")]

use std::{fs, path::PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tempfile::TempDir;

/// An authority with a certificate for a server and one for a client, in a folder that is removed
/// when the authority is dropped.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
    name: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority, which accepts no other authority's certificates. `name` is the host name in
    /// both certificates.
    ///
    /// # Panics
    /// If no temporary files can be written.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self {
            folder: TempDir::new().unwrap(),
            name: name.to_owned(),
            issuer,
        };
        fs::write(authority.file("ca.pem"), authority.issuer.pem()).unwrap();
        authority.issue();
        authority
    }

    /// Issues new certificates, with new keys, into the files of the previous ones.
    ///
    /// # Panics
    /// If the files cannot be written.
    pub fn issue(&self) {
        let (server, client) = (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
        for (who, usages) in [
            ("server", vec![server.clone()]),
            ("client", vec![client.clone()]),
            ("service", vec![server, client]),
        ] {
            let mut params = CertificateParams::new(vec![self.name.clone()]).unwrap();
            params.extended_key_usages = usages;
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap();
            fs::write(self.file(&format!("{who}.pem")), certificate.pem()).unwrap();
            fs::write(self.file(&format!("{who}.key")), key.serialize_pem()).unwrap();
        }
    }

    /// A file in the authority's folder. `ca.pem`, `server.pem`, `server.key`, `client.pem`,
    /// `client.key`, and `service.pem` and `service.key` of a service that is both exist; the test
    /// may write others.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
