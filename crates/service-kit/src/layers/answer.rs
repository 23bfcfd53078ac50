//! The body of an answer while it is sent. It is measured to its end, cut off at its deadline or
//! when the server closes, and its panics are caught.

use std::{
    io,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use metrics::SharedString;
use tokio::time::Sleep;
use tonic::{Code, Status};

use super::{Deadline, RequestPermits, detailed, labels::Label, span::RequestSpan};
use crate::{Fault, budget::Reservation, code_name, metric_names};

/// Counts a request from its head to the end of its answer, even if the caller cancels it in
/// between.
#[derive(Debug)]
pub(super) struct Record {
    label: Label,
    via: &'static str,
    started: Instant,
    code: Option<SharedString>,
    traced: RequestSpan,
}

impl Record {
    pub(super) fn start(label: Label, via: &'static str, traced: RequestSpan) -> Self {
        metrics::gauge!(metric_names::IN_FLIGHT, "via" => via).increment(1.0);
        Self {
            label,
            via,
            started: Instant::now(),
            code: None,
            traced,
        }
    }

    /// Whether the answer may be a stream of messages, as far as the method is known.
    pub(super) fn may_stream(&self) -> bool {
        self.label.streams || !self.label.described
    }

    pub(super) fn is_probe(&self) -> bool {
        self.label.probe
    }

    pub(super) fn grpc(&mut self, code: Code) {
        self.traced.grpc(code);
        self.code = Some(code_name(code).into());
    }

    pub(super) fn http(&mut self, status: http::StatusCode) {
        self.traced.http(status);
        self.code = Some(Arc::<str>::from(status.as_str()).into());
    }

    pub(super) fn panicked(&self, panic: &(dyn std::any::Any + Send)) -> Fault {
        let what = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        self.traced
            .span()
            .in_scope(|| tracing::error!(panic = what.unwrap_or("unknown"), "a handler panicked"));
        metrics::counter!(metric_names::PANICS, "service" => self.label.service.clone()).increment(1);
        Fault::internal("the service failed on this request; see its log")
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // No code means that the caller disconnected before the answer ended.
        let code = self.code.take().unwrap_or_else(|| {
            self.traced.grpc(Code::Cancelled);
            code_name(Code::Cancelled).into()
        });
        let elapsed = self.started.elapsed().as_secs_f64();
        self.traced
            .span()
            .in_scope(|| tracing::debug!(%code, elapsed_ms = elapsed * 1e3, "answered"));
        metrics::gauge!(metric_names::IN_FLIGHT, "via" => self.via).decrement(1.0);
        let labels = [
            metrics::Label::new("service", self.label.service.clone()),
            metrics::Label::new("method", self.label.method.clone()),
            metrics::Label::new("code", code),
            metrics::Label::new("via", self.via),
        ];
        metrics::counter!(metric_names::REQUESTS, labels.iter()).increment(1);
        metrics::histogram!(metric_names::LATENCY, labels.iter()).record(elapsed);
    }
}

/// Events other than the handler that end an answer.
#[derive(Default)]
pub(super) struct Cut {
    /// The deadline of the call.
    pub(super) deadline: Option<(Pin<Box<Sleep>>, Deadline)>,
    /// Completes when the server closes. It is polled only while the answer has nothing to send, so
    /// a last message is still sent.
    pub(super) closing: Option<BoxFuture<'static, Fault>>,
}

pub(super) struct AnswerBody {
    pub(super) body: Option<Body>,
    /// The path, for a gRPC call.
    pub(super) grpc: Option<String>,
    pub(super) record: Record,
    pub(super) cut: Cut,
    pub(super) place: Option<RequestPermits>,
    /// The memory of a request from the network.
    pub(super) memory: Option<Reservation>,
}

impl AnswerBody {
    /// The last frame if something other than the handler ends the answer.
    fn end(&mut self, fault: Fault) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.body = None;
        self.place = None;
        if self.grpc.is_none() {
            self.record.traced.broke_off();
            return Poll::Ready(Some(Err(axum::Error::new(io::Error::other(fault)))));
        }
        self.record.grpc(fault.code);
        let status = Status::from(fault);
        let mut trailers = HeaderMap::new();
        if status.add_header(&mut trailers).is_err() {
            // If the message does not fit a header, the code alone reports the failure.
            trailers = Status::new(status.code(), "").into_http::<()>().headers().clone();
        }
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let Some(body) = this.body.as_mut() else {
            return Poll::Ready(None);
        };
        let span = this.record.traced.span().clone();
        let _entered = span.enter();
        if let Some((sleep, deadline)) = this.cut.deadline.as_mut()
            && sleep.as_mut().poll(cx).is_ready()
        {
            let fault = deadline.fault();
            return this.end(fault);
        }
        let memory = this.memory.clone();
        let poll = || match memory.clone() {
            Some(memory) => memory.sync_scope(|| Pin::new(&mut *body).poll_frame(cx)),
            None => Pin::new(&mut *body).poll_frame(cx),
        };
        match std::panic::catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Ready(Some(Ok(mut frame)))) => {
                if let (Some(memory), Some(data)) = (&memory, frame.data_ref())
                    && let Err(fault) = memory.answer(data.len())
                    && !this.record.is_probe()
                {
                    return this.end(fault);
                }
                if http_body::Body::is_end_stream(body) && !this.record.is_probe() {
                    // The handler has ended. The memory of the answer is reserved, and other
                    // requests do not wait until the answer is read.
                    this.place = None;
                }
                if let (Some(path), Some(trailers)) = (&this.grpc, frame.trailers_mut()) {
                    detailed::complete(trailers, path);
                }
                if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                    this.record.grpc(status.code());
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Ok(Poll::Ready(Some(Err(error)))) => {
                tracing::warn!(%error, "the answer ended early");
                if this.grpc.is_some() {
                    this.record.grpc(Code::Unknown);
                } else {
                    this.record.traced.broke_off();
                }
                this.body = None;
                Poll::Ready(Some(Err(error)))
            }
            Ok(Poll::Ready(None)) => {
                this.body = None;
                this.place = None;
                Poll::Ready(None)
            }
            Ok(Poll::Pending) => match this.cut.closing.as_mut().map(|closing| closing.as_mut().poll(cx)) {
                Some(Poll::Ready(fault)) => this.end(fault),
                _ => Poll::Pending,
            },
            Err(panic) => {
                let fault = this.record.panicked(&*panic);
                this.end(fault)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}
