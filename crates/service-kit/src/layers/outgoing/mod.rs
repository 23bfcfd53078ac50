//! The body of an answer on its way to the network. Its memory stays reserved until its last byte
//! is written, and a client that does not read is cut off.
//!
//! hyper takes the next part of a body only when the client has read most of the previous parts. So
//! a body is handed over in small pieces. If the client does not read, the remaining part can be
//! dropped, and the part already handed over is small.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use axum::{body::Body, extract::Request, response::Response};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    budget::{Budget, Reservation, Reserver},
    minimum_rate::MinimumRate,
};

/// Maximum number of bytes that are handed over at once.
const PIECE: usize = 64 << 10;
/// How long the client of a connection may read all its answers at less than the minimum rate.
const UNREAD: Duration = Duration::from_secs(60);
/// How long one answer may wait while the client reads others. A stream of messages may wait as
/// long, because its reader may be busy with the previous message.
const STARVED: Duration = Duration::from_secs(600);

/// In the extensions of a response that is a stream of messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageStream;

/// The client of a connection and its unwritten answers; in the extensions of each request.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: Option<IpAddr>,
    answers: Arc<Mutex<Answers>>,
}

#[derive(Debug)]
struct Answers {
    last: u64,
    unwritten: HashMap<u64, Weak<OutgoingBody>>,
    rate: MinimumRate,
}

impl Client {
    pub(crate) fn new(address: Option<IpAddr>) -> Self {
        Self {
            address,
            answers: Arc::new(Mutex::new(Answers {
                last: 0,
                unwritten: HashMap::new(),
                rate: MinimumRate::new(UNREAD),
            })),
        }
    }

    /// Drops answers that have waited too long. Returns whether to close the connection because its
    /// client reads none of its answers.
    pub(crate) fn has_stopped_reading(&self) -> bool {
        let mut answers = self.answers.lock();
        let all: Vec<_> = answers.unwritten.values().filter_map(Weak::upgrade).collect();
        let mut waits = false;
        for answer in &all {
            let Some(since) = answer.waits_since() else { continue };
            if since.elapsed() >= STARVED {
                answer.cut();
            }
            waits |= !answer.is_stream;
        }
        if !waits {
            answers.rate.restart();
        }
        let is_over = answers.rate.is_over();
        // Dropping the last reference to an answer removes it from the list.
        drop(answers);
        is_over
    }
}

/// State for an answer, created before its request is handled.
#[derive(Debug)]
pub(crate) struct OutgoingAnswer {
    memory: Reservation,
    client: Option<Client>,
}

impl OutgoingAnswer {
    /// Gives the request its reservation.
    pub(crate) fn of(request: &mut Request, budget: &Budget) -> Self {
        let client = request.extensions().get::<Client>().cloned();
        let address = client.as_ref().and_then(|client| client.address);
        let memory = budget.reserve(address.map(Reserver::at));
        request.extensions_mut().insert(memory.clone());
        Self { memory, client }
    }

    /// Wraps the response in a body that keeps the reservation until it is written.
    pub(crate) fn response(self, response: Response, is_stream: bool) -> Response {
        if response.body().is_end_stream() {
            return response;
        }
        response.map(|body| {
            let answer = Arc::new_cyclic(|own| OutgoingBody {
                _memory: self.memory,
                is_stream,
                content: Mutex::new(Content {
                    body: Some(body),
                    rest: Bytes::new(),
                    is_cut: false,
                    idle: false,
                    unwritten: 0,
                    progress: Instant::now(),
                }),
                listed: self.client.map(|client| ListEntry::new(client, Weak::clone(own))),
            });
            Body::new(Pieces(answer))
        })
    }
}

/// The entry of an answer in the list of its connection.
#[derive(Debug)]
struct ListEntry {
    client: Client,
    number: u64,
}

impl ListEntry {
    fn new(client: Client, answer: Weak<OutgoingBody>) -> Self {
        let mut answers = client.answers.lock();
        if answers.unwritten.is_empty() {
            // The connection may not have been checked for a long time.
            answers.rate.restart();
        }
        answers.last += 1;
        let number = answers.last;
        answers.unwritten.insert(number, answer);
        drop(answers);
        Self { client, number }
    }
}

