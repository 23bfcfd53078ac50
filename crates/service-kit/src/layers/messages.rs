//! The messages of gRPC calls, one at a time. Messages of a request are bounded, decompressed and
//! counted before the handler gets them. Messages of an answer are compressed if the caller accepts
//! that.
//!
//! All services share this module, so the generated servers do no compression of their own.

use axum::{body::Body, response::Response};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use tonic::Status;

use super::{
    coding::{Coding, ENCODING},
    elements::Shapes,
};
use crate::budget::{PEAK_FACTOR, Reservation};
use isomer_fault::Fault;

/// A message's flag and length.
const HEAD: usize = 5;
/// Answers smaller than this are not worth compressing.
const SMALL: usize = 512;
/// Number of bytes of a large answer that are compressed as a sample, to see whether the rest is
/// worth compressing. Vectors of floats are not.
const SAMPLE: usize = 16 << 10;

/// The limits for the messages of a request.
pub(super) struct Checks {
    pub(super) coding: Option<Coding>,
    /// Largest message in bytes, before and after decompression.
    pub(super) most: usize,
    /// Type of the request's message, if known.
    pub(super) shape: Option<usize>,
    pub(super) shapes: std::sync::Arc<Shapes>,
    pub(super) reservation: Reservation,
    /// Whether the client sends a stream of messages. Each message releases its memory when the
    /// next begins.
    pub(super) client_streams: bool,
}

/// The messages of a body after checks and decompression.
pub(super) fn checked(body: Body, checks: Checks) -> Body {
    let reader = Reader {
        body,
        buffer: BytesMut::new(),
        checks,
        over: false,
    };
    let messages = stream::unfold(reader, |mut reader| async move {
        if reader.over {
            return None;
        }
        let next = reader.next().await;
        reader.over = !matches!(next, Ok(Some(_)));
        Some((next.transpose()?, reader))
    });
    // The head of a message and its content are forwarded as two pieces: joining them would copy
    // the message.
    let pieces = messages.flat_map(|message: Result<Bytes, axum::Error>| {
        stream::iter(match message {
            Ok(message) => vec![Ok(head(0, message.len())), Ok(message)],
            Err(error) => vec![Err(error)],
        })
    });
    Body::from_stream(pieces)
}

fn head(flag: u8, length: usize) -> Bytes {
    let mut head = BytesMut::with_capacity(HEAD);
    head.put_u8(flag);
    // The largest message is smaller than `u32::MAX`.
    head.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    head.freeze()
}

fn body_error(fault: Fault) -> axum::Error {
    axum::Error::new(Status::from(fault))
}

struct Reader {
    body: Body,
    buffer: BytesMut,
    checks: Checks,
    over: bool,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Bytes>, axum::Error> {
        if !self.fill(HEAD).await? {
            return if self.buffer.is_empty() {
                Ok(None)
            } else {
                Err(cut_off())
            };
        }
        if self.checks.client_streams {
            self.checks.reservation.clear();
        }
        let flag = self.buffer.get_u8();
        let length = self.buffer.get_u32() as usize;
        if length > self.checks.most {
            return Err(body_error(super::request_body::too_large(self.checks.most as u64)));
        }
        if !self.fill(length).await? {
            return Err(cut_off());
        }
        let content = self.buffer.split_to(length).freeze();
        let plain = match (flag, self.checks.coding) {
            (0, _) => content,
            (1, Some(coding)) => self.unpack(coding, content).await?,
            (1, None) => {
                let fault = Fault::new(
                    tonic::Code::Internal,
                    "UNSUPPORTED_ENCODING",
                    "a message is marked as compressed, but grpc-encoding does not name the compression",
                );
                return Err(body_error(fault.hint("send grpc-encoding: gzip or zstd")));
            }
            (flag, _) => {
                let fault = Fault::invalid(
                    "body",
                    format!("{flag} is not a flag of a gRPC message; it must be 0 or 1"),
                );
                return Err(body_error(fault.hint("frame messages as the gRPC protocol does")));
            }
        };
        self.count(&plain).await?;
        Ok(Some(plain))
    }

    /// Reads until the buffer holds `wanted` bytes; returns false if the body ends first.
    async fn fill(&mut self, wanted: usize) -> Result<bool, axum::Error> {
        while self.buffer.len() < wanted {
            let Some(frame) = self.body.frame().await else {
                return Ok(false);
            };
            if let Ok(data) = frame?.into_data() {
                self.buffer.extend_from_slice(&data);
                let held = self.buffer.len().saturating_mul(PEAK_FACTOR);
                self.checks.reservation.grow_to(held).map_err(body_error)?;
            }
        }
        Ok(true)
    }

