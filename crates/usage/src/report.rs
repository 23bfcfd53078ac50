//! Usage reported in the answer of a call while it grows.
//!
//! A caller that wants reports sends the request header [`HEADER`] with the value [`FRAMES`]. A
//! server that supports it sends the response headers at once, with the same header. It then
//! inserts its own frames between the frames of gRPC: the flag byte [`FLAG`], four bytes of length,
//! a [`Report`]. The caller removes them from the answer ([`ReportedBody`]). So the caller knows
//! the usage even if the call fails, reaches its deadline or is cancelled.
//!
//! A server that does not support the header ignores it. Other callers never receive such frames.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use isomer_proto::common::v1::Usage;
use parking_lot::Mutex;
use prost::Message;
use tonic::{Status, body::Body, server::NamedService};
use tower::Service;

use crate::{
    count::{self, Count, PendingWork, current},
    sum,
};

/// The header that requests reports. An answer with reports repeats it.
pub const HEADER: HeaderName = HeaderName::from_static("isomer-usage");
pub const FRAMES: HeaderValue = HeaderValue::from_static("frames");
/// The first byte of a report's frame. gRPC uses 0 and 1 there, gRPC-Web 128.
pub const FLAG: u8 = 0x40;
/// Bytes of a frame before its message: the flag and the length.
const HEAD: usize = 5;
/// Maximum size of a report: two messages of a few numbers.
const LONGEST: usize = 1024;

/// Usage so far. Both fields cover the whole call, so a report replaces the previous one.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Report {
    /// The usage so far.
    #[prost(message, optional, tag = "1")]
    pub used: Option<Usage>,
    /// The maximum usage of the work in flight. It counts as used if the answer breaks off.
    #[prost(message, optional, tag = "2")]
    pub open: Option<Usage>,
}

/// Whether the headers request or announce reports.
pub fn is_reported(headers: &HeaderMap) -> bool {
    headers.get(HEADER).is_some_and(|value| value == FRAMES)
}

/// A generated gRPC server whose calls are counted, and reported to callers that request it.
#[derive(Debug, Clone)]
pub struct ReportingService<S>(pub S);

impl<S: NamedService> NamedService for ReportingService<S> {
    const NAME: &'static str = S::NAME;
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for ReportingService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> ResponseFuture {
        if !is_reported(request.headers()) {
            return Box::pin(self.0.call(request));
        }
        // The headers are sent before it is known whether the messages would be compressed.
        request.headers_mut().remove("grpc-accept-encoding");
        // A part, so that an enclosing count of the whole call, such as that of a charging gateway,
        // is also updated.
        let count = Count::of_part();
        let answering = count.sync_scope(|| self.0.call(request));
        let body = Body::new(InterleavedBody {
            answer: Some(AnswerState::Awaited(Box::pin(answering))),
            count,
            reported_version: 0,
            held: None,
        });
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(HEADER, FRAMES);
        Box::pin(std::future::ready(Ok(response)))
    }
}

/// The bound of a whole call, which counts until the server reports its own. Callers put it into
/// the extensions of the request.
#[derive(Debug, Clone)]
pub struct CallBound(Arc<Mutex<Option<PendingWork>>>);

impl CallBound {
    /// Begins a call in the current count.
    pub fn begin(bound: Usage) -> Self {
        Self(Arc::new(Mutex::new(Some(count::begin(bound)))))
    }

    /// Ends the call with this usage, unless the server has already reported it.
    pub fn end(&self, used: &Usage) {
        let open = self.0.lock().take();
        if let Some(open) = open {
            open.end(used);
        }
    }
}

/// A channel whose calls request reports and read them into the current count.
#[derive(Debug, Clone)]
pub struct ReportingChannel<S>(pub S);

impl<S> Service<Request<Body>> for ReportingChannel<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if current().is_none() {
            return Box::pin(self.0.call(request));
        }
        request.headers_mut().insert(HEADER, FRAMES);
        let provisional = request.extensions_mut().remove::<CallBound>();
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if !is_reported(answer.headers()) {
                return Ok(answer);
            }
            if let Some(provisional) = provisional {
                provisional.end(&Usage::default());
            }
            Ok(answer.map(|body| Body::new(ReportedBody::new(body))))
        })
    }
}

enum AnswerState {
    Awaited(ResponseFuture),
    Body(Body),
}

/// The frames of an answer, interleaved with reports.
struct InterleavedBody {
    answer: Option<AnswerState>,
    count: Count,
    /// The version of the count in the last report.
    reported_version: u64,
    /// A frame that waits until a report has been sent.
    held: Option<Frame<Bytes>>,
}

