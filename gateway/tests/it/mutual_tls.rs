//! Certificates on every hop: clients present one to the gateway, and the gateway presents one to
//! embed-svc.

use std::{future::ready, net::SocketAddr};

use isomer_authority::Authority;
use isomer_gateway::{GatewayConfig, upstreams};
use isomer_proto::{
    common::v1::VectorSpace,
    encoder::v1::{EncodeResponse, encoder_service_client::EncoderServiceClient},
    transform::v1::{ListTransformationsRequest, transform_service_client::TransformServiceClient},
};
use isomer_service_kit::{
    Services,
    client::{self, ClientConfig, ClientTls},
    server::{self, ServerConfig},
    tls::TlsConfig,
};
use isomer_stubs::{
    encoder::{StubEncoder, answer, named, texts},
    request, rpc,
};
use tempfile::TempDir;
use tonic::{Code, Status};

/// The name in every server's certificate; it is never resolved.
const NAME: &str = "isomer.test";

/// A server that accepts clients with a certificate of the authority.
fn secured(authority: &Authority) -> ServerConfig {
    ServerConfig {
        tls: Some(TlsConfig {
            certificate_file: authority.file("server.pem"),
            key_file: authority.file("server.key"),
            client_ca_file: Some(authority.file("ca.pem")),
        }),
        shutdown_grace_seconds: 1,
        ..ServerConfig::at("127.0.0.1:0".parse().unwrap())
    }
}

/// A client that trusts the authority and presents the certificate of `own`.
fn connection(authority: &Authority, address: SocketAddr, own: Option<&Authority>) -> ClientConfig {
    ClientConfig {
        address: format!("https://{address}"),
        tls: Some(ClientTls {
            ca_file: Some(authority.file("ca.pem")),
            certificate_file: own.map(|own| own.file("client.pem")),
            key_file: own.map(|own| own.file("client.key")),
            server_name: Some(NAME.to_owned()),
        }),
        ..ClientConfig::default()
    }
}

fn vector(text: &str) -> [f32; 2] {
    [text.len() as f32, 1.5]
}

/// A stub of embed-svc and a gateway in front of it that presents the certificate of `own`. Returns
/// the addresses of both.
async fn gateway(authority: &Authority, own: Option<&Authority>, home: &TempDir) -> (SocketAddr, SocketAddr) {
    let encoder = StubEncoder::of([named("instant")]).on_encode(|request| {
        let space = VectorSpace {
            digest: "instant".to_owned(),
            ..VectorSpace::default()
        };
        ready(Ok(EncodeResponse {
            vector_space: Some(space),
            ..answer(texts(request.get_ref()).map(vector), 8)
        }))
    });
    let upstream = rpc::start(Services::new().add(encoder.service()), secured(authority));

    let config = GatewayConfig {
        server: secured(authority),
        home: Some(home.path().to_owned()),
        embed: Some(connection(authority, upstream, own).into()),
        transform: Some(connection(authority, upstream, own).into()),
        ..GatewayConfig::default()
    };
    let listener = server::bind(&config.server).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { upstreams::run(config, listener, std::future::pending()).await });
    (address, upstream)
}

/// The vector of a text, requested over the connection.
async fn ask(connection: &ClientConfig) -> Result<Vec<u8>, Status> {
    let channel = client::connect_lazy(connection).unwrap();
    let request = request::encode("instant", ["A text."]);
    let answer = EncoderServiceClient::new(channel).encode(request).await?;
    Ok(answer.into_inner().embeddings.unwrap().data.to_vec())
}

/// In TLS 1.3 a client learns that its certificate was refused only after its own handshake, when
/// the connection breaks.
fn assert_no_connection<T: std::fmt::Debug>(outcome: Result<T, Status>, to: SocketAddr) {
    let status = outcome.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let message = status.message();
    // The message gives the address and the reason; the cause comes last.
    let (_, why) = message.split_once(&to.to_string()).expect(message);
    assert!(why.rsplit(": ").next().unwrap().len() > 8, "{message}");
    for useless in ["transport error", "error trying to connect"] {
        assert!(!message.ends_with(useless), "{message}");
    }
}

#[tokio::test]
async fn every_hop_asks_for_a_certificate_and_shows_one() {
    let (authority, stranger, home) = (Authority::new(NAME), Authority::new(NAME), TempDir::new().unwrap());
    let (address, _) = gateway(&authority, Some(&authority), &home).await;
    let answered = ask(&connection(&authority, address, Some(&authority))).await.unwrap();
    assert_eq!(answered, vector("A text.").map(f32::to_le_bytes).concat());
    for own in [None, Some(&stranger)] {
        assert_no_connection(ask(&connection(&authority, address, own)).await, address);
    }
    // The client does not trust a server of another authority.
    let mistaken = connection(&stranger, address, Some(&authority));
    assert_no_connection(ask(&mistaken).await, address);
}

#[tokio::test]
async fn a_gateway_whose_certificate_is_refused_says_which_upstream_it_misses_and_why() {
    for own in [None, Some(Authority::new(NAME))] {
        let (authority, home) = (Authority::new(NAME), TempDir::new().unwrap());
        let (address, upstream) = gateway(&authority, own.as_ref(), &home).await;
        let asking = connection(&authority, address, Some(&authority));
        assert_no_connection(ask(&asking).await, upstream);
        // The same holds for proxied services.
        let channel = client::connect_lazy(&asking).unwrap();
        let request = ListTransformationsRequest::default();
        let answer = TransformServiceClient::new(channel).list_transformations(request).await;
        let said = answer.as_ref().unwrap_err().message().to_owned();
        assert!(said.starts_with("isomer.transform.v1.TransformService: "), "{said}");
        assert_no_connection(answer, upstream);
    }
}
