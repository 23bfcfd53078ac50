//! JSON answers, written away from the threads that serve requests: one with many vectors takes a while.

use std::io;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, header};
use serde::Serialize;

/// An answer as JSON. It is written when its body is asked for.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize + Send + 'static> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let written = async move {
            let written = tokio::task::spawn_blocking(move || serde_json::to_vec(&self.0)).await;
            let json = written.map_err(io::Error::other)?.map_err(io::Error::other)?;
            Ok::<_, io::Error>(Bytes::from(json))
        };
        let mut response = Response::new(Body::from_stream(stream::once(written)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn an_answer_is_written_whole_with_its_type() {
        let response = Json(vec![1.5, 2.0]).into_response();
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        let body = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
        assert_eq!(&body[..], b"[1.5,2.0]");
    }
}