impl Drop for ListEntry {
    fn drop(&mut self) {
        self.client.answers.lock().unwritten.remove(&self.number);
    }
}

/// An answer until its last byte is written.
#[derive(Debug)]
struct OutgoingBody {
    /// Released when this is dropped.
    _memory: Reservation,
    is_stream: bool,
    content: Mutex<Content>,
    listed: Option<ListEntry>,
}

#[derive(Debug)]
struct Content {
    /// `None` while it is polled, and after its end.
    body: Option<Body>,
    /// The part of a frame that is not yet handed over.
    rest: Bytes,
    is_cut: bool,
    /// Whether the body has nothing to send now.
    idle: bool,
    /// Bytes that were handed over but not yet written.
    unwritten: usize,
    /// When the client last made room for more.
    progress: Instant,
}

impl OutgoingBody {
    /// The time since which the answer has waited for its client; `None` if the client waits for
    /// the answer.
    fn waits_since(&self) -> Option<Instant> {
        let content = self.content.lock();
        let waits = content.unwritten > 0 || !content.rest.is_empty() || (content.body.is_some() && !content.idle);
        waits.then_some(content.progress)
    }

    /// Drops the part that is not yet handed over.
    fn cut(&self) {
        let mut content = self.content.lock();
        content.is_cut = true;
        let (body, rest) = (content.body.take(), std::mem::take(&mut content.rest));
        drop(content);
        drop((body, rest));
    }

    fn written(&self, bytes: usize) {
        let mut content = self.content.lock();
        content.unwritten = content.unwritten.saturating_sub(bytes);
        content.progress = Instant::now();
        drop(content);
        if let Some(listed) = &self.listed {
            listed.client.answers.lock().rate.passed(bytes);
        }
    }
}

/// Bytes that notify their answer when they are written.
struct Piece {
    bytes: Bytes,
    answer: Arc<OutgoingBody>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.answer.written(self.bytes.len());
    }
}

/// The body of an answer in pieces.
#[derive(Debug)]
struct Pieces(Arc<OutgoingBody>);

impl Pieces {
    fn next_piece(&self, content: &mut Content) -> Frame<Bytes> {
        let length = content.rest.len().min(PIECE);
        let bytes = content.rest.split_to(length);
        content.unwritten += length;
        content.progress = Instant::now();
        Frame::data(Bytes::from_owner(Piece {
            bytes,
            answer: Arc::clone(&self.0),
        }))
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut content = self.0.content.lock();
        if content.is_cut {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the client did not read the answer in time");
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        if !content.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.next_piece(&mut content))));
        }
        let Some(mut body) = content.body.take() else {
            return Poll::Ready(None);
        };
        content.idle = false;
        drop(content);
        // Polled without the lock, because the body belongs to a handler.
        let frame = Pin::new(&mut body).poll_frame(cx);
        let mut content = self.0.content.lock();
        match frame {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {
                content.idle = true;
                content.body = Some(body);
                return Poll::Pending;
            }
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Some(Ok(frame))) => {
                if !body.is_end_stream() {
                    content.body = Some(body);
                }
                match frame.into_data() {
                    Ok(data) if !data.is_empty() => content.rest = data,
                    Ok(empty) => return Poll::Ready(Some(Ok(Frame::data(empty)))),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                }
            }
        }
        Poll::Ready(Some(Ok(self.next_piece(&mut content))))
    }

    fn is_end_stream(&self) -> bool {
        let content = self.0.content.lock();
        !content.is_cut && content.rest.is_empty() && content.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let content = self.0.content.lock();
        let rest = content.rest.len() as u64;
        let body = content
            .body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let mut whole = SizeHint::default();
        whole.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            whole.set_upper(upper + rest);
        }
        whole
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        // The client has disconnected, or the answer has ended.
        let mut content = self.0.content.lock();
        let (body, rest) = (content.body.take(), std::mem::take(&mut content.rest));
        drop(content);
        drop((body, rest));
    }
}

#[cfg(test)]
mod tests;
