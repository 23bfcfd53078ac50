//! TLS to providers: their authority, our certificate, the name we expect.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use isomer_proto::gateway::v1::{Provider, ProviderKind, TlsSettings};
use isomer_service_kit::{Services, server, server::ServerConfig, tls::TlsConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tempfile::TempDir;
use tonic::Code;

use crate::support::{Reply, connect, listed, of, provider, router, rows, vectors};

/// The name in the server's certificate, which nobody resolves.
const NAME: &str = "encoder.test";

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        for (name, usage) in [
            ("server", ExtendedKeyUsagePurpose::ServerAuth),
            ("client", ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let mut params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
            fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn settings(&self, server_name: &str, with_certificate: bool) -> TlsSettings {
        let file = |name| {
            if with_certificate {
                self.text(name)
            } else {
                String::new()
            }
        };
        TlsSettings {
            ca_file: self.text("ca.pem"),
            certificate_file: file("client.pem"),
            key_file: file("client.key"),
            server_name: server_name.into(),
        }
    }

    /// Serves OpenAI's shapes to those with a certificate of the authority.
    async fn serve(&self) -> SocketAddr {
        let config = ServerConfig {
            tls: Some(TlsConfig {
                certificate_file: self.path("server.pem"),
                key_file: self.path("server.key"),
                client_ca_file: Some(self.path("ca.pem")),
            }),
            ..ServerConfig::default()
        };
        let services = Services::new().http(router(Arc::new(Mutex::new(Vec::new())), |call| Reply::ok(listed(call))));
        let listener = server::bind(&ServerConfig::at("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { server::serve(services, &config, listener, std::future::pending()).await });
        address
    }
}

fn secured(address: SocketAddr, kind: ProviderKind, tls: TlsSettings) -> Provider {
    Provider {
        tls: Some(tls),
        ..provider(kind, &format!("https://{address}"))
    }
}

#[tokio::test]
async fn http_is_secured_with_their_authority_our_certificate_and_the_expected_name() {
    let files = Files::new();
    let address = files.serve().await;
    let fine = secured(address, ProviderKind::Openai, files.settings(NAME, true));
    let answer = connect(&fine).encode(of(&["one"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one"]));
    for (name, with_certificate) in [("", true), ("other.test", true), (NAME, false)] {
        let provider = secured(address, ProviderKind::Openai, files.settings(name, with_certificate));
        let fault = connect(&provider).encode(of(&["one"]), None).await.unwrap_err();
        assert_eq!(fault.code, Code::Unavailable, "{name} {with_certificate}: {fault}");
    }
}

#[tokio::test]
async fn grpc_is_secured_the_same_way() {
    let files = Files::new();
    let address = files.serve().await;
    let fine = secured(address, ProviderKind::Isomer, files.settings(NAME, true));
    // Behind TLS there is no such service: the connection was made.
    let fault = connect(&fine).encode(of(&["one"]), None).await.unwrap_err();
    assert_ne!(fault.code, Code::Unavailable, "{fault}");
    for (name, with_certificate) in [("", true), ("other.test", true), (NAME, false)] {
        let provider = secured(address, ProviderKind::Isomer, files.settings(name, with_certificate));
        let fault = connect(&provider).encode(of(&["one"]), None).await.unwrap_err();
        assert_eq!(fault.code, Code::Unavailable, "{name} {with_certificate}: {fault}");
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let files = Files::new();
    let address = "127.0.0.1:9".parse().unwrap();
    for kind in [ProviderKind::Openai, ProviderKind::Isomer] {
        let mut settings = files.settings(NAME, true);
        settings.ca_file = files.text("missing.pem");
        let fault = crate::support::try_connect(&secured(address, kind, settings)).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("provider.tls.ca_file"), "{fault}");
        let mut settings = files.settings(NAME, true);
        settings.key_file.clear();
        let fault = crate::support::try_connect(&secured(address, kind, settings)).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("provider.tls"), "{fault}");
    }
}
