//! The body of a request while it arrives: its size is bounded, and it must arrive fast enough.
//!
//! A request takes a permit of the server as soon as its head has arrived. A client that sends its
//! body slowly would hold the permit for nothing, so a body must keep up a minimum rate. Calls with
//! a stream of requests are exempt: their clients may be silent for hours. Calls in which only the
//! answer is a stream are not exempt.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{body::Body, extract::Request, response::Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::Status;

use super::{
    Labels,
    coding::{ACCEPT_ENCODING, ACCEPTED, Coding, ENCODING},
    is_grpc,
    messages::{self, Checks},
};
use crate::{
    Fault,
    budget::{Budget, PEAK_FACTOR, Reservation},
    minimum_rate::MinimumRate,
    refusals::Refusals,
    wrap::Next,
};

/// How long a body may arrive at less than the minimum rate. A slow line is not an attack.
const GRACE: Duration = Duration::from_secs(20);

/// Settings of [`arriving`].
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) labels: Labels,
    /// Largest body in bytes.
    pub(crate) most: usize,
    /// The formats in which failures are reported to callers.
    pub(crate) refusals: Refusals,
    /// Memory budget of all requests in flight.
    pub(crate) budget: Budget,
}

/// Largest message to health and reflection, which need no key. It holds the name of a service or a
/// symbol.
pub(crate) const PROBE_MESSAGE: usize = 4096;

/// Refuses bodies whose declared size is too large or whose coding is unsupported, and watches the
/// others.
pub(crate) async fn arriving(bounds: Arc<Bounds>, request: Request, next: Next) -> Response {
    let is_grpc = is_grpc(request.headers());
    let respond = bounds.refusals.shape(request.uri().path(), is_grpc);
    // The outer layer keeps the reservation until the answer has ended.
    let reservation = request.extensions().get::<Reservation>().cloned();
    let reservation = reservation.unwrap_or_else(|| bounds.budget.reserve(None));
    let mut codings = request.headers().get_all(header::CONTENT_ENCODING).iter();
    if codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        // A compressed kilobyte may decompress to a gigabyte.
        let fault = Fault::new(
            tonic::Code::InvalidArgument,
            "UNSUPPORTED_MEDIA_TYPE",
            "compressed requests are not accepted",
        );
        return respond(fault.field("content-encoding").hint("send the body uncompressed"));
    }
    if has_two_lengths(request.headers()) {
        let fault = Fault::invalid("content-length", "the length of the request is ambiguous")
            .hint("send one content-length, or transfer-encoding: chunked");
        let mut refusal = respond(fault);
        // The next bytes on the connection may belong to this request.
        refusal
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
        return refusal;
    }
    if is_grpc {
        return messages(&bounds, reservation, request, next).await;
    }
    let most = bounds.most as u64;
    if http_body::Body::size_hint(request.body()).lower() > most {
        return respond(too_large(most));
    }
    next.run(request.map(|body| RequestBody::wrap(body, most, MinimumRate::new(GRACE), Some(reservation))))
        .await
}

/// Forwards a gRPC request with its messages checked, and compresses the messages of the answer if
/// the caller accepts that.
async fn messages(bounds: &Bounds, reservation: Reservation, mut request: Request, next: Next) -> Response {
    let respond = bounds.refusals.shape(request.uri().path(), true);
    let label = bounds.labels.grpc(request.uri().path());
    let coding = match Coding::of_request(request.headers()) {
        Ok(coding) => coding,
        Err(fault) => {
            let mut refusal = respond(fault);
            refusal.headers_mut().insert(ACCEPT_ENCODING, ACCEPTED);
            return refusal;
        }
    };
    request.headers_mut().remove(ENCODING);
    let answer_in = Coding::for_answer(request.headers());
    let most = if label.probe { PROBE_MESSAGE } else { bounds.most };
    // Without a descriptor, the method may accept a stream.
    let client_streams = label.client_streams || !label.described;
    let paced = if client_streams {
        request
    } else {
        // Each message has a prefix of five bytes.
        let most = most.saturating_add(5) as u64;
        if http_body::Body::size_hint(request.body()).lower() > most {
            return respond(too_large(most));
        }
        request.map(|body| RequestBody::wrap(body, most, MinimumRate::new(GRACE), None))
    };
    let checks = Checks {
        coding,
        most,
        shape: label.message,
        shapes: bounds.labels.shapes(),
        reservation,
        client_streams,
    };
    let answer = next.run(paced.map(|body| messages::checked(body, checks))).await;
    match answer_in {
        Some(coding) => messages::compressed(answer, coding),
        None => answer,
    }
}

/// Whether another reader could find the end of the request elsewhere. This is the kind of request
/// smuggling that hyper does not refuse.
pub(super) fn has_two_lengths(headers: &HeaderMap) -> bool {
    let lengths = headers.get_all(header::CONTENT_LENGTH).iter().count();
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let coding = codings.next();
    let is_odd = |coding: &HeaderValue| !coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    lengths > 1 || codings.next().is_some() || coding.is_some_and(is_odd) || (lengths == 1 && coding.is_some())
}

