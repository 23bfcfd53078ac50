//! Errors of the client, as one type.

use std::{collections::HashMap, fmt, time::Duration};

use isomer_service_kit::Fault;
use tonic::{Code, Status};

use crate::{
    places,
    results::{Embeddings, ItemError},
    space::VectorSpace,
};

/// Reasons of errors that this client finds itself.
pub mod reasons {
    /// Vectors of two spaces where one is expected.
    pub const SPACE_MISMATCH: &str = "SPACE_MISMATCH";
    /// Texts of a list that have no vector.
    pub const TEXTS_FAILED: &str = "TEXTS_FAILED";
    /// A key or token that would travel in plain text to another machine.
    pub const SECRET_IN_PLAIN_TEXT: &str = "SECRET_IN_PLAIN_TEXT";
    /// The server's reason for refusing a client as old as this one.
    pub const CLIENT_TOO_OLD: &str = "CLIENT_TOO_OLD";
}

/// A call that failed, or an argument that cannot be meant. [`Error::failure`] has what all of them
/// have: code, reason, field, hint, when to try again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// An argument cannot be used.
    InvalidArgument(Box<Failure>),
    /// Nothing has that name.
    NotFound(Box<Failure>),
    /// No key or token, or one that is not in force.
    Unauthenticated(Box<Failure>),
    /// The key may not ask for this.
    PermissionDenied(Box<Failure>),
    /// Too much at once, too large, or a budget is used up.
    ResourceExhausted(Box<Failure>),
    /// The server cannot be reached.
    Unavailable(Box<Failure>),
    /// The time is over.
    DeadlineExceeded(Box<Failure>),
    /// The server serves no client as old as this one: [`Failure::metadata`] says under
    /// `oldest_client` which it serves.
    ClientTooOld(Box<Failure>),
    /// An answer that does not fit its request.
    BadAnswer(Box<Failure>),
    /// Texts of a list have no vector, while others have.
    TextsFailed(Box<TextsFailed>),
    /// Vectors of two spaces where one is expected. They must not be compared or stored together.
    SpaceMismatch(Box<SpaceMismatch>),
    /// Every other failure, by its code.
    Other(Box<Failure>),
}

/// Code, message and details of an error.
#[derive(Debug, Clone)]
pub struct Failure {
    fault: Fault,
    method: &'static str,
    attempts: u32,
}

/// Texts of a list that have no vector.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TextsFailed {
    /// Code, field and message of the first of them.
    pub failure: Failure,
    /// All of them.
    pub errors: Vec<ItemError>,
    /// The others, with rows of zeros for these; none where the call gives vectors of tokens.
    pub embeddings: Option<Embeddings>,
}

/// Vectors of two spaces.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SpaceMismatch {
    /// Code, field and message.
    pub failure: Failure,
    /// The space that is expected.
    pub expected: VectorSpace,
    /// The space of the vectors that came.
    pub found: VectorSpace,
    /// Names of the fields that differ, the digest last, which follows from the others.
    pub differing: Vec<&'static str>,
}

impl Failure {
    /// gRPC's code.
    pub fn code(&self) -> Code {
        self.fault.code
    }

    /// The stable reason, e.g. `UNKNOWN_ENCODER`; empty where there is none.
    pub fn reason(&self) -> &str {
        &self.fault.reason
    }

    /// The message: one sentence that names the field.
    pub fn message(&self) -> String {
        match &self.fault.field {
            Some(field) => isomer_service_kit::with_subject(field, &self.fault.message),
            None => self.fault.message.clone(),
        }
    }

    /// Path of the invalid field, e.g. `inputs[3].text`. An index refers to the
    /// caller's list, however it was split into requests.
    pub fn field(&self) -> Option<&str> {
        self.fault.field.as_deref()
    }

    /// Hint that says how to fix the error.
    pub fn hint(&self) -> Option<&str> {
        self.fault.hint.as_deref()
    }

    /// How long to wait before trying again makes sense; none where the server says nothing.
    pub fn retry_after(&self) -> Option<Duration> {
        self.fault.retry_after
    }

