//! Messages in envelopes, in both directions. The answer's last envelope holds the status of the
//! call.

use axum::{
    Router,
    body::Body,
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use bytes::{Bytes, BytesMut};
use futures::{Stream, stream};
use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use tonic::{Code, Status};

use super::{
    BodyFailure, Call, Form,
    codec::{END, Encoding, Frame, framed},
    error::{self, status},
    metadata, send,
};
use crate::{
    Fault,
    budget::{PEAK_FACTOR, Reservation},
    off_runtime,
    refusals::body_fault,
};

pub(super) async fn answer(call: &Call, parts: Parts, encoding: Encoding, body: Body, grpc: Router) -> Response {
    let broken = BodyFailure::default();
    let memory = parts.extensions.get::<Reservation>().cloned();
    let messages = Body::from_stream(requests(call.clone(), encoding, body, memory, broken.clone()));
    let response = send(parts, messages, grpc).await;

    let (head, body) = response.into_parts();
    let mut answered = started(
        call,
        Body::from_stream(answers(call.clone(), head.headers.clone(), body, broken)),
    );
    for (name, value) in metadata(&head.headers) {
        answered.headers_mut().append(name.clone(), value.clone());
    }
    answered
}

/// The answer to a call that failed before its answer began.
pub(super) fn ended(call: &Call, fault: Fault) -> Response {
    started(call, Body::from(end(&fault.into(), None)))
}

fn started(call: &Call, body: Body) -> Response {
    let kind = match call.form {
        Form::Proto => HeaderValue::from_static("application/connect+proto"),
        Form::Json => HeaderValue::from_static("application/connect+json"),
    };
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

/// The frames of a body, one at a time.
struct Frames {
    body: Body,
    buffer: BytesMut,
    trailers: Option<HeaderMap>,
    most: usize,
    /// For the caller's messages: the memory of a message is reserved as it arrives.
    memory: Option<Reservation>,
}

impl Frames {
    fn new(body: Body, most: usize, memory: Option<Reservation>) -> Self {
        Self {
            body,
            memory,
            buffer: BytesMut::new(),
            trailers: None,
            most,
        }
    }

    /// The next frame; `None` at the end of the body.
    async fn next(&mut self) -> Result<Option<Frame>, Fault> {
        loop {
            if let Some(frame) = Frame::take(&mut self.buffer, self.most)? {
                return Ok(Some(frame));
            }
            match self.body.frame().await {
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(Fault::invalid("body", "ends within a message")),
                Some(Err(error)) => return Err(body_fault(&error)),
                Some(Ok(part)) => match part.into_data() {
                    Ok(data) => {
                        self.buffer.extend_from_slice(&data);
                        if let Some(memory) = &self.memory {
                            memory.grow_to(self.buffer.len().saturating_mul(PEAK_FACTOR))?;
                        }
                    }
                    Err(part) => self.trailers = part.into_trailers().ok(),
                },
            }
        }
    }
}

/// The caller's messages in gRPC frames.
fn requests(
    call: Call,
    encoding: Encoding,
    body: Body,
    memory: Option<Reservation>,
    broken: BodyFailure,
) -> impl Stream<Item = Result<Bytes, axum::Error>> {
    let frames = Frames::new(body, call.most, memory);
    stream::try_unfold((call, frames, broken), move |(call, mut frames, broken)| async move {
        let next = async {
            match frames.next().await? {
                Some(frame) if frame.flags & END == 0 => {
                    let (call, bytes, memory) = (call.clone(), frame.message.len(), frames.memory.clone());
                    let read = move || {
                        let message = frame.opened(encoding, call.most, memory.as_ref())?;
                        if let Some(memory) = &memory {
                            memory.grow_to(call.decoded_size(&message))?;
                        }
                        call.to_proto(message)
                    };
                    let message = off_runtime(bytes, read).await??;
                    Ok::<_, Fault>(Some(framed(0, &message)))
                }
                _ => Ok(None),
            }
        };
        // The handler gets the fault as its status.
        match next.await {
            Ok(next) => Ok(next.map(|message| (message, (call, frames, broken)))),
            Err(fault) => {
                let failure = Status::from(broken.get_or_init(|| fault).clone());
                Err(axum::Error::new(failure))
            }
        }
    })
}

/// The service's answer in envelopes. The last envelope holds the status of the call.
fn answers(
    call: Call,
    headers: HeaderMap,
    body: Body,
    broken: BodyFailure,
) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
    let frames = Frames::new(body, usize::MAX, None);
    stream::unfold(Some((call, headers, frames, broken)), |state| async move {
        let (call, headers, mut frames, broken) = state?;
        let next = async {
            let Some(frame) = frames.next().await? else {
                return Ok(None);
            };
            let (call, bytes) = (call.clone(), frame.message.len());
            let write = move || call.answered(frame.opened(Encoding::Identity, usize::MAX, None)?);
            off_runtime(bytes, write).await?.map(Some)
        };
        Some(match next.await {
            Ok(Some(message)) => (Ok(framed(0, &message)), Some((call, headers, frames, broken))),
            Ok(None) => {
                let mut status = status(&headers, frames.trailers.as_ref());
                if let (Code::Ok, Some(fault)) = (status.code(), broken.get()) {
                    status = fault.clone().into();
                }
                (Ok(end(&status, frames.trailers.as_ref())), None)
            }
            Err(fault) => (Ok(end(&fault.into(), None)), None),
        })
    })
}

/// The last envelope, with the status.
fn end(status: &Status, trailers: Option<&HeaderMap>) -> Bytes {
    let mut failure = Map::new();
    if status.code() != Code::Ok {
        failure.insert("error".to_owned(), error::json(status));
    }
    let mut all: Map<String, Value> = Map::new();
    for (name, value) in trailers.into_iter().flat_map(metadata) {
        let values = all.entry(name.as_str()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(values) = values {
            values.push(text(name, value).into());
        }
    }
    if !all.is_empty() {
        failure.insert("metadata".to_owned(), Value::Object(all));
    }
    framed(END, Value::Object(failure).to_string().as_bytes())
}

fn text(name: &HeaderName, value: &HeaderValue) -> String {
    match value.to_str() {
        Ok(text) => text.to_owned(),
        // Only values of `-bin` headers are not text, and those are in base64 already. Any other
        // value that is not text is also sent in base64.
        Err(_) => {
            tracing::debug!(%name, "a trailer is not text");
            BASE64_STANDARD_NO_PAD.encode(value.as_bytes())
        }
    }
}