impl InterleavedBody {
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            match &mut self.answer {
                None => return Poll::Ready(None),
                Some(AnswerState::Body(body)) => {
                    let frame = ready!(
                        self.count
                            .sync_scope(|| http_body::Body::poll_frame(Pin::new(body), cx))
                    );
                    if frame.is_none() {
                        self.answer = None;
                    }
                    return Poll::Ready(frame);
                }
                Some(AnswerState::Awaited(answering)) => {
                    let Ok(response) = ready!(self.count.sync_scope(|| answering.as_mut().poll(cx)));
                    let (parts, body) = response.into_parts();
                    if parts.headers.contains_key(Status::GRPC_STATUS) {
                        // An answer without messages has its trailers in its headers.
                        self.answer = None;
                        return Poll::Ready(Some(Ok(Frame::trailers(parts.headers))));
                    }
                    self.answer = Some(AnswerState::Body(body));
                }
            }
        }
    }

    /// A report, if the count has changed.
    fn report(&mut self) -> Option<Frame<Bytes>> {
        let (used, open, version) = self.count.snapshot();
        if version == self.reported_version {
            return None;
        }
        self.reported_version = version;
        let report = Report {
            used: Some(used),
            open: Some(open),
        };
        let mut bytes = BytesMut::with_capacity(HEAD + report.encoded_len());
        bytes.put_u8(FLAG);
        bytes.put_u32(report.encoded_len() as u32);
        bytes.extend_from_slice(&report.encode_to_vec());
        Some(Frame::data(bytes.freeze()))
    }
}

impl http_body::Body for InterleavedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if let Some(frame) = this.held.take() {
            return Poll::Ready(Some(Ok(frame)));
        }
        this.count.wake(cx.waker());
        let polled = this.poll_answer(cx);
        match (polled, this.report()) {
            (polled, None) => polled,
            (Poll::Pending, Some(report)) => Poll::Ready(Some(Ok(report))),
            (Poll::Ready(Some(Ok(frame))), Some(report)) => {
                this.held = Some(frame);
                Poll::Ready(Some(Ok(report)))
            }
            (Poll::Ready(ended), Some(_)) => Poll::Ready(ended),
        }
    }
}

/// The frames of an answer without the reports, which are added to the current count.
///
/// If it is dropped before the answer has ended, the bound of the work in flight is counted.
#[derive(Debug)]
pub struct ReportedBody<B> {
    body: B,
    count: Option<Count>,
    reported_usage: Usage,
    open: Option<PendingWork>,
    /// Bytes being parsed: the beginning of a frame, or an incomplete report.
    begun: BytesMut,
    /// Number of bytes of the current gRPC frame that have not arrived.
    passing: usize,
    /// Received bytes that are not parsed yet.
    waiting: Bytes,
}

impl<B> ReportedBody<B> {
    /// Reads the reports of `body` into the current count.
    pub fn new(body: B) -> Self {
        Self {
            body,
            count: current(),
            reported_usage: Usage::default(),
            open: None,
            begun: BytesMut::new(),
            passing: 0,
            waiting: Bytes::new(),
        }
    }

    /// The next gRPC bytes among those received.
    fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if self.passing > 0 && !self.waiting.is_empty() {
                let bytes = self.waiting.split_to(self.passing.min(self.waiting.len()));
                self.passing -= bytes.len();
                return Ok(Some(bytes));
            }
            if self.passing > 0 || self.waiting.is_empty() {
                return Ok(None);
            }
            let missing = HEAD.saturating_sub(self.begun.len()).min(self.waiting.len());
            self.begun.extend_from_slice(&self.waiting.split_to(missing));
            let Some(head) = self.begun.first_chunk::<HEAD>() else {
                return Ok(None);
            };
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if head[0] != FLAG {
                self.passing = length;
                return Ok(Some(self.begun.split().freeze()));
            }
            if length > LONGEST {
                return Err(Status::internal(format!(
                    "a report of usage has {length} bytes; at most {LONGEST} are read"
                )));
            }
            let missing = (HEAD + length).saturating_sub(self.begun.len()).min(self.waiting.len());
            self.begun.extend_from_slice(&self.waiting.split_to(missing));
            if self.begun.len() < HEAD + length {
                return Ok(None);
            }
            let mut report = self.begun.split();
            report.advance(HEAD);
            let report = Report::decode(report.freeze())
                .map_err(|error| Status::internal(format!("a report of usage cannot be read: {error}")))?;
            self.take(&report);
        }
    }

    fn take(&mut self, report: &Report) {
        let Some(count) = &self.count else { return };
        let (used, open) = (report.used.unwrap_or_default(), report.open.unwrap_or_default());
        // The new bound is added first, so that the count never decreases in between.
        let before = std::mem::replace(&mut self.open, (open != Usage::default()).then(|| count.begin(open)));
        count.add(&sum::beyond(&used, &self.reported_usage));
        self.reported_usage = used;
        if let Some(before) = before {
            before.nothing();
        }
    }

    /// Records the end of the answer: all of its usage has been reported.
    fn end(&mut self) {
        if let Some(open) = self.open.take() {
            open.nothing();
        }
    }
}

