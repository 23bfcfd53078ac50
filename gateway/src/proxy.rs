//! Passes a gRPC service's calls on to the server behind it.
//!
//! Messages are passed on as they are: frames, metadata, deadlines (`grpc-timeout`) and trailers pass through, and a caller that
//! goes away drops the call behind it. Size limits are therefore those of the service behind. What answers say of tokens is charged to
//! the caller (`charging`), and runs as they go on (`runs`).

use axum::{Router, body::Body, extract::Request, response::Response, routing::any};
use isomer_access::Caller;
use isomer_service_kit::{Fault, GrpcChannel};
use tonic::Status;
use tower::ServiceExt;

use crate::charging;

/// A service behind the gateway.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Full gRPC service name, e.g. `isomer.encoder.v1.EncoderService`.
    pub service: &'static str,
    /// Where it is, in words, for error messages: an address, or `this process`.
    pub place: String,
    /// The way there.
    pub channel: GrpcChannel,
}

/// Routes every method of the upstream's service to it.
pub fn route(upstream: Upstream) -> Router {
    let path = format!("/{}/{{method}}", upstream.service);
    Router::new().route(&path, any(move |request: Request| forward(upstream.clone(), request)))
}

pub(crate) async fn forward(upstream: Upstream, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned();
    let read = charging::reader(parts.uri.path());
    if caller.is_some() && read.is_some() {
        // A compressed answer could not be read in passing.
        parts.headers.remove("grpc-accept-encoding");
    }
    let request = http::Request::from_parts(parts, tonic::body::Body::new(body));
    match upstream.channel.clone().oneshot(request).await {
        Ok(response) => response.map(|body| match caller {
            Some(caller) => charging::charged(body, read, caller),
            None => Body::new(body),
        }),
        Err(error) => {
            tracing::warn!(service = upstream.service, place = %upstream.place, error = error.message(), "upstream unavailable");
            metrics::counter!("isomer_gateway_upstream_errors_total", "service" => upstream.service).increment(1);
            unavailable(&upstream, &error).into_http()
        }
    }
}

fn unavailable(upstream: &Upstream, error: &Status) -> Status {
    Fault::unavailable(
        "UPSTREAM_UNAVAILABLE",
        format!("{} at {}: {}", upstream.service, upstream.place, error.message()),
    )
    .mend("start that service, or correct its address or its TLS settings in the gateway's configuration")
    .with("service", upstream.service)
    .into()
}
