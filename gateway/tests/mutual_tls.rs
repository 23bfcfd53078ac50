//! Certificates on every hop: who asks the gateway shows one, and so does the gateway where it asks embed-svc.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(
    dead_code,
    clippy::print_stdout,
    reason = "here it is served behind TLS, by the test"
)]
#[path = "../examples/gateway_load/upstream.rs"]
mod upstream;
#[path = "../examples/gateway_load/vectors.rs"]
mod vectors;

use std::{fs, net::SocketAddr, path::PathBuf};

use isomer_gateway::{GatewayConfig, upstreams};
use isomer_proto::encoder::v1::{
    EncodeRequest, Input, encoder_service_client::EncoderServiceClient, encoder_service_server::EncoderServiceServer,
    input,
};
use isomer_service_kit::{
    Services,
    client::{self, ClientConfig, ClientTls},
    server::{self, ServerConfig},
    tls::TlsConfig,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tempfile::TempDir;
use tonic::Code;

/// The name in every server's certificate, which nobody resolves.
const NAME: &str = "isomer.test";

/// An authority, and certificates of it: a server's and a client's.
struct Authority(TempDir);

impl Authority {
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
            fs::write(
                folder.path().join(format!("{name}.pem")),
                params.signed_by(&key, &issuer).unwrap().pem(),
            )
            .unwrap();
            fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Lets in whom this authority vouches for.
    fn server(&self) -> ServerConfig {
        ServerConfig {
            tls: Some(TlsConfig {
                certificate_file: self.path("server.pem"),
                key_file: self.path("server.key"),
                client_ca_file: Some(self.path("ca.pem")),
            }),
            shutdown_grace_seconds: 1,
            ..ServerConfig::at("127.0.0.1:0".parse().unwrap())
        }
    }

    /// Trusts this authority, and shows a certificate of `own`.
    fn client(&self, address: SocketAddr, own: Option<&Self>) -> ClientConfig {
        ClientConfig {
            address: format!("https://{address}"),
            tls: Some(ClientTls {
                ca_file: Some(self.path("ca.pem")),
                certificate_file: own.map(|own| own.path("client.pem")),
                key_file: own.map(|own| own.path("client.key")),
                server_name: Some(NAME.to_owned()),
            }),
            ..ClientConfig::default()
        }
    }
}

/// An embed-svc of sorts, and a gateway in front of it that shows a certificate of `own`.
async fn gateway(authority: &Authority, own: Option<&Authority>, home: &TempDir) -> SocketAddr {
    let config = authority.server();
    let listener = server::bind(&config).unwrap();
    let upstream = listener.local_addr().unwrap();
    let services = Services::new().add(EncoderServiceServer::new(upstream::Instant));
    tokio::spawn(async move { server::serve(services, &config, listener, std::future::pending()).await });

    let config = GatewayConfig {
        server: authority.server(),
        home: Some(home.path().to_owned()),
        embed: Some(authority.client(upstream, own)),
        ..GatewayConfig::default()
    };
    let listener = server::bind(&config.server).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { upstreams::run(config, listener, std::future::pending()).await });
    address
}

/// The vector of a text, asked for over a connection.
async fn ask(connection: &ClientConfig) -> Result<Vec<u8>, Code> {
    let channel = client::connect_lazy(connection).unwrap();
    let request = EncodeRequest {
        encoder_id: "instant".to_owned(),
        inputs: vec![Input {
            input: Some(input::Input::Text("A text.".to_owned())),
        }],
        ..EncodeRequest::default()
    };
    let answer = EncoderServiceClient::new(channel).encode(request).await;
    let matrix = answer.map_err(|status| status.code())?.into_inner().embeddings.unwrap();
    Ok(matrix.data.to_vec())
}

/// In TLS 1.3 a client learns that its certificate was refused after its own handshake: then the connection breaks (`UNKNOWN`).
fn assert_no_connection(outcome: Result<Vec<u8>, Code>) {
    assert!(matches!(outcome, Err(Code::Unavailable | Code::Unknown)), "{outcome:?}");
}

#[tokio::test]
async fn every_hop_asks_for_a_certificate_and_shows_one() {
    let (authority, stranger, home) = (Authority::new(), Authority::new(), TempDir::new().unwrap());
    let address = gateway(&authority, Some(&authority), &home).await;
    let vector = ask(&authority.client(address, Some(&authority))).await.unwrap();
    assert_eq!(vector, vectors::bytes("A text."));
    for own in [None, Some(&stranger)] {
        assert_no_connection(ask(&authority.client(address, own)).await);
    }
    // A server of another authority is none of ours.
    let mistaken = stranger.client(address, Some(&authority));
    assert_no_connection(ask(&mistaken).await);
}

#[tokio::test]
async fn a_gateway_without_a_certificate_gets_nothing_from_its_upstream() {
    let (authority, home) = (Authority::new(), TempDir::new().unwrap());
    let address = gateway(&authority, None, &home).await;
    assert_no_connection(ask(&authority.client(address, Some(&authority))).await);
}
