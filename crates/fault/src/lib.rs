//! The common form of failures for all services, and its mapping to [`tonic::Status`].
//!
//! A crate's own error enum (`thiserror`) converts into a [`Fault`]. A [`Fault`] converts into a
//! `Status` with `google.rpc.ErrorInfo` (domain `isomer`), `BadRequest` if a field is to blame, and
//! `RetryInfo` if a retry makes sense (AIP-193). Clients use the reverse, [`Fault::from_status`],
//! to show an error to a person.

use std::{collections::HashMap, fmt, time::Duration};

use http::StatusCode;
use isomer_config::ConfigError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Domain of every `google.rpc.ErrorInfo` we send.
pub const DOMAIN: &str = "isomer";

/// A failure in the form that clients receive: the problem, the field, the hint, and the time of a
/// retry.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// gRPC code.
    pub code: Code,
    /// Stable UPPER_SNAKE_CASE reason, e.g. `UNKNOWN_ENCODER`.
    pub reason: String,
    /// The problem, in one sentence.
    pub message: String,
    /// Path of the request field to blame, e.g. `inputs[3].text`.
    pub field: Option<String>,
    /// The hint to the caller.
    pub hint: Option<String>,
    /// Time until a retry makes sense.
    pub retry_after: Option<Duration>,
    /// Further facts, e.g. `encoder_id` → the requested id.
    pub metadata: HashMap<String, String>,
}

impl Fault {
    /// A fault with a code, a stable reason and a sentence.
    pub fn new(code: Code, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            field: None,
            hint: None,
            retry_after: None,
            metadata: HashMap::new(),
        }
    }

    /// `INVALID_ARGUMENT` on a request field.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, "INVALID_ARGUMENT", message).field(field)
    }

    pub fn not_found(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, reason, message)
    }

    /// `FAILED_PRECONDITION`: the request is valid, but something it depends on is not.
    pub fn precondition(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, reason, message)
    }

    /// `RESOURCE_EXHAUSTED` with a retry hint.
    pub fn overloaded(message: impl Into<String>, retry_after: Duration) -> Self {
        Self::new(Code::ResourceExhausted, "OVERLOADED", message).retry_after(retry_after)
    }

    /// `UNAVAILABLE`: a dependency cannot be reached.
    pub fn unavailable(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, reason, message)
    }

    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, "NOT_SERVED_YET", message)
    }

    /// `INTERNAL`: a defect of ours, not the caller's.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, "INTERNAL", message)
    }

    /// Names the request field to blame.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the time until a retry.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Message and hint, for a reader who did not write the request.
    pub fn without_field(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{} ({hint})", self.message),
            None => self.message.clone(),
        }
    }

    /// Truncates the texts to the length of an answer, because they may repeat a caller's input of
    /// any length.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.message = within(self.message, STATUS_MESSAGE_BYTES);
        self.hint = self.hint.map(|hint| within(hint, STATUS_MESSAGE_BYTES / 3));
        self.field = self.field.map(|field| within(field, STATUS_MESSAGE_BYTES / 4));
        for value in self.metadata.values_mut() {
            *value = within(std::mem::take(value), STATUS_MESSAGE_BYTES / 4);
        }
        self
    }

    /// The equivalent HTTP status: HTTP's own if it has one for the reason, else the mapping of
    /// `google/rpc/code.proto`.
    pub fn http_status(&self) -> StatusCode {
        match self.reason.as_str() {
            "REQUEST_TOO_LARGE" => return StatusCode::PAYLOAD_TOO_LARGE,
            "UNSUPPORTED_MEDIA_TYPE" => return StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "METHOD_NOT_ALLOWED" => return StatusCode::METHOD_NOT_ALLOWED,
            "SLOW_REQUEST" => return StatusCode::REQUEST_TIMEOUT,
            _ => {}
        }
        match self.code {
            Code::Ok => StatusCode::OK,
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Converts a status from any server back to a fault.
    pub fn from_status(status: &Status) -> Self {
        let details = status.get_error_details();
        let mut fault = Self::new(status.code(), "", status.message());
        if let Some(info) = details.error_info() {
            fault.reason.clone_from(&info.reason);
            fault.metadata.clone_from(&info.metadata);
            fault.hint = fault.metadata.remove("mend");
        }
        if let Some(violation) = details.bad_request().and_then(|b| b.field_violations.first()) {
            if let Some(message) = without_subject(&fault.message, &violation.field) {
                fault.message = message.to_owned();
            }
            fault.field = Some(violation.field.clone());
        }
        fault.retry_after = details.retry_info().and_then(|r| r.retry_delay);
        fault
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.without_field();
        match &self.field {
            Some(field) => f.write_str(&with_subject(field, &text)),
            None => f.write_str(&text),
        }
    }
}

impl std::error::Error for Fault {}

/// Maximum bytes of the message in a status. A status travels in HTTP/2 trailers, which contain the
/// message three times (with three characters for each byte outside ASCII; in `google.rpc.Status`;
/// in the field's violation). Clients accept no more than 8 KiB of trailers (gRPC's own libraries)
/// or 16 KiB (hyper), so a longer message would reach them as a broken connection.
const STATUS_MESSAGE_BYTES: usize = 1_200;

/// Words with which a message follows its field: `inputs[3].text is empty`.
const VERBS: [&str; 14] = [
    "is", "are", "has", "have", "holds", "names", "needs", "should", "must", "begins", "ends", "does", "contains",
    "carries",
];

/// A message that names its field. Many clients show only the code and message of a status, but not
/// its details.
pub fn with_subject(field: &str, message: &str) -> String {
    let word = message.split_whitespace().next().unwrap_or_default();
    if VERBS.contains(&word) {
        format!("{field} {message}")
    } else {
        format!("{field}: {message}")
    }
}

/// The message of [`with_subject`] without its field; `None` if it does not begin with the field.
fn without_subject<'a>(message: &'a str, field: &str) -> Option<&'a str> {
    let rest = message.strip_prefix(field).filter(|_| !field.is_empty())?;
    rest.strip_prefix(": ").or_else(|| rest.strip_prefix(' '))
}