/// A body that must arrive in time.
struct RequestBody {
    body: Body,
    begun: Instant,
    received: u64,
    most: u64,
    rate: MinimumRate,
    end: Pin<Box<Sleep>>,
    over: bool,
    /// The reservation, which grows as bytes arrive.
    reservation: Option<Reservation>,
}

impl RequestBody {
    fn wrap(body: Body, most: u64, rate: MinimumRate, reservation: Option<Reservation>) -> Body {
        if http_body::Body::is_end_stream(&body) {
            return body;
        }
        Body::new(Self {
            body,
            begun: Instant::now(),
            received: 0,
            most,
            rate,
            end: Box::pin(tokio::time::sleep_until(rate.deadline())),
            over: false,
            reservation,
        })
    }

    fn fail(&mut self, fault: Fault) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.over = true;
        Poll::Ready(Some(Err(axum::Error::new(Status::from(fault)))))
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.over {
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.rate.passed(bytes);
                self.received = self.received.saturating_add(bytes as u64);
                if self.received > self.most {
                    let fault = too_large(self.most);
                    return self.fail(fault);
                }
                let held = usize::try_from(self.received).unwrap_or(usize::MAX);
                if let Some(reservation) = &self.reservation
                    && let Err(fault) = reservation.grow_to(held.saturating_mul(PEAK_FACTOR))
                {
                    return self.fail(fault);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Pending => {
                while self.end.as_mut().poll(cx).is_ready() {
                    if self.rate.is_over() {
                        let message = format!(
                            "{} bytes in {} s is too slow",
                            self.received,
                            self.begun.elapsed().as_secs()
                        );
                        let fault = Fault::new(tonic::Code::DeadlineExceeded, "SLOW_REQUEST", message);
                        return self.fail(fault.hint("send the request's body without pauses"));
                    }
                    let deadline = self.rate.deadline();
                    self.end.as_mut().reset(deadline);
                }
                Poll::Pending
            }
            done => done,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The refusal of a body that exceeds the server's limit.
pub(super) fn too_large(most: u64) -> Fault {
    Fault::new(
        tonic::Code::ResourceExhausted,
        "REQUEST_TOO_LARGE",
        format!("the request is larger than {most} bytes"),
    )
    .hint("send fewer texts in one request")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::{StreamExt, stream};

    use super::*;

    fn dripping(bytes: usize, every: Duration) -> Body {
        let drops = stream::unfold((), move |()| async move {
            tokio::time::sleep(every).await;
            Some((Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes])), ()))
        });
        Body::from_stream(drops)
    }

    /// The number of received bytes, and the error at the end of the body.
    async fn end(body: Body) -> (usize, Option<String>) {
        let mut frames = body.into_data_stream();
        let mut bytes = 0;
        while let Some(frame) = frames.next().await {
            match frame {
                Ok(frame) => bytes += frame.len(),
                Err(error) => return (bytes, Some(error.to_string())),
            }
        }
        (bytes, None)
    }

    const QUICK: Duration = Duration::from_millis(100);

    fn wrap(body: Body, most: u64) -> Body {
        RequestBody::wrap(body, most, MinimumRate::of(QUICK, 1000.0), None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_ends_after_its_grace() {
        let begun = Instant::now();
        let (bytes, error) = end(wrap(dripping(1, Duration::from_millis(15)), 1000)).await;
        assert!(error.unwrap().contains("too slow") && bytes < 20);
        // The whole body would take 15 seconds.
        assert!(begun.elapsed() < QUICK * 2, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_line_may_take_its_time() {
        let body = wrap(dripping(100, Duration::from_millis(20)), 2000);
        let begun = Instant::now();
        let (bytes, error) = end(body).await;
        assert!(error.unwrap().contains("larger than 2000 bytes"));
        assert!(bytes == 2000 && begun.elapsed() > QUICK * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_cut_off_at_its_bound_and_not_before() {
        let (bytes, error) = end(wrap(dripping(10, Duration::from_millis(1)), 100)).await;
        assert!(bytes == 100 && error.unwrap().contains("larger than 100 bytes"));
        let whole = wrap(Body::from("x".repeat(100)), 100);
        assert_eq!(end(whole).await, (100, None));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_came_fast_earn_no_long_silence() {
        let fast = stream::once(async { Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 100_000])) });
        let body = wrap(Body::from_stream(fast.chain(stream::pending())), 1 << 20);
        let begun = Instant::now();
        let (bytes, error) = end(body).await;
        assert!(bytes == 100_000 && error.unwrap().contains("too slow"));
        // tokio's clock.
        assert!(begun.elapsed() < QUICK * 2, "{:?}", begun.elapsed());
    }
}