    async fn unpack(&mut self, coding: Coding, packed: Bytes) -> Result<Bytes, axum::Error> {
        let most = self.checks.most;
        let memory = self.checks.reservation.clone();
        let plain = off_runtime(packed.len(), move || coding.unpack(&packed, most, Some(&memory))).await?;
        plain.map_err(body_error)
    }

    async fn count(&mut self, plain: &Bytes) -> Result<(), axum::Error> {
        let Some(shape) = self.checks.shape else { return Ok(()) };
        let bound = self.checks.most.saturating_mul(PEAK_FACTOR);
        let (wire, shapes) = (plain.clone(), std::sync::Arc::clone(&self.checks.shapes));
        let size = off_runtime(plain.len(), move || shapes.decoded_size(shape, &wire, bound)).await?;
        if size > bound {
            let fault = Fault::new(
                tonic::Code::ResourceExhausted,
                "REQUEST_TOO_LARGE",
                format!(
                    "the {} bytes of the request hold elements that take more than {bound} bytes of memory",
                    plain.len()
                ),
            );
            return Err(body_error(fault.hint("send fewer items in one request")));
        }
        self.checks.reservation.grow_to(size).map_err(body_error)
    }
}

fn cut_off() -> axum::Error {
    body_error(Fault::invalid("body", "the request ends within a message").hint("send whole messages"))
}

async fn off_runtime<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, axum::Error> {
    crate::off_runtime(size, work).await.map_err(body_error)
}

/// The answer with its messages compressed, unless the handler has compressed them or compression
/// does not make them smaller.
pub(super) fn compressed(response: Response, coding: Coding) -> Response {
    let is_open = !response.headers().contains_key(ENCODING) && !response.headers().contains_key("grpc-status");
    if !is_open || http_body::Body::is_end_stream(response.body()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(ENCODING, coding.header());
    parts.headers.remove(http::header::CONTENT_LENGTH);
    let body = Body::new(StreamBody::new(packed_frames(body, coding)));
    Response::from_parts(parts, body)
}

fn packed_frames(body: Body, coding: Coding) -> impl Stream<Item = Result<Frame<Bytes>, axum::Error>> {
    let state = (BodyStream::new(body), BytesMut::new());
    stream::unfold(state, move |(mut frames, mut buffer)| async move {
        loop {
            let frame = match frames.next().await? {
                Ok(frame) => frame,
                Err(error) => return Some((Err(error), (frames, buffer))),
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                // The frame holds trailers.
                Err(frame) => return Some((Ok(frame), (frames, buffer))),
            };
            buffer.extend_from_slice(&data);
            let mut out = BytesMut::new();
            while let Some(message) = whole(&mut buffer) {
                match pack(message, coding).await {
                    Ok(packed) => out.extend_from_slice(&packed),
                    Err(error) => return Some((Err(error), (frames, buffer))),
                }
            }
            if !out.is_empty() {
                return Some((Ok(Frame::data(out.freeze())), (frames, buffer)));
            }
        }
    })
}

/// The first message of the buffer with its head, if it is complete.
fn whole(buffer: &mut BytesMut) -> Option<Bytes> {
    let length = buffer.get(1..HEAD)?;
    let length = u32::from_be_bytes(length.try_into().ok()?) as usize + HEAD;
    (buffer.len() >= length).then(|| buffer.split_to(length).freeze())
}

async fn pack(message: Bytes, coding: Coding) -> Result<Bytes, axum::Error> {
    if message.len() < SMALL {
        return Ok(message);
    }
    off_runtime(message.len(), move || {
        let Some(content) = message.get(HEAD..) else {
            return message;
        };
        let sample = content.get(..SAMPLE).unwrap_or(content);
        let is_smaller = |packed: &[u8], plain: &[u8]| packed.len() < plain.len() / 10 * 9;
        let Ok(first) = coding.pack(sample) else { return message };
        if !is_smaller(&first, sample) {
            return message;
        }
        let packed = if sample.len() == content.len() {
            Ok(first)
        } else {
            coding.pack(content)
        };
        match packed {
            Ok(packed) if is_smaller(&packed, content) => {
                let mut whole = BytesMut::from(&*head(1, packed.len()));
                whole.extend_from_slice(&packed);
                whole.freeze()
            }
            _ => message,
        }
    })
    .await
}