/// `text`, or its beginning with the number of omitted bytes.
fn within(text: String, bytes: usize) -> String {
    if text.len() <= bytes {
        return text;
    }
    let kept = text.floor_char_boundary(bytes);
    format!("{}… ({} more bytes)", &text[..kept], text.len() - kept)
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        let fault = fault.bounded();
        let mut details = ErrorDetails::new();
        let mut metadata = fault.metadata;
        if let Some(hint) = &fault.hint {
            metadata.insert("mend".into(), hint.clone());
        }
        // A status from another server without a reason still has its code.
        let reason = match fault.reason.as_str() {
            "" => code_name(fault.code),
            reason => reason,
        };
        details.set_error_info(reason, DOMAIN, metadata);
        if let Some(field) = &fault.field {
            let description = match &fault.hint {
                Some(hint) => format!("{} ({hint})", fault.message),
                None => fault.message.clone(),
            };
            details.add_bad_request_violation(field, description);
        }
        if fault.retry_after.is_some() {
            details.set_retry_info(fault.retry_after);
        }
        let message = match &fault.field {
            Some(field) => with_subject(field, &fault.message),
            None => fault.message,
        };
        Status::with_error_details(fault.code, message, details)
    }
}

impl From<ConfigError> for Fault {
    fn from(error: ConfigError) -> Self {
        let message = match error.origin() {
            Some(origin) => format!("{}, in {origin}", error.message()),
            None => error.message().to_owned(),
        };
        let mut fault = Self::new(Code::InvalidArgument, "INVALID_CONFIGURATION", message);
        fault.field = Some(error.field().to_owned()).filter(|field| !field.is_empty());
        fault.hint = Some(error.hint().to_owned()).filter(|hint| !hint.is_empty());
        fault
    }
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::from_status(&status)
    }
}

/// The canonical name of a code, e.g. `RESOURCE_EXHAUSTED`.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_error_becomes_a_fault_on_the_same_field() {
        let error = ConfigError::new("max_items", "is 0", "give at least 1").within("nested");
        let fault = Fault::from(error);
        assert_eq!(fault.field.as_deref(), Some("nested.max_items"));
        assert_eq!(fault.reason, "INVALID_CONFIGURATION");
        assert_eq!(fault.message, "is 0");
        assert_eq!(fault.hint.as_deref(), Some("give at least 1"));
        let fault = Fault::from(ConfigError::new("", "is not TOML", ""));
        assert_eq!((fault.field, fault.hint), (None, None));
    }
}
