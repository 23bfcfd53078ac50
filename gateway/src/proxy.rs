//! Passes a gRPC service's calls on to a server behind it.
//!
//! Messages are passed on as they are: frames, metadata, deadlines (`grpc-timeout`, what is left of it) and trailers pass through, and a
//! caller that goes away drops the call behind it. What answers say of tokens is charged to the caller (`charging`), and runs as they go on
//! (`runs`).

mod servers;

use axum::{Router, body::Body, extract::Request, response::Response, routing::any};
use isomer_access::Caller;
use isomer_service_kit::Fault;
use tonic::{Code, Status};

use crate::charging;

pub use servers::Servers;

/// A service behind the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    /// Full gRPC service name, e.g. `isomer.encoder.v1.EncoderService`.
    pub(crate) service: &'static str,
    /// Who answers for it.
    pub(crate) servers: Servers,
}

/// Routes every method of the upstream's service to it.
pub(crate) fn route(upstream: Upstream) -> Router {
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
    match upstream.servers.ask(request).await {
        Ok(response) => response.map(|body| match caller {
            Some(caller) => charging::charged(body, read, caller),
            None => Body::new(body),
        }),
        Err(fault) if fault.code == Code::Unavailable => {
            tracing::warn!(
                service = upstream.service,
                error = fault.message,
                "upstream unavailable"
            );
            metrics::counter!(crate::routing::metrics::UPSTREAM, "service" => upstream.service).increment(1);
            unavailable(upstream.service, fault).into_http()
        }
        Err(fault) => Status::from(fault).into_http(),
    }
}

fn unavailable(service: &str, fault: Fault) -> Status {
    let told = Fault::unavailable("UPSTREAM_UNAVAILABLE", format!("{service}: {}", fault.message))
        .mend(servers::MEND)
        .with("service", service);
    match fault.retry_after {
        Some(after) => told.retry_after(after),
        None => told,
    }
    .into()
}