    /// Further facts, e.g. `scope`.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.fault.metadata
    }

    /// The rpc, e.g. `/isomer.encoder.v1.EncoderService/Encode`; empty where none was made.
    pub fn method(&self) -> &str {
        self.method
    }

    /// How often the call was made.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(crate) fn of(fault: Fault) -> Self {
        Self {
            fault,
            method: "",
            attempts: 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl Error {
    /// The details that all errors have.
    pub fn failure(&self) -> &Failure {
        match self {
            Self::InvalidArgument(failure)
            | Self::NotFound(failure)
            | Self::Unauthenticated(failure)
            | Self::PermissionDenied(failure)
            | Self::ResourceExhausted(failure)
            | Self::Unavailable(failure)
            | Self::DeadlineExceeded(failure)
            | Self::ClientTooOld(failure)
            | Self::BadAnswer(failure)
            | Self::Other(failure) => failure,
            Self::TextsFailed(failed) => &failed.failure,
            Self::SpaceMismatch(mismatch) => &mismatch.failure,
        }
    }

    /// gRPC's code.
    pub fn code(&self) -> Code {
        self.failure().code()
    }

    /// The stable reason; empty where there is none.
    pub fn reason(&self) -> &str {
        self.failure().reason()
    }

    /// The request's field that is to blame.
    pub fn field(&self) -> Option<&str> {
        self.failure().field()
    }

    /// Hint that says how to fix the error.
    pub fn hint(&self) -> Option<&str> {
        self.failure().hint()
    }

    /// When to try again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.failure().retry_after()
    }

    /// The error of a [`TokenSource`](crate::TokenSource) that has no token to give.
    pub fn no_token(message: impl Into<String>) -> Self {
        Fault::new(Code::Unauthenticated, "NO_TOKEN", message)
            .field("token")
            .hint("check the client's id, its secret and the issuer")
            .into()
    }

    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Fault::invalid(field, message).hint(hint).into()
    }

    /// An answer that does not fit its request.
    pub(crate) fn bad_answer(message: impl Into<String>) -> Self {
        let fault = Fault::new(Code::DataLoss, "BAD_ANSWER", message);
        Self::BadAnswer(Box::new(Failure::of(
            fault.hint("ask again; if it stays so, the server is at fault"),
        )))
    }

    pub(crate) fn from_status(status: &Status, method: &'static str, attempts: u32) -> Self {
        let mut fault = Fault::from_status(status);
        // A connection that ended under a call: hyper calls that cancelled, and no server has said
        // so, since what a server says has no source here.
        if status.code() == Code::Cancelled && std::error::Error::source(status).is_some() {
            fault.code = Code::Unavailable;
        }
        if fault.message.is_empty() {
            fault.message = isomer_service_kit::code_name(fault.code).to_owned();
        }
        Self::typed(Failure {
            fault,
            method,
            attempts,
        })
    }

    pub(crate) fn typed(failure: Failure) -> Self {
        let code = failure.code();
        let failure = Box::new(failure);
        if failure.reason() == reasons::CLIENT_TOO_OLD {
            return Self::ClientTooOld(failure);
        }
        match code {
            Code::InvalidArgument => Self::InvalidArgument(failure),
            Code::NotFound => Self::NotFound(failure),
            Code::Unauthenticated => Self::Unauthenticated(failure),
            Code::PermissionDenied => Self::PermissionDenied(failure),
            Code::ResourceExhausted => Self::ResourceExhausted(failure),
            Code::Unavailable => Self::Unavailable(failure),
            Code::DeadlineExceeded => Self::DeadlineExceeded(failure),
            _ => Self::Other(failure),
        }
    }

    /// The end of the time for a call.
    pub(crate) fn deadline(method: &'static str, attempts: u32) -> Self {
        let fault = Fault::new(
            Code::DeadlineExceeded,
            "DEADLINE_EXCEEDED",
            "the time for this call is over",
        );
        Self::typed(Failure {
            fault: fault.hint("give it more by Builder::timeout or Client::within, or ask for less at once"),
            method,
            attempts,
        })
    }

    pub(crate) fn fault(&self) -> &Fault {
        &self.failure().fault
    }

    /// The same error with places in lists counted from `start`: a request of several may hold any
    /// part of a list. An error raised before sending has the right index already.
    pub(crate) fn moved(mut self, start: usize) -> Self {
        let failure = match &mut self {
            Self::TextsFailed(_) | Self::SpaceMismatch(_) => return self,
            Self::InvalidArgument(failure)
            | Self::NotFound(failure)
            | Self::Unauthenticated(failure)
            | Self::PermissionDenied(failure)
            | Self::ResourceExhausted(failure)
            | Self::Unavailable(failure)
            | Self::DeadlineExceeded(failure)
            | Self::ClientTooOld(failure)
            | Self::BadAnswer(failure)
            | Self::Other(failure) => failure,
        };
        if start != 0 && !failure.method.is_empty() {
            let fault = &mut failure.fault;
            fault.message = places::moved(&fault.message, start);
            fault.field = fault.field.as_deref().map(|field| places::moved(field, start));
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure().fmt(f)
    }
}

impl std::error::Error for Error {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::typed(Failure::of(fault))
    }
}

/// For programs that have errors of one kind for clients and servers, such as `isomer` itself.
impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        error.fault().clone()
    }
}
