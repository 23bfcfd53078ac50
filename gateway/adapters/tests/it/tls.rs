//! TLS to providers: their authority, our certificate, the name we expect.

use std::net::SocketAddr;

use isomer_authority::Authority;
use isomer_proto::gateway::v1::{Provider, ProviderKind, TlsSettings};
use isomer_service_kit::{Services, server::ServerConfig, tls::TlsConfig};
use isomer_stubs::{
    http::{Record, router},
    rpc,
};
use tonic::Code;

use crate::support::{Reply, connect, listed, of, provider, rows, vectors};

/// The name in the server's certificate; it is never resolved.
const NAME: &str = "encoder.test";

fn file(authority: &Authority, name: &str) -> String {
    authority.file(name).display().to_string()
}

fn settings(authority: &Authority, server_name: &str, with_certificate: bool) -> TlsSettings {
    let own = |name| match with_certificate {
        true => file(authority, name),
        false => String::new(),
    };
    TlsSettings {
        ca_file: file(authority, "ca.pem"),
        certificate_file: own("client.pem"),
        key_file: own("client.key"),
        server_name: server_name.into(),
    }
}

/// Serves OpenAI's shapes to clients with a certificate of the authority.
fn serve(authority: &Authority) -> SocketAddr {
    let config = ServerConfig {
        tls: Some(TlsConfig {
            certificate_file: authority.file("server.pem"),
            key_file: authority.file("server.key"),
            client_ca_file: Some(authority.file("ca.pem")),
        }),
        ..ServerConfig::at("127.0.0.1:0".parse().unwrap())
    };
    let routes = router(Record::default(), |call| Reply::ok(listed(call)));
    rpc::start(Services::new().http(routes), config)
}

fn secured(address: SocketAddr, kind: ProviderKind, tls: TlsSettings) -> Provider {
    Provider {
        tls: Some(tls),
        ..provider(kind, &format!("https://{address}"))
    }
}

#[tokio::test]
async fn http_is_secured_with_their_authority_our_certificate_and_the_expected_name() {
    let authority = Authority::new(NAME);
    let address = serve(&authority);
    let fine = secured(address, ProviderKind::Openai, settings(&authority, NAME, true));
    let answer = connect(&fine).encode(of(&["one"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one"]));
    for (name, with_certificate) in [("", true), ("other.test", true), (NAME, false)] {
        let provider = secured(
            address,
            ProviderKind::Openai,
            settings(&authority, name, with_certificate),
        );
        let fault = connect(&provider).encode(of(&["one"]), None).await.unwrap_err();
        assert_eq!(fault.code, Code::Unavailable, "{name} {with_certificate}: {fault}");
    }
}

#[tokio::test]
async fn grpc_is_secured_the_same_way() {
    let authority = Authority::new(NAME);
    let address = serve(&authority);
    let fine = secured(address, ProviderKind::Isomer, settings(&authority, NAME, true));
    // The connection is made; the error is that the server has no such service.
    let fault = connect(&fine).encode(of(&["one"]), None).await.unwrap_err();
    assert_ne!(fault.code, Code::Unavailable, "{fault}");
    for (name, with_certificate) in [("", true), ("other.test", true), (NAME, false)] {
        let provider = secured(
            address,
            ProviderKind::Isomer,
            settings(&authority, name, with_certificate),
        );
        let fault = connect(&provider).encode(of(&["one"]), None).await.unwrap_err();
        assert_eq!(fault.code, Code::Unavailable, "{name} {with_certificate}: {fault}");
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new(NAME);
    let address = "127.0.0.1:9".parse().unwrap();
    for kind in [ProviderKind::Openai, ProviderKind::Isomer] {
        let mut tls = settings(&authority, NAME, true);
        tls.ca_file = file(&authority, "missing.pem");
        let fault = crate::support::try_connect(&secured(address, kind, tls)).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("provider.tls.ca_file"), "{fault}");
        let mut tls = settings(&authority, NAME, true);
        tls.key_file.clear();
        let fault = crate::support::try_connect(&secured(address, kind, tls)).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("provider.tls"), "{fault}");
    }
}
