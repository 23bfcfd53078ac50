//! One trace across two hops: the first in memory, the second over a socket.

use std::{collections::HashMap, time::Duration};

use isomer_service_kit::{
    LimitsConfig, memory,
    server::ServerConfig,
    telemetry::{self, TelemetryConfig},
};
use opentelemetry::trace::{SpanId, SpanKind};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::Instrument;

use crate::support::{ScriptedEncoder, TestServer, eventually, get, relay, services};

/// The chain of spans from the last server back to the first span, as (kind, name).
fn chain(spans: &[SpanData]) -> Vec<(SpanKind, String)> {
    let by_id: HashMap<SpanId, &SpanData> = spans.iter().map(|span| (span.span_context.span_id(), span)).collect();
    let parents: Vec<SpanId> = spans.iter().map(|span| span.parent_span_id).collect();
    let mut next = spans
        .iter()
        .find(|span| !parents.contains(&span.span_context.span_id()));
    let mut chain = Vec::new();
    while let Some(span) = next {
        chain.push((span.span_kind.clone(), span.name.to_string()));
        next = by_id.get(&span.parent_span_id).copied();
    }
    chain
}

// One test: the subscriber belongs to the whole process.
#[tokio::test]
async fn one_trace_is_seen_across_two_hops() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone());
    // A restrictive log filter must not break the trace.
    let config = TelemetryConfig {
        filter: "off".to_owned(),
        ..TelemetryConfig::default()
    };
    let guard = telemetry::init_with("test", &config, provider).unwrap();

    let back = TestServer::start(services(&ScriptedEncoder::default()), ServerConfig::default()).await;
    let front = memory::channel(relay(back.connect().await), &LimitsConfig::default())
        .await
        .unwrap();
    get(&front, "x").instrument(tracing::info_span!("check")).await.unwrap();
    let finished = |count: usize| {
        let exporter = exporter.clone();
        async move {
            eventually("all spans are finished", || {
                exporter.get_finished_spans().unwrap().len() >= count
            })
            .await;
            // No further span may follow.
            tokio::time::sleep(Duration::from_millis(50)).await;
            exporter.get_finished_spans().unwrap()
        }
    };
    let spans = finished(4).await;
    assert_eq!(spans.len(), 4, "{spans:#?}");
    let trace = spans[0].span_context.trace_id();
    assert!(
        spans.iter().all(|span| span.span_context.trace_id() == trace),
        "{spans:#?}"
    );
    let name = || "isomer.encoder.v1.EncoderService/GetEncoder".to_owned();
    assert_eq!(
        chain(&spans),
        [
            (SpanKind::Server, name()),
            (SpanKind::Client, name()),
            (SpanKind::Internal, name()),
            (SpanKind::Internal, "check".to_owned()),
        ]
    );

    // A caller in another language sends its own trace.
    exporter.reset();
    let client = reqwest::Client::builder().http2_prior_knowledge();
    isomer_service_kit::tls::install_crypto();
    let request = client
        .build()
        .unwrap()
        .post(back.url("/isomer.encoder.v1.EncoderService/GetEncoder"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .body(vec![0, 0, 0, 0, 0]);
    request.send().await.unwrap().bytes().await.unwrap();
    let spans = finished(1).await;
    assert_eq!(
        spans[0].span_context.trace_id().to_string(),
        "0af7651916cd43dd8448eb211c80319c"
    );
    assert_eq!(spans[0].parent_span_id.to_string(), "b7ad6b7169203331");
    assert!(
        telemetry::init("test", &config).is_err(),
        "a second subscriber is refused"
    );
    drop(guard);
}
