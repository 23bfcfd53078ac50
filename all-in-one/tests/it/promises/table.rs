//! Calls that provoke promised errors, and valid calls of the same rpcs.

use prost::Message;

use super::{services, statistics, tei};

/// A promise, as in [`super::comments::promises`]. Each of the calls is refused so.
pub struct Row {
    pub promise: &'static str,
    pub calls: Vec<Call>,
}

/// A call with one message.
pub struct Call {
    pub path: String,
    pub message: Vec<u8>,
    /// The field that the error names, if the promise leaves it out.
    pub field: Option<&'static str>,
}

/// A call of `rpc`, for example `eval.v1.TaskService/Score`.
pub fn call(rpc: &str, message: impl Message) -> Call {
    Call {
        path: format!("/isomer.{rpc}"),
        message: message.encode_to_vec(),
        field: None,
    }
}

/// Calls whose errors name this field, where the promise leaves it out.
pub fn naming(field: &'static str, calls: Vec<Call>) -> Vec<Call> {
    let call = |call| Call {
        field: Some(field),
        ..call
    };
    calls.into_iter().map(call).collect()
}

pub fn row(promise: &'static str, calls: Vec<Call>) -> Row {
    Row { promise, calls }
}

pub fn rows() -> Vec<Row> {
    services::rows()
        .into_iter()
        .chain(statistics::rows())
        .chain(tei::rows())
        .collect()
}

/// A valid request for each rpc for which [`rows`] contains a refused one.
pub fn honest() -> Vec<Call> {
    services::honest()
        .into_iter()
        .chain(statistics::honest())
        .chain(tei::honest())
        .collect()
}
