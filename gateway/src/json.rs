//! JSON answers. Large ones are serialised off the threads that serve requests, because an answer
//! with many vectors takes a long time.

use std::io;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, header};
use isomer_service_kit::off_runtime;
use serde::Serialize;

/// Maximum size that is serialised on the serving thread. Below it, serialising costs less than
/// handing over the work.
const SMALL: usize = 32 << 10;

/// A writer of up to [`SMALL`] bytes.
#[derive(Debug, Default)]
struct Small(Vec<u8>);

impl io::Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > SMALL {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer as JSON. A large one is serialised when its body is polled.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize + Send + 'static> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut small = Small::default();
        let body = match serde_json::to_writer(&mut small, &self.0) {
            Ok(()) => Body::from(small.0),
            // If the error is not the size, it recurs there and is reported.
            Err(_) => Body::from_stream(stream::once(self.written())),
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

impl<T: Serialize + Send + 'static> Json<T> {
    async fn written(self) -> io::Result<Bytes> {
        let written = off_runtime(usize::MAX, move || serde_json::to_vec(&self.0)).await;
        let json = written.map_err(io::Error::other)?.map_err(io::Error::other)?;
        Ok(Bytes::from(json))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http_body::Body as _;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_written_whole_with_its_type() {
        for numbers in [vec![1.5, 2.0], vec![0.25; SMALL]] {
            let expected = serde_json::to_vec(&numbers).unwrap();
            let response = Json(numbers).into_response();
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
            // The length is known only for a body that is already serialised.
            assert_eq!(response.body().size_hint().exact().is_some(), expected.len() <= SMALL);
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert_eq!(&body[..], expected);
        }
    }
}
