//! The span of a call to another server, by OpenTelemetry's semantic conventions 1.45 for RPC.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Uri;
use http_body::{Frame, SizeHint};
use tonic::{Code, Status, body::Body};
use tracing::{Span, field::Empty};

use isomer_fault::code_name;

/// A server as spans name it.
#[derive(Debug, Clone)]
pub(super) struct Server {
    host: Arc<str>,
    port: u16,
}

impl Server {
    pub(super) fn at(url: &Uri) -> Option<Self> {
        let usual = if url.scheme_str() == Some("https") { 443 } else { 80 };
        let host = url.host()?.trim_start_matches('[').trim_end_matches(']');
        Some(Self {
            host: host.into(),
            port: url.port_u16().unwrap_or(usual),
        })
    }
}

/// A call in flight. If it is dropped before its status is known, its caller has cancelled it.
#[derive(Debug)]
pub(super) struct Call {
    span: Span,
    ended: bool,
}

impl Call {
    /// Begins a call. Health checks have no span because they happen every second. A call within
    /// this process has none because the server side records one.
    pub(super) fn start(path: &str, server: Option<&Server>) -> Self {
        let method = path.trim_start_matches('/');
        let span = match server {
            Some(server) if !is_health(path) => tracing::info_span!(
                "call",
                otel.kind = "client",
                otel.name = method,
                otel.status_code = Empty,
                rpc.system.name = "grpc",
                rpc.method = method,
                rpc.response.status_code = Empty,
                server.address = &*server.host,
                server.port = i64::from(server.port),
                "error.type" = Empty,
            ),
            _ => Span::none(),
        };
        Self { span, ended: false }
    }

    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Records the outcome of the call. For a client every code but OK is a failure.
    pub(super) fn end(&mut self, code: Code) {
        self.ended = true;
        let name = code_name(code);
        self.span.record("rpc.response.status_code", name);
        if code != Code::Ok {
            self.span.record("error.type", name);
            self.span.record("otel.status_code", "ERROR");
        }
    }

    /// Follows the answer after it has begun; the call ends with it.
    pub(super) fn follow(mut self, answer: http::Response<Body>) -> http::Response<Body> {
        if let Some(status) = Status::from_header_map(answer.headers()) {
            self.end(status.code());
        }
        if self.ended || self.span.is_disabled() {
            return answer;
        }
        answer.map(|body| Body::new(SpanBody { body, call: self }))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Code::Cancelled);
        }
    }
}

pub(super) fn is_health(path: &str) -> bool {
    path.starts_with("/grpc.health.v1.Health/")
}

/// An answer in transit.
struct SpanBody {
    body: Body,
    call: Call,
}

impl http_body::Body for SpanBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                    self.call.end(status.code());
                }
            }
            Poll::Ready(Some(Err(status))) => self.call.end(status.code()),
            // gRPC clients report an answer without a status as `UNKNOWN`.
            Poll::Ready(None) if !self.call.ended => self.call.end(Code::Unknown),
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
