//! Errors in Connect's form.

use axum::response::{IntoResponse, Response};
use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use prost::Message;
use serde_json::{Value, json};
use tonic::{Code, Status};

/// The status of a gRPC answer, from its trailers, or from its headers if it has no body.
pub(super) fn status(headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Status {
    trailers
        .and_then(Status::from_header_map)
        .or_else(|| Status::from_header_map(headers))
        .unwrap_or_else(|| Status::unknown("the service ended its answer without a status"))
}

/// The name of a code, and the matching HTTP status.
fn named(code: Code) -> (&'static str, u16) {
    match code {
        Code::Ok | Code::Unknown => ("unknown", 500),
        Code::Cancelled => ("canceled", 499),
        Code::InvalidArgument => ("invalid_argument", 400),
        Code::DeadlineExceeded => ("deadline_exceeded", 504),
        Code::NotFound => ("not_found", 404),
        Code::AlreadyExists => ("already_exists", 409),
        Code::PermissionDenied => ("permission_denied", 403),
        Code::ResourceExhausted => ("resource_exhausted", 429),
        Code::FailedPrecondition => ("failed_precondition", 400),
        Code::Aborted => ("aborted", 409),
        Code::OutOfRange => ("out_of_range", 400),
        Code::Unimplemented => ("unimplemented", 501),
        Code::Internal => ("internal", 500),
        Code::Unavailable => ("unavailable", 503),
        Code::DataLoss => ("data_loss", 500),
        Code::Unauthenticated => ("unauthenticated", 401),
    }
}

/// The name of a code other than success.
pub(crate) fn code_name(code: Code) -> &'static str {
    named(code).0
}

/// A failure as JSON: code, message, and gRPC's details, each with its type and bytes.
pub(super) fn json(status: &Status) -> Value {
    let (code, _) = named(status.code());
    let mut error = json!({ "code": code, "message": status.message() });
    let details = tonic_types::pb::Status::decode(status.details())
        .map(|told| told.details)
        .unwrap_or_default();
    if !details.is_empty() {
        let one = |detail: prost_types::Any| {
            let kind = detail.type_url.rsplit('/').next().unwrap_or_default();
            json!({ "type": kind, "value": BASE64_STANDARD_NO_PAD.encode(&detail.value) })
        };
        error["details"] = details.into_iter().map(one).collect();
    }
    error
}

/// The answer to a unary call that failed.
pub(crate) fn error(status: &Status) -> Response {
    let (_, http) = named(status.code());
    let http = StatusCode::from_u16(http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (http, json(status).to_string()).into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