impl<B> http_body::Body for ReportedBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    Status: From<B::Error>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        loop {
            if let Some(bytes) = this.next()? {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => this.waiting = bytes,
                    Err(trailers) => {
                        // If the server ended the call itself, its reports are complete; if a
                        // deadline cut it off, they are not.
                        let cut = trailers.trailers_ref().and_then(Status::from_header_map);
                        if !cut.is_some_and(|status| status.code() == tonic::Code::DeadlineExceeded) {
                            this.end();
                        }
                        return Poll::Ready(Some(Ok(trailers)));
                    }
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(Status::from(error)))),
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http_body_util::{BodyExt, Full};

    use super::*;
    use crate::begin;

    fn tokens(tokens: u64) -> Usage {
        Usage {
            tokens,
            ..Usage::default()
        }
    }

    fn framed(message: &[u8]) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(0);
        bytes.put_u32(message.len() as u32);
        bytes.extend_from_slice(message);
        bytes.freeze()
    }

    /// A service that uses 30 tokens, begins a piece of at most 100, and answers when the test
    /// permits it.
    #[derive(Clone)]
    struct Worker(std::sync::Arc<tokio::sync::Notify>);

    impl Service<Request<Body>> for Worker {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = ResponseFuture;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> ResponseFuture {
            let go = std::sync::Arc::clone(&self.0);
            Box::pin(async move {
                begin(tokens(40)).end(&tokens(30));
                let last = begin(tokens(100));
                go.notified().await;
                last.end(&tokens(7));
                let body = Full::new(framed(b"the answer")).map_err(|error| match error {});
                Ok(Response::new(Body::new(body)))
            })
        }
    }

    async fn ask(worker: &Worker) -> Response<Body> {
        let request = Request::builder().header(HEADER, FRAMES).body(Body::empty()).unwrap();
        let response = ReportingService(worker.clone()).call(request).await.unwrap();
        assert!(is_reported(response.headers()));
        response
    }

    #[tokio::test]
    async fn the_caller_reads_the_answer_and_the_count_of_a_call_that_ends() {
        let worker = Worker(std::sync::Arc::default());
        let count = Count::default();
        let reported = count.sync_scope(|| ReportedBody::new(Body::empty()));
        drop(reported);
        worker.0.notify_one();
        let body = ask(&worker).await.into_body();
        let body = count.sync_scope(|| ReportedBody::new(body));
        assert_eq!(body.collect().await.unwrap().to_bytes(), framed(b"the answer"));
        assert_eq!(count.used(), tokens(37));
    }

    #[tokio::test]
    async fn a_call_that_is_given_up_counts_what_was_used_and_the_bound_of_what_was_under_way() {
        let worker = Worker(std::sync::Arc::default());
        let count = Count::default();
        let body = ask(&worker).await.into_body();
        let mut body = count.sync_scope(|| ReportedBody::new(body));
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(50), body.frame());
        waiting.await.unwrap_err();
        assert_eq!(count.used(), tokens(30));
        drop(body);
        assert_eq!(count.used(), tokens(130));
    }

    #[tokio::test]
    async fn reports_are_found_however_the_bytes_are_cut() {
        let report = Report {
            used: Some(tokens(5)),
            open: None,
        };
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&framed(b"one"));
        bytes.put_u8(FLAG);
        bytes.put_u32(report.encoded_len() as u32);
        bytes.extend_from_slice(&report.encode_to_vec());
        bytes.extend_from_slice(&framed(b""));
        bytes.extend_from_slice(&framed(b"two"));
        let expected: Vec<u8> = [framed(b"one"), framed(b""), framed(b"two")].concat();
        for size in 1..bytes.len() {
            let pieces = bytes
                .chunks(size)
                .map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece))));
            let body =
                http_body_util::StreamBody::new(futures::stream::iter(pieces.collect::<Vec<Result<_, Status>>>()));
            let count = Count::default();
            let body = count.sync_scope(|| ReportedBody::new(body));
            assert_eq!(body.collect().await.unwrap().to_bytes(), expected, "pieces of {size}");
            assert_eq!(count.used(), tokens(5));
        }
    }

    #[tokio::test]
    async fn who_asks_for_reports_hides_nothing_from_who_counts_the_whole() {
        let worker = Worker(std::sync::Arc::default());
        worker.0.notify_one();
        let whole = Count::default();
        let asked = async { ask(&worker).await.into_body().collect().await };
        whole.scope(asked).await.unwrap();
        assert_eq!(whole.used(), tokens(37));
    }

    #[tokio::test]
    async fn nobody_who_does_not_ask_is_sent_a_report() {
        let worker = Worker(std::sync::Arc::default());
        worker.0.notify_one();
        let request = Request::new(Body::empty());
        let response = ReportingService(worker).call(request).await.unwrap();
        assert!(!is_reported(response.headers()));
        assert_eq!(
            response.into_body().collect().await.unwrap().to_bytes(),
            framed(b"the answer")
        );
    }
}
