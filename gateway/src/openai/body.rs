//! Bodies of requests: their media type, their JSON, and errors that name the field.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
};
use http::{HeaderMap, StatusCode, header};
use isomer_service_kit::{Fault, body_fault, off_runtime};
use serde::de::{DeserializeOwned, IgnoredAny};
use tonic::Code;

use super::ApiError;
use crate::dialects::fields::Fields;

/// Maximum number of bytes of an error about a body. It may repeat a value that is as long as the
/// body.
const LONGEST_MESSAGE: usize = 500;

/// A request body that is parsed as JSON, without fields that would change the result and are not
/// supported.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Fields + Send + 'static> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let declared = MediaType::of(request.headers())?;
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let mut fault = body_fault(&rejection);
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                "REQUEST_TOO_LARGE".clone_into(&mut fault.reason);
            }
            ApiError::from(fault)
        })?;
        declared.check(&bytes)?;
        let read: Result<T, Fault> = off_runtime(bytes.len(), move || read(&bytes)).await?;
        let read = read.and_then(|read| read.check().map(|()| read));
        read.map(Self).map_err(ApiError::of_body)
    }
}

/// The media type that the headers declare for a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MediaType {
    Json,
    /// No type, or the one that curl sends by default: the body shows whether it is JSON. A page of
    /// another origin can send both without a CORS preflight, but not without an `Origin` header.
    Undeclared,
}

impl MediaType {
    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let given = headers.get(header::CONTENT_TYPE).map(|value| value.to_str());
        let given = match given {
            None => "",
            Some(text) => text.unwrap_or("?"),
        };
        let essence = given.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/json") {
            return Ok(Self::Json);
        }
        let is_undeclared = essence.is_empty() || essence.eq_ignore_ascii_case("application/x-www-form-urlencoded");
        if is_undeclared && !headers.contains_key(header::ORIGIN) {
            return Ok(Self::Undeclared);
        }
        Err(unsupported(&format!("the body has the media type {given:?}")))
    }

    fn check(self, body: &[u8]) -> Result<(), ApiError> {
        match self {
            Self::Undeclared if !body.trim_ascii_start().starts_with(b"{") => {
                Err(unsupported("the body has no media type and is not a JSON object"))
            }
            _ => Ok(()),
        }
    }
}

fn unsupported(what: &str) -> ApiError {
    let fault = Fault::new(
        Code::InvalidArgument,
        "UNSUPPORTED_MEDIA_TYPE",
        format!("{what}; should be application/json"),
    );
    ApiError::from(fault.hint("send the header `Content-Type: application/json`"))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    // The path to a field is tracked only if the body cannot be read: most bodies can.
    if let Ok(read) = serde_json::from_slice(body) {
        return Ok(read);
    }
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
        let message = format!("the body is not JSON: {error}");
        return Err(Fault::new(Code::InvalidArgument, "INVALID_JSON", message));
    }
    let error = match serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(body)) {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    let path = error.path().to_string();
    let mut message = error.into_inner().to_string();
    message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
    Err(unreadable(path, &message))
}

/// The error about a field, from serde's message. serde has no other form of it.
fn unreadable(path: String, message: &str) -> Fault {
    let message = match message.rsplit_once(" at line ") {
        Some((message, _)) => message,
        None => message,
    };
    let fault = |field: String, message: String| {
        let fault = Fault::new(Code::InvalidArgument, "INVALID_JSON", message);
        // The path of the body itself.
        if field == "." { fault } else { fault.field(field) }
    };
    if let Some(name) = quoted(message, "missing field ") {
        let parent = if path == "." { String::new() } else { path + "." };
        return fault(format!("{parent}{name}"), "is missing".to_owned());
    }
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let known = rest.split_once(", expected ").map_or("", |(_, known)| known);
        let known = known.trim_start_matches("one of ");
        let unknown = fault(path, "is not a field of this request".to_owned());
        return if known.is_empty() {
            unknown
        } else {
            unknown.hint(format!("its fields are {known}"))
        };
    }
    if let Some(name) = quoted(message, "duplicate field ") {
        return fault(name.to_owned(), "is given twice".to_owned());
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let (given, known) = rest.split_once(", expected ").unwrap_or((rest, "another"));
        return fault(
            path,
            format!("is {given}, should be {}", known.trim_start_matches("one of ")),
        );
    }
    let mismatch = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|kind| message.strip_prefix(kind)?.split_once(", expected "));
    if let Some((found, wanted)) = mismatch {
        let (found, wanted) = (found_words(found), wanted_words(wanted));
        return fault(path, format!("should be {wanted}, found {found}"));
    }
    // serde_json's answer where a name of a list is expected.
    if message == "expected value" {
        return fault(path, "should be a text, found another kind of value".to_owned());
    }
    fault(path, message.to_owned())
}

/// The name in backticks after a beginning of a message.
fn quoted<'a>(message: &'a str, beginning: &str) -> Option<&'a str> {
    message.strip_prefix(beginning)?.strip_prefix('`')?.split('`').next()
}

/// A type that serde expects, in words.
fn wanted_words(wanted: &str) -> &str {
    match wanted {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        structure if structure.starts_with("struct ") => "an object",
        words => words,
    }
}

/// A value that serde found, in words.
fn found_words(found: &str) -> String {
    let kinds = [
        ("string ", "a text"),
        ("integer `", "the number "),
        ("floating point `", "the number "),
        ("boolean `", ""),
        ("sequence", "a list"),
        ("map", "an object"),
    ];
    for (kind, words) in kinds {
        let Some(value) = found.strip_prefix(kind) else {
            continue;
        };
        return match kind.ends_with('`') {
            true => format!("{words}{}", value.trim_end_matches('`')),
            false => words.to_owned(),
        };
    }
    found.to_owned()
}
