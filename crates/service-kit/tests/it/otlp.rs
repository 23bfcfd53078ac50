//! Traces over OTLP, as received by a collector: sent when the process ends, under the service's
//! name.

use std::sync::Arc;

use axum::{Router, routing::get};
use isomer_service_kit::{
    server::ServerConfig,
    telemetry::{self, TelemetryConfig},
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, Span, span::SpanKind},
};
use parking_lot::Mutex;
use tonic::{Request, Response, Status, transport::Server};

use crate::support::{ScriptedEncoder, TestServer, http, services};

/// A collector that stores what it receives.
#[derive(Debug, Clone, Default)]
struct Collector(Arc<Mutex<Vec<ResourceSpans>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().extend(request.into_inner().resource_spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<Value> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.clone()?.value
}

// There is only one test, because the subscriber belongs to the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_is_sent_the_spans_of_requests_and_no_others() {
    let collector = Collector::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let served = TraceServiceServer::new(collector.clone());
    tokio::spawn(Server::builder().add_service(served).serve_with_incoming(incoming));
    let config = TelemetryConfig {
        filter: "off".to_owned(),
        otlp_endpoint: Some(endpoint),
        ..TelemetryConfig::default()
    };
    let guard = telemetry::init("isomer-test", &config).unwrap();

    let routes = Router::new().route("/v1/things/{id}", get(|| async { "thing" }));
    let running = TestServer::start(
        services(&ScriptedEncoder::default()).http(routes),
        ServerConfig::default(),
    )
    .await;
    for path in ["/healthz", "/v1/things/7", "/metrics"] {
        let answer = http().get(running.url(path)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.bytes().await.unwrap();
    }
    tokio::task::spawn_blocking(move || drop(guard)).await.unwrap();

    let received = collector.0.lock().clone();
    let resources = received.iter().filter_map(|of| of.resource.as_ref());
    let names: Vec<_> = resources
        .map(|resource| attribute(&resource.attributes, "service.name"))
        .collect();
    assert_eq!(names, [Some(Value::StringValue("isomer-test".to_owned()))]);
    let spans: Vec<Span> = received
        .into_iter()
        .flat_map(|of| of.scope_spans)
        .flat_map(|of| of.spans)
        .collect();
    let [span] = &spans[..] else {
        panic!("one request, one span: {spans:#?}")
    };
    assert_eq!(
        (span.name.as_str(), span.kind()),
        ("GET /v1/things/{id}", SpanKind::Server)
    );
    assert_eq!(
        attribute(&span.attributes, "http.response.status_code"),
        Some(Value::IntValue(200)),
        "a number"
    );
}
