//! Forwards a gRPC service's calls to a server behind the gateway.
//!
//! Messages are forwarded unchanged: frames, metadata, deadlines (`grpc-timeout` with the time that
//! is left) and trailers pass through, and the upstream call is cancelled if the caller
//! disconnects. What a call uses is charged to its caller (`billing`); runs are charged while they
//! go on (`runs`).

pub(crate) mod claims;
pub mod missing_variants;
mod servers;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    response::Response,
    routing::any,
};
use http_body_util::BodyExt;
use isomer_access::Caller;
use isomer_service_kit::Fault;
use tonic::{Code, Status};

use missing_variants::VariantQueue;

use crate::{billing, routing};

pub use servers::Servers;

/// A service behind the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    /// Full gRPC service name, e.g. `isomer.encoder.v1.EncoderService`.
    pub(crate) service: &'static str,
    /// The servers that answer its calls.
    pub(crate) servers: Servers,
    /// The router that knows the prices of encoders; none where nothing is reserved for a call.
    pub(crate) prices: Option<routing::Router>,
    /// What makes the variants that answers lack.
    pub(crate) variants: Option<VariantQueue>,
}

/// Routes every method of the upstream's service to it.
pub(crate) fn route(upstream: Upstream) -> Router {
    let path = format!("/{}/{{method}}", upstream.service);
    Router::new().route(&path, any(move |request: Request| forward(upstream.clone(), request)))
}

pub(crate) async fn forward(upstream: Upstream, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // The server's limits have already bounded its size.
    let body = match to_bytes(body, usize::MAX).await {
        Ok(body) => body,
        Err(error) => {
            let fault = Fault::invalid("request", format!("was not received completely: {error}"));
            return Status::from(fault.hint("send it again")).into_http();
        }
    };
    let caller = parts.extensions.get::<Caller>();
    let reserved = match &upstream.prices {
        Some(router) if caller.is_some_and(Caller::is_counted) => {
            let message = billing::answer::frame(&body).unwrap_or_default();
            let most = billing::most::of_passed_on(router, parts.uri.path(), message);
            match billing::reserve(caller, &most).await {
                Ok(reserved) => reserved,
                Err(fault) => return Status::from(fault).into_http(),
            }
        }
        _ => None,
    };
    let mut parts = parts;
    let lacking = upstream.variants.as_ref().and_then(|queue| {
        let message = billing::answer::frame(&body).unwrap_or_default();
        missing_variants::Lacking::of_call(queue, parts.uri.path(), message, parts.extensions.get::<Caller>())
    });
    if lacking.is_some() {
        // A compressed answer could not be read.
        parts.headers.remove("grpc-accept-encoding");
    }
    let request = http::Request::from_parts(parts, tonic::body::Body::new(Body::from(body)));
    match upstream.servers.ask(request).await {
        Ok(response) => response.map(|body| {
            let mut lacking = lacking;
            Body::new(body.map_frame(move |frame| {
                let _held = &reserved;
                if let (Some(lacking), Some(data)) = (&mut lacking, frame.data_ref()) {
                    lacking.read(data);
                }
                frame
            }))
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
        .hint(servers::HINT)
        .with("service", service);
    match fault.retry_after {
        Some(after) => told.retry_after(after),
        None => told,
    }
    .into()
}
