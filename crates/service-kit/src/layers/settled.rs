//! Answers whose handler has ended. Memory for their bodies is reserved before their heads are
//! sent.

use axum::{body::Body, response::Response};
use futures::{FutureExt, StreamExt, stream};
use http_body_util::{BodyExt, BodyStream, StreamBody};

use crate::{Fault, budget::Reservation};

/// The answer to a request whose handler has ended, with memory reserved for its body. The first
/// part of a body of unknown length is made now, because a refusal is impossible later. Probes are
/// answered however little memory is left.
pub(super) async fn settled(response: Response, memory: &Reservation, is_probe: bool) -> Result<Response, Fault> {
    let reserve = |bytes| match memory.answer(bytes) {
        Err(fault) if !is_probe => Err(fault),
        _ => Ok(()),
    };
    memory.clear();
    let (parts, mut body) = response.into_parts();
    if let Some(bytes) = http_body::Body::size_hint(&body).exact() {
        reserve(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        return Ok(Response::from_parts(parts, body));
    }
    let Some(first) = body.frame().await else {
        return Ok(Response::from_parts(parts, Body::empty()));
    };
    let bytes = first.as_ref().ok().and_then(|frame| Some(frame.data_ref()?.len()));
    reserve(bytes.unwrap_or_default())?;
    let mut frames = vec![first];
    match (body.frame().now_or_never(), frames.as_slice()) {
        // The length of a complete body is known.
        (Some(None), [Ok(only)]) if only.is_data() => {
            let only = frames.pop().and_then(|frame| frame.ok()?.into_data().ok());
            return Ok(Response::from_parts(parts, Body::from(only.unwrap_or_default())));
        }
        (next, _) => frames.extend(next.flatten()),
    }
    let whole = StreamBody::new(stream::iter(frames).chain(BodyStream::new(body)));
    Ok(Response::from_parts(parts, Body::new(whole)))
}
