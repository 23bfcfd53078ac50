//! The memory that one caller may reserve while others are served.

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, extract::rejection::BytesRejection, routing::post};
use bytes::Bytes;
use http::request::Parts;
use isomer_service_kit::{
    Authenticator, Fault, LimitsConfig, Services, body_fault, plain_refusal, server::ServerConfig,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{ScriptedEncoder, TestServer, found, get, http, services};

const MESSAGE: usize = 1 << 20;

/// Admits all callers, and identifies accounts by a header.
#[derive(Debug)]
struct ByHeader;

#[tonic::async_trait]
impl Authenticator for ByHeader {
    async fn admit(&self, _: &mut Parts) -> Result<(), Fault> {
        Ok(())
    }

    fn account(&self, parts: &Parts) -> Option<String> {
        Some(parts.headers.get("key")?.to_str().ok()?.to_owned())
    }
}

async fn start(services: Services) -> TestServer {
    let limits = LimitsConfig {
        max_message_bytes: MESSAGE,
        max_bytes_in_flight: 16 * MESSAGE,
        max_concurrent_requests: 10,
        ..LimitsConfig::default()
    };
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    let length = post(|body: Result<Bytes, BytesRejection>| async move {
        let refused = |rejection| plain_refusal(body_fault(&rejection));
        body.map(|body| body.len().to_string()).map_err(refused)
    });
    TestServer::start(services.http(Router::new().route("/length", length)), config).await
}

/// Sends all of a body except its last byte, as the caller named by the header.
async fn half_sent(address: SocketAddr, (header, name): (&str, &str)) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST /length HTTP/1.1\r\nHost: x\r\n{header}: {name}\r\nContent-Length: {MESSAGE}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'x'; MESSAGE - 1]).await.unwrap();
    stream
}

async fn reserved(running: &TestServer) -> f64 {
    let text = http().get(running.url("/metrics")).send().await.unwrap();
    let text = text.text().await.unwrap();
    let line = |line: &str| line.strip_prefix("isomer_server_reserved_bytes ")?.parse().ok();
    text.lines().find_map(line).unwrap_or(0.0)
}

/// One caller sends partial bodies, and another is served.
async fn another_is_served_beside(running: &TestServer, header: &str, [greedy, other]: [&str; 2]) {
    // Each reserves four times its size, and a caller has half of the budget.
    let first = [
        half_sent(running.address, (header, greedy)).await,
        half_sent(running.address, (header, greedy)).await,
    ];
    let two = async || (reserved(running).await >= (8 * MESSAGE - 8192) as f64).then_some(());
    found("two of them have arrived", two).await;
    let mut third = half_sent(running.address, (header, greedy)).await;
    let mut answer = vec![0; 4096];
    let length = third.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("server.limits.max_caller_percent"), "{answer}");
    let other = http().post(running.url("/length")).header(header, other);
    let answer = other.body(vec![b'x'; MESSAGE]).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), MESSAGE.to_string());
    drop(first);
    let again = async || {
        let own = http().post(running.url("/length")).header(header, greedy);
        let answer = own.body(vec![b'x'; MESSAGE]).send().await.ok()?;
        answer.status().is_success().then_some(())
    };
    found("the caller has its share again", again).await;
}

#[tokio::test]
async fn half_sent_uploads_of_one_key_leave_room_for_the_others() {
    let running = start(services(&ScriptedEncoder::default()).authenticator(Arc::new(ByHeader))).await;
    another_is_served_beside(&running, "key", ["greedy", "other"]).await;
}

#[tokio::test]
async fn tenants_that_a_gateway_names_have_shares_of_their_own() {
    let running = start(services(&ScriptedEncoder::default())).await;
    let tenants = ["a".repeat(64), "b".repeat(64)];
    another_is_served_beside(&running, "isomer-tenant", [&tenants[0], &tenants[1]]).await;
}

#[tokio::test]
async fn a_client_at_four_fifths_of_each_bound_is_served() {
    let service = ScriptedEncoder::default();
    let running = start(services(&service)).await;
    let channel = running.connect().await;
    // Eight of ten requests, two of which have four fifths of the maximum size: together they
    // reserve four fifths of the caller's half.
    let calls: Vec<_> = (0..8)
        .map(|n| {
            let channel = channel.clone();
            let bytes = if n < 2 { MESSAGE / 5 * 4 } else { 1 };
            tokio::spawn(async move { get(&channel, format!("held:{}", "0".repeat(bytes))).await })
        })
        .collect();
    service.seen.begun(8).await;
    assert!(reserved(&running).await >= (6 * MESSAGE) as f64);
    service.seen.release.notify_waiters();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let large = get(&channel, format!("big:{}", MESSAGE * 4)).await.unwrap();
    assert_eq!(large.len(), MESSAGE * 4, "an answer of half its share");
    let given_back = async || (reserved(&running).await < MESSAGE as f64).then_some(());
    found("everything is given back", given_back).await;
}
