//! Errors in the shape of each API.

use std::marker::PhantomData;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use isomer_service_kit::{Fault, with_subject};
use serde_json::Value;
use tonic::Code;

use crate::openai::ApiError;

/// The shape of an API's errors.
pub(super) trait Dialect: Sized {
    /// The API's names for our fields, e.g. `inputs` and `texts`.
    const FIELDS: &'static [(&'static str, &'static str)];

    fn body(message: String, fault: &Fault) -> Value;

    /// An error in the format that the API's clients read.
    fn respond(fault: Fault) -> Response {
        DialectError::<Self>::from(fault).into_response()
    }
}

/// An error in the shape of an API.
#[derive(Debug)]
pub(super) struct DialectError<D>(Fault, PhantomData<D>);

impl<D: Dialect> From<Fault> for DialectError<D> {
    fn from(mut fault: Fault) -> Self {
        fault.field = fault.field.map(|field| named(D::FIELDS, &field));
        Self(fault.bounded(), PhantomData)
    }
}

/// The error of a body, whose fields already have the API's names.
impl<D> From<ApiError> for DialectError<D> {
    fn from(error: ApiError) -> Self {
        Self(error.into_fault().bounded(), PhantomData)
    }
}

impl<D: Dialect> DialectError<D> {
    /// A field of the request that has an invalid value.
    pub(super) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self(Fault::invalid(field, message).bounded(), PhantomData)
    }

    /// The message with its field in front and the hint after it: these shapes have no separate
    /// fields for them.
    fn message(&self) -> String {
        let Self(fault, _) = self;
        let mut message = match &fault.field {
            Some(field) => with_subject(field, &fault.message),
            None => fault.message.clone(),
        };
        if let Some(hint) = &fault.hint {
            message = format!("{message} ({hint})");
        }
        message
    }
}

/// A field under the API's own name: `inputs[3].text` is `texts[3]` where `inputs` is called
/// `texts`.
pub(super) fn named(fields: &[(&str, &str)], field: &str) -> String {
    for (ours, theirs) in fields {
        let Some(rest) = field.strip_prefix(ours) else { continue };
        if rest.is_empty() || rest.starts_with(['[', '.']) {
            return format!(
                "{theirs}{}",
                rest.trim_end_matches(".text").trim_end_matches(".token_ids")
            );
        }
    }
    field.to_owned()
}

impl<D: Dialect> IntoResponse for DialectError<D> {
    fn into_response(self) -> Response {
        let status = match self.0.code {
            // Over HTTP, a request for something that the encoder cannot do counts as a bad
            // request.
            Code::Unimplemented if self.0.field.is_some() => StatusCode::BAD_REQUEST,
            _ => self.0.http_status(),
        };
        let body = D::body(self.message(), &self.0);
        let mut response = (status, Json(body)).into_response();
        if let Some(after) = self.0.retry_after {
            let seconds = HeaderValue::from(after.as_secs_f64().ceil() as u64);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Plain;

    impl Dialect for Plain {
        const FIELDS: &'static [(&'static str, &'static str)] = &[];

        fn body(message: String, fault: &Fault) -> Value {
            serde_json::json!({ "message": message, "field": fault.field })
        }
    }

    #[tokio::test]
    async fn an_error_does_not_repeat_a_long_request() {
        let long = "x".repeat(1 << 20);
        let fault = Fault::invalid(long.clone(), long.clone()).hint(long);
        let response = DialectError::<Plain>::from(fault).into_response();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(body.len() < 8 << 10, "{} bytes", body.len());
    }
}
