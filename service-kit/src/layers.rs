//! What happens to every request around its handler: a place in the house, a span in the caller's trace, a deadline, a
//! net under panics, and a measurement. The same on a socket and in memory.

use std::{
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use futures::FutureExt;
use http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use opentelemetry::propagation::Extractor;
use tonic::{Code, Status};
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::{
    error::Fault,
    limits::{Gate, Held},
    metric_names,
};

/// Shared by all requests of a server.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    pub(crate) gate: Gate,
    pub(crate) timeout: Option<Duration>,
    /// Names that may stand in metric labels: whatever else is asked for is counted as `other`.
    pub(crate) services: std::sync::Arc<[&'static str]>,
}

pub(crate) async fn around(State(state): State<Around>, request: Request, next: Next) -> Response {
    let is_grpc = is_grpc(request.headers());
    let (service, method) = names(&state, request.uri().path(), is_grpc);
    let started = Instant::now();
    let span = tracing::info_span!("request", otel.kind = "server", otel.name = %format!("{service}/{method}"), rpc.service = service, rpc.method = %method);
    let parent = opentelemetry::global::get_text_map_propagator(|p| p.extract(&Headers(request.headers())));
    // Fails only where no OpenTelemetry layer is installed; then there is no trace to join.
    let _ = span.set_parent(parent);

    let response = match state.gate.enter() {
        // Probes must be answered however busy the house is.
        Err(_) if is_probe(service) => handle(&state, is_grpc, request, next).instrument(span.clone()).await,
        Err(refusal) => refuse(refusal, is_grpc),
        Ok(place) => {
            handle(&state, is_grpc, request, next).instrument(span.clone()).await.map(|body| Body::new(Held::new(body, place)))
        }
    };
    let code = code_of(&response, is_grpc);
    span.in_scope(|| tracing::debug!(code = %code, elapsed_ms = started.elapsed().as_secs_f64() * 1e3, "answered"));
    metrics::counter!(metric_names::REQUESTS, "service" => service, "method" => method.clone(), "code" => code.clone()).increment(1);
    metrics::histogram!(metric_names::LATENCY, "service" => service, "method" => method, "code" => code).record(started.elapsed().as_secs_f64());
    response
}

async fn handle(state: &Around, is_grpc: bool, request: Request, next: Next) -> Response {
    let limit = match (state.timeout, grpc_timeout(request.headers())) {
        (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
        (ours, theirs) => ours.or(theirs),
    };
    let work = AssertUnwindSafe(next.run(request)).catch_unwind();
    let outcome = match limit {
        Some(limit) => match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let message = format!("no answer within {} ms", limit.as_millis());
                return refuse(Fault::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message).mend("allow more time"), is_grpc);
            }
        },
        None => work.await,
    };
    outcome.unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
        tracing::error!(panic = what.as_deref().unwrap_or("unknown"), "a handler panicked");
        metrics::counter!(metric_names::PANICS).increment(1);
        refuse(Fault::internal("the service failed on this request; its log says where"), is_grpc)
    })
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"))
}

fn is_probe(service: &str) -> bool {
    service == "grpc.health.v1.Health" || service == "http"
}

/// Service and method for spans and labels, from a bounded set whatever the client asks for.
fn names(state: &Around, path: &str, is_grpc: bool) -> (&'static str, String) {
    if !is_grpc {
        return ("http", "other".to_owned());
    }
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let asked = parts.next().unwrap_or_default();
    match state.services.iter().find(|known| **known == asked) {
        Some(service) => {
            let method = parts.next().unwrap_or_default();
            let plain = method.len() <= 40 && method.bytes().all(|b| b.is_ascii_alphanumeric());
            (service, if plain { method.to_owned() } else { "other".to_owned() })
        }
        None => ("other", "other".to_owned()),
    }
}

fn code_of(response: &Response, is_grpc: bool) -> String {
    if !is_grpc {
        return response.status().as_u16().to_string();
    }
    // A status in the headers is a failure told at once; otherwise the answer has begun and counts as OK.
    Status::from_header_map(response.headers()).map_or_else(|| "Ok".to_owned(), |s| format!("{:?}", s.code()))
}

/// An error in the form the caller reads: a gRPC status, or an HTTP status with a sentence.
pub(crate) fn refuse(fault: Fault, is_grpc: bool) -> Response {
    if is_grpc {
        return Status::from(fault).into_http();
    }
    let status = match fault.code {
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound | Code::Unimplemented => StatusCode::NOT_FOUND,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = Response::new(Body::from(format!("{fault}\n")));
    *response.status_mut() = status;
    response
}

/// The caller's deadline (`grpc-timeout`: up to eight digits and a unit).
fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(n * 3600)),
        "M" => Some(Duration::from_secs(n * 60)),
        "S" => Some(Duration::from_secs(n)),
        "m" => Some(Duration::from_millis(n)),
        "u" => Some(Duration::from_micros(n)),
        "n" => Some(Duration::from_nanos(n)),
        _ => None,
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|v| v.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_are_read_in_every_unit() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", value.parse().unwrap());
            grpc_timeout(&headers)
        };
        assert_eq!(read("2S"), Some(Duration::from_secs(2)));
        assert_eq!(read("150m"), Some(Duration::from_millis(150)));
        assert_eq!(read("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(read("123456789S"), None);
        assert_eq!(read("S"), None);
        assert_eq!(read("x"), None);
    }
}
