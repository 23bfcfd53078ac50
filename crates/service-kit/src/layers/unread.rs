//! The unread part of a body, for a request that is refused before its whole body has arrived.
//!
//! Over HTTP/1.1 hyper then closes the connection. The system resets a connection that is closed
//! with unread bytes. A client that is still sending sees a broken connection and loses the answer
//! with the reason. So the rest of the body is read and discarded, up to a bound. Over HTTP/2 only
//! the stream is reset, after the answer.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use futures::StreamExt;
use http::{Version, header};
use http_body::{Body as _, Frame, SizeHint};

use super::request_body::has_two_lengths;

/// Maximum number of bytes that are read and discarded.
const BYTES: usize = 64 << 20;
/// Maximum time for reading and discarding.
const TIME: Duration = Duration::from_secs(10);

/// Arranges that the rest of the request's body is read when its reader is dropped.
pub(crate) fn read_the_rest(request: Request) -> Request {
    let headers = request.headers();
    let is_framed_by_http_2 = || request.version() >= Version::HTTP_2;
    // Such a client sends its body only after a `100 Continue`.
    let waits = || headers.contains_key(header::EXPECT);
    // The end of such a body is uncertain, so nothing may follow it.
    let is_odd = || has_two_lengths(headers);
    if is_framed_by_http_2() || request.body().is_end_stream() || waits() || is_odd() {
        return request;
    }
    request.map(|body| Body::new(Reader { body: Some(body) }))
}

/// A body that is read to its end even if its handler drops it.
struct Reader {
    body: Option<Body>,
}

impl http_body::Body for Reader {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(body).poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = frame {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(rest), Ok(runtime)) = (rest, tokio::runtime::Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(TIME, discard(rest)));
        }
    }
}

async fn discard(body: Body) {
    let mut frames = body.into_data_stream();
    let mut bytes = 0;
    while let Some(Ok(frame)) = frames.next().await {
        bytes += frame.len();
        if bytes > BYTES {
            break;
        }
    }
}
