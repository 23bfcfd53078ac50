use isomer_service_kit::{LimitsConfig, server::ServerConfig};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::support::{ScriptedEncoder, TestServer, get, http, in_memory, services};

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn health_is_told_per_service() {
    let channel = in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
    let mut health = HealthClient::new(channel);
    for name in ["", "isomer.encoder.v1.EncoderService"] {
        let answer = health.check(about(name)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{name}");
    }
    let status = health
        .check(about("isomer.encoder.v2.EncoderService"))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let mut watch = health
        .watch(about("isomer.encoder.v2.EncoderService"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        watch.message().await.unwrap().unwrap().status(),
        ServingStatus::ServiceUnknown
    );
}

#[tokio::test]
async fn a_draining_server_says_not_serving_and_lets_no_watch_keep_it_open() {
    let service = ScriptedEncoder::default();
    let mut running = TestServer::start(services(&service), ServerConfig::default()).await;
    let mut health = HealthClient::new(running.connect().await);
    let mut watches = Vec::new();
    for name in ["", "isomer.encoder.v1.EncoderService"] {
        let mut watch = health.watch(about(name)).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        watches.push(watch);
    }
    // An HTTP client that keeps its connection open checks readiness before and while draining.
    let kept = http();
    assert_eq!(kept.get(running.url("/readyz")).send().await.unwrap().status(), 200);

    let channel = running.connect().await;
    let held = tokio::spawn(async move { get(&channel, "held").await });
    service.seen.begun(1).await;
    running.stop();
    for mut watch in watches {
        assert_eq!(
            watch.message().await.unwrap().unwrap().status(),
            ServingStatus::NotServing
        );
        assert_eq!(watch.message().await.unwrap_err().code(), Code::Unavailable);
    }
    service.seen.release.notify_waiters();
    held.await.unwrap().unwrap();
    running.ended().await.unwrap();
}
