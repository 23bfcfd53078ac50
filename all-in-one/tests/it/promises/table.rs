//! The table: promises of the comments, and the proof of each.

use prost::Message;

use super::{held, services, statistics, tei};

/// A promise with its proof.
pub struct Row {
    /// As in [`super::comments::all`].
    pub element: &'static str,
    /// As in [`super::comments::promises`].
    pub promise: &'static str,
    pub proof: Proof,
}

pub enum Proof {
    /// Each of these calls is refused as promised.
    Calls(Vec<Call>),
    /// Tests in other files: file and name.
    Held(&'static [(&'static str, &'static str)]),
}

/// A call with one message.
pub struct Call {
    pub path: String,
    pub message: Vec<u8>,
}

/// A call of `rpc`, for example `eval.v1.TaskService/Score`.
pub fn call(rpc: &str, message: impl Message) -> Call {
    Call {
        path: format!("/isomer.{rpc}"),
        message: message.encode_to_vec(),
    }
}

pub fn row(element: &'static str, promise: &'static str, calls: Vec<Call>) -> Row {
    Row {
        element,
        promise,
        proof: Proof::Calls(calls),
    }
}

pub fn rows() -> Vec<Row> {
    let elsewhere = held::ALL.iter().map(|(element, promise, tests)| Row {
        element,
        promise,
        proof: Proof::Held(tests),
    });
    services::rows()
        .into_iter()
        .chain(statistics::rows())
        .chain(tei::rows())
        .chain(elsewhere)
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
