use std::fs;

use isomer_authority::Authority;
use isomer_service_kit::{
    Fault, GrpcChannel,
    client::{self, ClientConfig, ClientTls},
    config::Validate,
    server::ServerConfig,
    tls::TlsConfig,
};

use crate::support::{ScriptedEncoder, TestServer, eventually, found, get, services};

/// The name in the certificates, by which clients address the server.
const NAME: &str = "localhost";

/// A server with a certificate of the authority, which admits all clients or only those with a
/// certificate of the authority.
fn secured(authority: &Authority, client_ca: bool) -> ServerConfig {
    let tls = TlsConfig {
        certificate_file: authority.file("server.pem"),
        key_file: authority.file("server.key"),
        client_ca_file: client_ca.then(|| authority.file("ca.pem")),
    };
    ServerConfig {
        tls: Some(tls),
        ..ServerConfig::default()
    }
}

fn trusting(authority: &Authority, with_certificate: bool) -> ClientTls {
    ClientTls {
        ca_file: Some(authority.file("ca.pem")),
        certificate_file: with_certificate.then(|| authority.file("client.pem")),
        key_file: with_certificate.then(|| authority.file("client.key")),
        server_name: None,
    }
}

async fn connect(running: &TestServer, tls: ClientTls) -> Result<GrpcChannel, Fault> {
    let address = format!("https://localhost:{}", running.address.port());
    client::connect(&ClientConfig {
        address,
        tls: Some(tls),
        ..ClientConfig::default()
    })
    .await
}

/// Connects and makes a call: in TLS 1.3 a client learns of its refusal only at its first read.
async fn call(running: &TestServer, tls: ClientTls) -> Result<String, Fault> {
    get(&connect(running, tls).await?, "x").await.map_err(Fault::from)
}

fn browser(authority: &Authority, with_certificate: bool) -> reqwest::ClientBuilder {
    isomer_service_kit::tls::install_crypto();
    let ca = reqwest::Certificate::from_pem(&fs::read(authority.file("ca.pem")).unwrap()).unwrap();
    let builder = reqwest::Client::builder().tls_certs_only([ca]);
    if !with_certificate {
        return builder;
    }
    let mut pem = fs::read(authority.file("client.key")).unwrap();
    pem.extend(fs::read(authority.file("client.pem")).unwrap());
    builder.identity(reqwest::Identity::from_pem(&pem).unwrap())
}

fn health(running: &TestServer) -> String {
    format!("https://localhost:{}/healthz", running.address.port())
}

#[tokio::test]
async fn grpc_http_1_and_http_2_share_a_port_under_tls() {
    let authority = Authority::new(NAME);
    let running = TestServer::start(services(&ScriptedEncoder::default()), secured(&authority, false)).await;
    assert_eq!(call(&running, trusting(&authority, false)).await.unwrap(), "x");
    for (client, version) in [
        (
            browser(&authority, false).http1_only().build().unwrap(),
            reqwest::Version::HTTP_11,
        ),
        (browser(&authority, false).build().unwrap(), reqwest::Version::HTTP_2),
    ] {
        let answer = client.get(health(&running)).send().await.unwrap();
        assert_eq!(answer.version(), version);
        assert_eq!(answer.text().await.unwrap(), "ok\n");
    }
}

#[tokio::test]
async fn mutual_tls_lets_in_only_clients_of_the_authority() {
    let (authority, stranger) = (Authority::new(NAME), Authority::new(NAME));
    let running = TestServer::start(services(&ScriptedEncoder::default()), secured(&authority, true)).await;
    assert_eq!(call(&running, trusting(&authority, true)).await.unwrap(), "x");
    let browser_in = browser(&authority, true).http1_only().build().unwrap();
    assert_eq!(browser_in.get(health(&running)).send().await.unwrap().status(), 200);

    call(&running, trusting(&authority, false)).await.unwrap_err();
    let forged = ClientTls {
        ca_file: Some(authority.file("ca.pem")),
        ..trusting(&stranger, true)
    };
    call(&running, forged).await.unwrap_err();
    browser(&authority, false)
        .http1_only()
        .build()
        .unwrap()
        .get(health(&running))
        .send()
        .await
        .unwrap_err();
}

#[tokio::test]
async fn a_client_trusts_only_its_authority() {
    let (authority, stranger) = (Authority::new(NAME), Authority::new(NAME));
    let running = TestServer::start(services(&ScriptedEncoder::default()), secured(&authority, false)).await;
    let fault = call(&running, trusting(&stranger, false)).await.unwrap_err();
    assert!(fault.message.contains("certificate"), "{fault}");
    let elsewhere = ClientTls {
        server_name: Some("elsewhere.example".to_owned()),
        ..trusting(&authority, false)
    };
    let fault = call(&running, elsewhere).await.unwrap_err();
    assert!(fault.message.contains("certificate"), "{fault}");
}

