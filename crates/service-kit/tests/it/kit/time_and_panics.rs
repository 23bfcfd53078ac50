use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use isomer_service_kit::{Fault, GrpcChannel, LimitsConfig, server::ServerConfig, telemetry};
use tonic::{Code, Request};

use crate::support::{
    ScriptedEncoder, StreamKind, TestServer, eventually, get, in_memory, open, open_with, requests, services,
};

/// A unary call written by hand, so that only the server enforces the timeout. Returns
/// `grpc-status` and `grpc-message`.
async fn raw_call(running: &TestServer, timeout: &str, id: &str) -> (String, String) {
    let mut body = vec![0, 0, 0, 0, (id.len() + 2) as u8, 0x0a, id.len() as u8];
    body.extend_from_slice(id.as_bytes());
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let request = client
        .post(running.url("/isomer.encoder.v1.EncoderService/GetEncoder"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", timeout)
        .body(body);
    let response = request.send().await.unwrap();
    let header = |name: &str| {
        response
            .headers()
            .get(name)
            .map(|v| v.to_str().unwrap().to_owned())
            .unwrap_or_default()
    };
    (header("grpc-status"), header("grpc-message"))
}

#[tokio::test]
async fn the_callers_deadline_is_kept_by_the_server_and_the_work_is_dropped() {
    isomer_service_kit::tls::install_crypto();
    let service = ScriptedEncoder::default();
    let running = TestServer::start(services(&service), ServerConfig::default()).await;
    // An hour of work.
    let (status, message) = raw_call(&running, "100m", "slow:3600000").await;
    assert_eq!(status, (Code::DeadlineExceeded as i32).to_string(), "{message}");
    assert!(message.contains("100"), "{message}");
    assert_eq!(service.seen.dropped.load(Ordering::SeqCst), 1);

    let (status, _) = raw_call(&running, "ten seconds", "x").await;
    assert_eq!(status, (Code::InvalidArgument as i32).to_string());
    let (status, _) = raw_call(&running, "99999999H", "x").await;
    assert_eq!(status, "", "an answer has its status in the trailers");
}

#[tokio::test]
async fn a_deadline_ends_a_stream_that_has_begun() {
    let service = ScriptedEncoder::default();
    let channel = in_memory(&service, &LimitsConfig::default()).await;
    for kind in [StreamKind::ONE_THEN_SILENCE, StreamKind::ENDLESS] {
        let mut request = Request::new(requests(kind));
        request.metadata_mut().insert("grpc-timeout", "2S".parse().unwrap());
        let mut stream = open_with(&channel, request).await.unwrap();
        stream.message().await.unwrap().unwrap();
        let status = loop {
            match stream.message().await {
                Ok(message) => drop(message.expect("a deadline is not a good end")),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(Fault::from(status).reason, "DEADLINE_EXCEEDED");
    }
    eventually("the work is dropped", || {
        service.seen.dropped.load(Ordering::SeqCst) == 2
    })
    .await;
}

#[tokio::test]
async fn our_own_time_limit_ends_calls_but_not_streams() {
    let limits = LimitsConfig {
        request_timeout_seconds: 1,
        ..LimitsConfig::default()
    };
    let channel = in_memory(&ScriptedEncoder::default(), &limits).await;
    let mut stream = open(&channel, StreamKind::ENDLESS).await.unwrap();
    let status = get(&channel, "slow:20000").await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let later = Instant::now() + Duration::from_millis(300);
    while Instant::now() < later {
        stream.message().await.unwrap().unwrap();
    }
}

async fn panics_are_internal(channel: &GrpcChannel) {
    let status = get(channel, "panic:42").await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(
        !status.message().contains("ingredient"),
        "a panic's words stay in the log: {}",
        status.message()
    );

    let mut stream = open(channel, StreamKind::ONE_THEN_PANIC).await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap().client_index, 1);
    assert_eq!(stream.message().await.unwrap_err().code(), Code::Internal);

    assert_eq!(get(channel, "still here").await.unwrap(), "still here");
}

#[tokio::test]
async fn a_panic_is_internal_and_the_connection_lives_on() {
    let service = ScriptedEncoder::default();
    panics_are_internal(&in_memory(&service, &LimitsConfig::default()).await).await;
    let running = TestServer::start(services(&service), ServerConfig::default()).await;
    panics_are_internal(&running.connect().await).await;
}

#[tokio::test]
async fn every_call_is_counted_once_with_its_last_word() {
    let service = ScriptedEncoder::default();
    let running = TestServer::start(services(&service), ServerConfig::default()).await;
    let channel = running.connect().await;
    let count = |method: &str, code: &str| {
        let labels = format!(
            "isomer_server_requests_total{{service=\"isomer.encoder.v1.EncoderService\",method=\"{method}\",code=\"{code}\",via=\"network\"}} "
        );
        let text = telemetry::metrics_text();
        text.lines()
            .find_map(|line| line.strip_prefix(&labels))
            .map_or(0, |n| n.parse::<u64>().unwrap())
    };
    // Other tests of this process count too, but do not use these methods over the network.
    let before = (
        count("EncodeStream", "CANCELLED"),
        count("CountTokens", "UNIMPLEMENTED"),
    );
    let mut stream = open(&channel, StreamKind::ENDLESS).await.unwrap();
    stream.message().await.unwrap();
    drop(stream);
    eventually("a caller that went away is counted", || {
        count("EncodeStream", "CANCELLED") == before.0 + 1
    })
    .await;

    let mut client = crate::support::encoder(channel.clone());
    client
        .count_tokens(isomer_proto::encoder::v1::CountTokensRequest::default())
        .await
        .unwrap_err();
    eventually("a refusal is counted", || {
        count("CountTokens", "UNIMPLEMENTED") == before.1 + 1
    })
    .await;

    let text = telemetry::metrics_text();
    assert!(
        text.contains("isomer_server_latency_seconds_bucket{"),
        "latency is a histogram with buckets"
    );
    assert!(text.contains("# HELP isomer_server_requests_total"));
}
