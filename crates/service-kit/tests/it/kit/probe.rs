use std::time::Duration;

use isomer_authority::Authority;
use isomer_service_kit::{
    client::ClientConfig,
    probe::{Question, ask, this_server},
    server::ServerConfig,
    tls::TlsConfig,
};
use tonic_health::{ServingStatus, server::health_reporter};

use crate::support::{ScriptedEncoder, TestServer, services};

const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_server_that_serves_lives_and_is_ready_and_one_that_is_gone_neither() {
    let config = ServerConfig::default();
    let mut running = TestServer::start(services(&ScriptedEncoder::default()), config).await;
    let at = ClientConfig::plain(running.address.to_string());
    for question in [Question::Live, Question::Ready] {
        ask(&at, question, WITHIN).await.unwrap();
    }
    running.stop();
    running.ended().await.unwrap();
    for question in [Question::Live, Question::Ready] {
        let fault = ask(&at, question, WITHIN).await.unwrap_err();
        assert!(fault.to_string().contains(&at.address), "{fault}");
    }
}

#[tokio::test]
async fn a_server_that_drains_lives_and_is_not_ready() {
    let (reporter, health) = health_reporter();
    reporter.set_service_status("", ServingStatus::NotServing).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = ClientConfig::plain(listener.local_addr().unwrap().to_string());
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(health)
            .serve_with_incoming(incoming),
    );
    ask(&at, Question::Live, WITHIN).await.unwrap();
    let fault = ask(&at, Question::Ready, WITHIN).await.unwrap_err();
    assert_eq!(fault.reason, "NOT_SERVING", "{fault}");
    reporter.set_service_status("", ServingStatus::Serving).await;
    ask(&at, Question::Ready, WITHIN).await.unwrap();
}

#[tokio::test]
async fn a_server_that_says_nothing_is_told_after_the_time_given() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = ClientConfig::plain(silent.local_addr().unwrap().to_string());
    let fault = ask(&at, Question::Live, Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(fault.reason, "NO_ANSWER", "{fault}");
}

#[tokio::test]
async fn a_server_that_asks_for_certificates_is_reached_with_its_own() {
    let authority = Authority::new("localhost");
    let tls = |who: &str| TlsConfig {
        certificate_file: authority.file(&format!("{who}.pem")),
        key_file: authority.file(&format!("{who}.key")),
        client_ca_file: Some(authority.file("ca.pem")),
    };
    // A certificate that is only for servers is not valid for clients.
    for (who, reached) in [("service", true), ("server", false)] {
        let config = ServerConfig {
            tls: Some(tls(who)),
            ..ServerConfig::default()
        };
        let running = TestServer::start(services(&ScriptedEncoder::default()), config.clone()).await;
        let at = this_server(&ServerConfig {
            listen: format!("0.0.0.0:{}", running.address.port()).parse().unwrap(),
            ..config
        });
        assert_eq!(at.address, format!("127.0.0.1:{}", running.address.port()));
        let answer = ask(&at, Question::Ready, WITHIN).await;
        assert_eq!(answer.is_ok(), reached, "{who}: {answer:?}");
    }
}
