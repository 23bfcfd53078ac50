use std::time::Duration;

use isomer_service_kit::{Fault, LimitsConfig, server::ServerConfig, telemetry};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::support::{ScriptedEncoder, StreamKind, TestServer, eventually, get, http, in_memory, open, services};

fn two() -> LimitsConfig {
    LimitsConfig {
        max_concurrent_requests: 2,
        ..LimitsConfig::default()
    }
}

#[tokio::test]
async fn one_request_too_many_is_refused_with_a_retry_hint_and_room_is_made_again() {
    let service = ScriptedEncoder::default();
    let channel = in_memory(&service, &two()).await;
    let held: Vec<_> = (0..2)
        .map(|_| {
            let channel = channel.clone();
            tokio::spawn(async move { get(&channel, "held").await })
        })
        .collect();
    service.seen.begun(2).await;

    let fault = Fault::from(get(&channel, "third").await.unwrap_err());
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::ResourceExhausted, "OVERLOADED")
    );
    assert!(fault.retry_after.is_some_and(|after| after > Duration::ZERO));
    // Health checks succeed even then: a busy server is not a dead one.
    let mut health = HealthClient::new(channel.clone());
    health
        .check(HealthCheckRequest { service: String::new() })
        .await
        .unwrap();

    service.seen.release.notify_waiters();
    for call in held {
        call.await.unwrap().unwrap();
    }
    get(&channel, "third").await.unwrap();
    assert!(telemetry::metrics_text().contains("isomer_server_refused_total{via=\"memory\"}"));
}

#[tokio::test]
async fn a_stream_keeps_its_place_until_it_ends() {
    let service = ScriptedEncoder::default();
    let channel = in_memory(
        &service,
        &LimitsConfig {
            max_concurrent_requests: 1,
            ..two()
        },
    )
    .await;
    let mut stream = open(&channel, StreamKind::ONE_THEN_SILENCE).await.unwrap();
    stream.message().await.unwrap().unwrap();
    assert_eq!(get(&channel, "x").await.unwrap_err().code(), Code::ResourceExhausted);
    drop(stream);
    let seen = &service.seen;
    eventually("the stream is gone", || {
        seen.dropped.load(std::sync::atomic::Ordering::SeqCst) == 1
    })
    .await;
    get(&channel, "x").await.unwrap();
}

#[tokio::test]
async fn http_requests_are_refused_too_but_never_probes() {
    let service = ScriptedEncoder::default();
    let limits = LimitsConfig {
        max_concurrent_requests: 1,
        ..two()
    };
    let routes = axum::Router::new().route("/work", axum::routing::get(|| async { "done" }));
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    let running = TestServer::start(services(&service).http(routes), config).await;
    let channel = running.connect().await;
    let held = tokio::spawn(async move { get(&channel, "held").await });
    service.seen.begun(1).await;

    let refused = http().get(running.url("/work")).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    for probe in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(
            http().get(running.url(probe)).send().await.unwrap().status(),
            200,
            "{probe}"
        );
    }
    service.seen.release.notify_waiters();
    held.await.unwrap().unwrap();
    assert_eq!(
        http()
            .get(running.url("/work"))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        "done"
    );
}