#[test]
fn unusable_files_are_named_before_a_port_is_bound() {
    let authority = Authority::new(NAME);
    secured(&authority, true).validate().unwrap();
    let broken = authority.file("broken.pem");
    fs::write(&broken, "not PEM").unwrap();
    let with = |change: &dyn Fn(&mut TlsConfig)| {
        let mut config = secured(&authority, true);
        change(config.tls.as_mut().unwrap());
        config.validate().unwrap_err()
    };
    let error = with(&|tls| tls.certificate_file = broken.clone());
    assert_eq!(error.field(), "server.tls.certificate_file");
    let error = with(&|tls| tls.key_file = authority.file("absent.key"));
    assert_eq!(error.field(), "server.tls.key_file");
    assert!(error.to_string().contains("absent.key"), "{error}");
    let error = with(&|tls| tls.client_ca_file = Some(broken.clone()));
    assert_eq!(error.field(), "server.tls.client_ca_file");
    // A valid key that does not belong to this certificate.
    let error = with(&|tls| tls.key_file = authority.file("client.key"));
    assert!(error.field().starts_with("server.tls."), "{error}");
}

/// The certificate that a new connection sees.
async fn certificate(running: &TestServer, authority: &Authority) -> Vec<u8> {
    let client = browser(authority, false).tls_info(true).build().unwrap();
    let answer = client.get(health(running)).send().await.unwrap();
    let info = answer.extensions().get::<reqwest::tls::TlsInfo>().unwrap();
    info.peer_certificate().unwrap().to_vec()
}

/// Waits until new connections see another certificate than this one.
async fn another(running: &TestServer, authority: &Authority, than: &[u8]) -> Vec<u8> {
    let other = async || Some(certificate(running, authority).await).filter(|seen| seen != than);
    found("new connections see another certificate", other).await
}

/// The metric's value for a role; for a client with the address that it calls.
fn broken_flag(role: &str, address: &str) -> Option<String> {
    let text = isomer_service_kit::telemetry::metrics_text();
    let of = [format!("role=\"{role}\""), format!("address=\"{address}\"")];
    let mut lines = text.lines();
    let line = lines.find(|line| {
        line.starts_with("isomer_tls_files_broken_flag{") && of.iter().all(|label| line.contains(label.as_str()))
    });
    line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
}

#[tokio::test]
async fn renewed_certificates_are_seen_by_new_connections_and_old_ones_stay() {
    let authority = Authority::new(NAME);
    let running = TestServer::start(services(&ScriptedEncoder::default()), secured(&authority, false)).await;
    let first = certificate(&running, &authority).await;
    assert_eq!(certificate(&running, &authority).await, first);
    let open = connect(&running, trusting(&authority, false)).await.unwrap();
    assert_eq!(get(&open, "before").await.unwrap(), "before");

    authority.issue();
    another(&running, &authority, &first).await;
    assert_eq!(get(&open, "after").await.unwrap(), "after");
}

#[tokio::test]
async fn broken_files_leave_the_certificate_in_force_and_are_told() {
    let authority = Authority::new(NAME);
    let running = TestServer::start(services(&ScriptedEncoder::default()), secured(&authority, false)).await;
    let first = certificate(&running, &authority).await;
    let (chain, key) = (authority.file("server.pem"), authority.file("server.key"));
    let good = (fs::read(&chain).unwrap(), fs::read(&key).unwrap());

    // A key of another certificate; no certificate; no file.
    for breakage in [
        &(|| fs::write(&key, fs::read(authority.file("client.key")).unwrap()).unwrap()) as &dyn Fn(),
        &|| fs::write(&chain, "not PEM").unwrap(),
        &|| fs::remove_file(&key).unwrap(),
    ] {
        breakage();
        eventually("the metric says that the files are broken", || {
            broken_flag("server", "").as_deref() == Some("1")
        })
        .await;
        assert_eq!(certificate(&running, &authority).await, first);
        fs::write(&chain, &good.0).unwrap();
        fs::write(&key, &good.1).unwrap();
        eventually("the metric says that the files are good", || {
            broken_flag("server", "").as_deref() == Some("0")
        })
        .await;
        assert_eq!(certificate(&running, &authority).await, first);
    }
    authority.issue();
    another(&running, &authority, &first).await;
}

#[tokio::test]
async fn a_client_shows_its_renewed_certificate_when_it_connects_again() {
    let (authority, stranger) = (Authority::new(NAME), Authority::new(NAME));
    let running = TestServer::start(services(&ScriptedEncoder::default()), secured(&authority, true)).await;
    let (chain, key) = (stranger.file("mine.pem"), stranger.file("mine.key"));
    let hold = |of: &Authority| {
        fs::copy(of.file("client.pem"), &chain).unwrap();
        fs::copy(of.file("client.key"), &key).unwrap();
    };
    hold(&stranger);
    let address = format!("https://localhost:{}", running.address.port());
    let channel = client::connect_lazy(&ClientConfig {
        address: address.clone(),
        tls: Some(ClientTls {
            ca_file: Some(authority.file("ca.pem")),
            certificate_file: Some(chain.clone()),
            key_file: Some(key.clone()),
            server_name: None,
        }),
        ..ClientConfig::default()
    })
    .unwrap();
    get(&channel, "refused").await.unwrap_err();
    // A half-finished renewal is not used.
    fs::copy(authority.file("client.pem"), &chain).unwrap();
    get(&channel, "refused").await.unwrap_err();
    assert_eq!(broken_flag("client", &address).as_deref(), Some("1"));
    hold(&authority);
    assert_eq!(get(&channel, "let in").await.unwrap(), "let in");
    assert_eq!(broken_flag("client", &address).as_deref(), Some("0"));
}
