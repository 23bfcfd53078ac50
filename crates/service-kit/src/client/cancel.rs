//! Cancels a call whose caller drops the answer.
//!
//! HTTP/2 closes the two halves of a stream separately. If only the answer is dropped while the
//! request half stays open, the server does not notice and its work continues. Here the two halves
//! are tied together: the request ends with the answer.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::{Status, body::Body};

/// Ties a request to the answer that is still to come.
pub(super) fn tie(request: Body) -> (Body, Tie) {
    let token = CancellationToken::new();
    let ended = Box::pin(token.clone().cancelled_owned());
    (Body::new(Request { body: request, ended }), Tie(token.drop_guard()))
}

/// Ends the request when dropped, or when the answer it was given to is dropped.
pub(super) struct Tie(DropGuard);

impl Tie {
    /// The answer has begun. From now on the request ends when `body` is dropped; `more` is dropped
    /// with it.
    pub(super) fn hold<T: Send + Unpin + 'static>(self, body: Body, more: T) -> Body {
        Body::new(CancellableBody {
            body,
            _tie: self.0,
            _more: more,
        })
    }
}

struct Request {
    body: Body,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl http_body::Body for Request {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let frame @ Poll::Ready(_) = Pin::new(&mut self.body).poll_frame(cx) {
            return frame;
        }
        // This is an error rather than an end: the server must see a cancelled call, not a complete
        // request.
        self.ended
            .as_mut()
            .poll(cx)
            .map(|()| Some(Err(Status::cancelled("the caller dropped the answer"))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct CancellableBody<T> {
    body: Body,
    _tie: DropGuard,
    _more: T,
}

impl<T: Unpin> http_body::Body for CancellableBody<T> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
