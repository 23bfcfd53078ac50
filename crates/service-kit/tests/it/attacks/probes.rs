//! Health and reflection need no key. Their callers must not be able to fill the server's memory.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use isomer_service_kit::server::ServerConfig;
use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{bodies::grpc, resident};
use crate::support::{ScriptedEncoder, TestServer, found, get, services};

async fn start() -> TestServer {
    TestServer::start(services(&ScriptedEncoder::default()), ServerConfig::default()).await
}

/// A message of 2 MB whose last byte never arrives.
fn half_sent() -> reqwest::Body {
    let length = 2_000_000_u32;
    let mut head = vec![0];
    head.extend_from_slice(&length.to_be_bytes());
    let chunk = Bytes::from(vec![b'x'; 10_000]);
    let chunks = stream::iter(std::iter::once(Bytes::from(head)).chain(std::iter::repeat_n(chunk, 199)));
    reqwest::Body::wrap_stream(chunks.map(Ok::<_, std::io::Error>).chain(stream::pending()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_health_requests_are_refused_and_hold_no_memory() {
    let running = start().await;
    let before = resident();
    let client = grpc();
    for path in ["/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"] {
        let calls = (0..50).map(|_| {
            let request = client
                .post(running.url(path))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(half_sent());
            tokio::spawn(timeout(Duration::from_secs(20), request.send()))
        });
        for call in calls.collect::<Vec<_>>() {
            let answer = call.await.unwrap().expect("half a request is answered");
            if let Ok(answer) = answer {
                assert_eq!(answer.headers()["grpc-status"], "8", "RESOURCE_EXHAUSTED");
            }
        }
    }
    let grown = resident().saturating_sub(before);
    println!("100 half-sent health requests of 2 MB: {} KiB", grown >> 10);
    assert!(grown < 64 << 20, "memory grew by {grown} bytes");
    let mut health = HealthClient::new(running.connect().await);
    let whole = health.check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(whole.into_inner().status, 1);
}

#[tokio::test]
async fn a_connection_has_four_watches_and_they_are_given_back() {
    let running = start().await;
    let channel = running.connect().await;
    let mut health = HealthClient::new(channel.clone());
    let mut watches = Vec::new();
    for _ in 0..4 {
        let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
        watches.push(watch);
    }
    let refused = health.watch(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    let other = HealthClient::new(running.connect().await)
        .watch(HealthCheckRequest::default())
        .await;
    assert!(other.is_ok(), "another connection has four of its own");
    assert_eq!(
        get(&channel, "x").await.unwrap(),
        "x",
        "other calls are not counted with them"
    );
    watches.clear();
    let again = async || health.watch(HealthCheckRequest::default()).await.ok();
    found("the permits of watches that ended are given back", again).await;
}
