//! Unary calls: the request's body is one message, and so is the answer's.

use axum::{
    Router,
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{HeaderName, HeaderValue, header, request::Parts};
use http_body_util::{BodyExt, Limited};
use tonic::{Code, Status};

use super::{
    BodyFailure, Call, Form,
    codec::{Encoding, Frame, framed, too_large},
    error::{error, status},
    metadata, send,
};
use crate::{
    Fault,
    budget::{PEAK_FACTOR, Reservation},
    off_runtime,
    refusals::body_fault,
};

pub(super) async fn answer(
    call: &Call,
    parts: Parts,
    encoding: Encoding,
    body: Body,
    grpc: Router,
) -> Result<Response, Fault> {
    let broken = BodyFailure::default();
    let memory = parts.extensions.get::<Reservation>().cloned();
    // The body is read when the service polls for it: after authentication, and within the limits
    // of all requests in flight.
    let message = message(call.clone(), encoding, body, memory.clone(), broken.clone());
    let response = send(parts, Body::from_stream(stream::once(message)), grpc).await;
    if let Some(fault) = broken.get() {
        return Err(fault.clone());
    }

    let (head, body) = response.into_parts();
    let collected = body
        .collect()
        .await
        .map_err(|error| Fault::internal(format!("the service broke off its answer: {error}")))?;
    let trailers = collected.trailers().cloned();
    let status = status(&head.headers, trailers.as_ref());
    let mut response = if status.code() == Code::Ok {
        let mut bytes = BytesMut::from(collected.to_bytes());
        let frame = Frame::take(&mut bytes, usize::MAX)?.filter(|_| bytes.is_empty());
        let frame = frame.ok_or_else(|| Fault::internal("the service's answer is not one message"))?;
        let message = frame.opened(Encoding::Identity, usize::MAX, None)?;
        let message = match call.form {
            Form::Proto => message,
            Form::Json => {
                if let Some(memory) = &memory {
                    // The factor covers the message, its decoded fields and its text.
                    memory.answer(message.len().saturating_mul(PEAK_FACTOR))?;
                }
                let call = call.clone();
                off_runtime(message.len(), move || call.answered(message)).await??
            }
        };
        if let Some(memory) = &memory {
            memory.answer(message.len())?;
        }
        let kind = match call.form {
            Form::Proto => HeaderValue::from_static("application/proto"),
            Form::Json => HeaderValue::from_static("application/json"),
        };
        ([(header::CONTENT_TYPE, kind)], message).into_response()
    } else {
        error(&status)
    };
    let headers = response.headers_mut();
    for (name, value) in metadata(&head.headers) {
        headers.append(name.clone(), value.clone());
    }
    for (name, value) in trailers.iter().flat_map(metadata) {
        if let Ok(name) = HeaderName::from_bytes(format!("trailer-{name}").as_bytes()) {
            headers.append(name, value.clone());
        }
    }
    Ok(response)
}

/// The bytes of a body. The memory for decoding them is reserved as they arrive, so that many
/// bodies at once are refused before they are read, not after.
async fn whole(body: Body, most: usize, memory: Option<&Reservation>) -> Result<Bytes, Fault> {
    let (mut body, mut bytes) = (Limited::new(body, most), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                too_large(most)
            } else {
                body_fault(error.as_ref())
            }
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if let Some(memory) = memory {
            memory.grow_to((bytes.len() + data.len()).saturating_mul(PEAK_FACTOR))?;
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// The caller's message in gRPC's frame.
async fn message(
    call: Call,
    encoding: Encoding,
    body: Body,
    memory: Option<Reservation>,
    broken: BodyFailure,
) -> Result<Bytes, axum::Error> {
    let read = async {
        let body = whole(body, call.most, memory.as_ref()).await?;
        off_runtime(body.len(), move || {
            let message = encoding.open(body, call.most, memory.as_ref())?;
            if let Some(memory) = &memory {
                memory.grow_to(call.decoded_size(&message))?;
            }
            Ok(framed(0, &call.to_proto(message)?))
        })
        .await?
    };
    read.await
        .map_err(|fault| axum::Error::new(Status::from(broken.get_or_init(|| fault).clone())))
}
