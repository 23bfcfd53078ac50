//! Errors in OpenAI's shape.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use isomer_service_kit::{Fault, with_subject};
use serde_json::json;
use tonic::{Code, Status};

/// An error in the format that OpenAI's clients read:
/// `{"error": {"message", "type", "param", "code"}}`.
#[derive(Debug)]
pub(crate) struct ApiError {
    fault: Fault,
    /// Whether the field already has its name in the HTTP request.
    of_body: bool,
}

impl ApiError {
    /// Sets the request field that caused the error.
    pub(super) fn at(self, param: &str) -> Self {
        self.fault.field(param).into()
    }

    /// An error about a field of a body, under its name there.
    pub(super) fn of_body(fault: Fault) -> Self {
        Self { fault, of_body: true }
    }

    pub(super) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Fault::invalid(param, message).into()
    }

    /// The underlying fault, for an answer in another shape.
    pub(crate) fn into_fault(self) -> Fault {
        self.fault
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            fault: self.fault.hint(hint),
            ..self
        }
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        Self { fault, of_body: false }
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        Fault::from_status(&status).into()
    }
}

/// OpenAI's name for a field of the gRPC message: `inputs[3].text` is `input[3]`.
fn param(field: &str) -> String {
    let names = [
        ("encoder_id", "model"),
        ("inputs", "input"),
        ("items", "input"),
        ("evidence", "augment.evidence"),
    ];
    for (ours, theirs) in names {
        let Some(rest) = field.strip_prefix(ours) else { continue };
        if rest.is_empty() || rest.starts_with(['[', '.']) {
            let rest = rest
                .trim_end_matches(".text")
                .trim_end_matches(".token_ids")
                .trim_end_matches(".scores");
            return format!("{theirs}{rest}");
        }
    }
    match field.strip_prefix("spec.") {
        Some(rest) => format!("augment.{rest}"),
        None => field.to_owned(),
    }
}

/// The kind of an error, from the HTTP status.
fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let fault = self.fault.bounded();
        let status = match fault.code {
            // Over HTTP, a request for something that the encoder cannot do counts as a bad
            // request.
            Code::Unimplemented if fault.field.is_some() => http::StatusCode::BAD_REQUEST,
            _ => fault.http_status(),
        };
        let field = match self.of_body {
            true => fault.field.clone(),
            false => fault.field.as_deref().map(param),
        };
        let mut message = match &field {
            Some(field) => with_subject(field, &fault.message),
            None => fault.message,
        };
        if let Some(hint) = &fault.hint {
            message = format!("{message} ({hint})");
        }
        let code = match fault.reason.to_ascii_lowercase() {
            reason if reason.is_empty() => None,
            reason if reason == "unknown_encoder" => Some("model_not_found".to_owned()),
            reason => Some(reason),
        };
        let body = json!({
            // Voyage's clients read this field.
            "detail": message,
            "error": {
                "message": message,
                "type": kind(status.as_u16()),
                "param": field,
                "code": code,
            }
        });
        let mut response = (status, Json(body)).into_response();
        if let Some(after) = fault.retry_after {
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

    #[tokio::test]
    async fn an_error_does_not_repeat_a_long_request() {
        let long = "x".repeat(1 << 20);
        let fault = Fault::invalid(long.clone(), long.clone()).hint(long);
        let response = ApiError::from(fault).into_response();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(body.len() < 8 << 10, "{} bytes", body.len());
    }

    #[test]
    fn fields_have_the_names_of_the_http_request() {
        assert_eq!(param("encoder_id"), "model");
        assert_eq!(param("inputs"), "input");
        assert_eq!(param("inputs[3].text"), "input[3]");
        assert_eq!(param("items[0].text"), "input[0]");
        assert_eq!(param("spec.sources[1].generator_id"), "augment.sources[1].generator_id");
        assert_eq!(param("evidence[1].scores"), "augment.evidence[1]");
        assert_eq!(param("dimensions"), "dimensions");
        assert_eq!(param("inputs_of_ours"), "inputs_of_ours");
    }
}
