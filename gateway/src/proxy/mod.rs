//! Forwards a gRPC service's calls to a server behind the gateway.
//!
//! Messages are forwarded unchanged: frames, metadata, deadlines (`grpc-timeout` with the time that
//! is left) and trailers pass through, and the upstream call is cancelled if the caller
//! disconnects. The usage of a call is charged to its caller (`billing`); runs are charged while
//! they are running (`runs`).

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
use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use isomer_access::Caller;
use isomer_service_kit::Fault;
use tonic::{Code, Status};

use missing_variants::VariantQueue;

use crate::{
    billing::{self, OverspendGuard},
    routing,
};

pub use servers::Servers;

/// A service behind the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    /// Full gRPC service name, e.g. `isomer.encoder.v1.EncoderService`.
    pub(crate) service: &'static str,
    /// The servers that answer its calls.
    pub(crate) servers: Servers,
    /// The router that knows the prices of encoders; `None` if calls reserve nothing.
    pub(crate) prices: Option<routing::Router>,
    /// The queue that makes the variants that answers lack.
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
    let caller = parts.extensions.get::<Caller>().cloned();
    let (reserved, overspending) = match &upstream.prices {
        Some(router) if caller.as_ref().is_some_and(Caller::is_counted) => {
            let message = billing::answer::frame(&body).unwrap_or_default();
            let most = billing::most::of_passed_on(router, parts.uri.path(), message);
            match billing::reserve(caller.as_ref(), &most).await {
                Ok(reserved) => (reserved, OverspendGuard::of_call(&parts.extensions, most)),
                Err(fault) => return Status::from(fault).into_http(),
            }
        }
        _ => (None, None),
    };
    let mut parts = parts;
    let lacking = upstream.variants.as_ref().and_then(|queue| {
        let message = billing::answer::frame(&body).unwrap_or_default();
        missing_variants::VariantReader::of_call(queue, parts.uri.path(), message, parts.extensions.get::<Caller>())
    });
    if lacking.is_some() {
        // Usage could not be read from a compressed answer.
        parts.headers.remove("grpc-accept-encoding");
    }
    let request = http::Request::from_parts(parts, tonic::body::Body::new(Body::from(body)));
    let asked = async {
        match &overspending {
            None => upstream.servers.ask(request).await,
            Some(overspending) => tokio::select! {
                answer = upstream.servers.ask(request) => answer,
                fault = overspending.found() => Err(fault),
            },
        }
    };
    match asked.await {
        Ok(response) => response.map(|body| {
            let mut lacking = lacking;
            let body = body.map_frame(move |frame| {
                let _held = &reserved;
                if let (Some(lacking), Some(data)) = (&mut lacking, frame.data_ref()) {
                    lacking.read(data);
                }
                frame
            });
            match caller {
                Some(caller) => while_permitted(body, move || {
                    caller.still_permitted()?;
                    overspending.as_ref().map_or(Ok(()), OverspendGuard::check)
                }),
                None => Body::new(body),
            }
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

/// Ends an answer with an error once its caller has lost its permission. The first message is
/// always sent: it is the whole of a unary answer, and the caller was permitted to request it.
fn while_permitted<B>(body: B, permitted: impl Fn() -> Result<(), Fault> + Send + Sync + 'static) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    // The head alone is sent: some clients cannot handle an additional empty frame.
    if body.is_end_stream() {
        return Body::new(body);
    }
    let state = Some((Box::pin(body), permitted, false));
    let frames = stream::unfold(state, |state| async move {
        let (mut body, permitted, begun) = state?;
        let frame = body.frame().await?;
        let refused = match &frame {
            Ok(frame) if begun && frame.is_data() => permitted().err(),
            _ => None,
        };
        match refused {
            Some(fault) => {
                let mut trailers = http::HeaderMap::new();
                // A message that cannot be a header is left out; the code remains.
                let _ = Status::from(fault).add_header(&mut trailers);
                Some((Ok(Frame::trailers(trailers)), None))
            }
            None => Some((frame, Some((body, permitted, true)))),
        }
    });
    Body::new(StreamBody::new(frames))
}

fn unavailable(service: &str, fault: Fault) -> Status {
    let unavailable_fault = Fault::unavailable("UPSTREAM_UNAVAILABLE", format!("{service}: {}", fault.message))
        .hint(servers::HINT)
        .with("service", service);
    match fault.retry_after {
        Some(after) => unavailable_fault.retry_after(after),
        None => unavailable_fault,
    }
    .into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    /// The data of the received frames, and the code in the trailers.
    async fn received(messages: usize, permitted_for: usize) -> (usize, Option<Code>) {
        let frames = (0..messages).map(|n| Ok::<_, Fault>(Frame::data(Bytes::from(vec![n as u8]))));
        let asked = Arc::new(AtomicUsize::new(0));
        let permitted = move || match asked.fetch_add(1, Ordering::Relaxed) < permitted_for {
            true => Ok(()),
            false => Err(Fault::new(Code::Unauthenticated, "REVOKED_KEY", "the key was revoked")),
        };
        let mut body = while_permitted(StreamBody::new(stream::iter(frames)), permitted);
        let (mut data, mut code) = (0, None);
        while let Some(frame) = body.frame().await {
            match frame.unwrap().into_data() {
                Ok(_) => data += 1,
                Err(trailers) => {
                    let status = Status::from_header_map(&trailers.into_trailers().unwrap()).unwrap();
                    code = Some(status.code());
                }
            }
        }
        (data, code)
    }

    #[tokio::test]
    async fn a_stream_ends_with_the_right_to_it() {
        assert_eq!(received(5, 9).await, (5, None));
        assert_eq!(received(5, 2).await, (3, Some(Code::Unauthenticated)));
        assert_eq!(received(1, 0).await, (1, None), "a unary answer arrives");
    }
}
