//! Tells whether a provider answered a call that failed.

use isomer_service_kit::{Fault, code_name};
use tonic::{Code, Status};

/// Key of a fault's metadata: the HTTP status of the provider's answer.
pub(crate) const HTTP_STATUS: &str = "http_status";
/// Key of a fault's metadata: the gRPC status of the provider's answer.
const GRPC_STATUS: &str = "grpc_status";
/// Key of a fault's metadata: no connection was made, so the request was not sent.
const UNSENT: &str = "unsent";

/// Marks a fault of a connection that was never made.
pub(crate) fn unsent(fault: Fault) -> Fault {
    fault.with(UNSENT, "true")
}

/// Key of a fault's metadata: an answer arrived and could not be read, so the provider has done its
/// work.
const UNREAD: &str = "unread";

/// Marks a fault of this process in reading an answer that arrived.
pub(crate) fn unread(fault: Fault) -> Fault {
    fault.with(UNREAD, "true")
}

pub(crate) fn is_unread(fault: &Fault) -> bool {
    fault.metadata.contains_key(UNREAD)
}

pub(crate) fn is_unsent(fault: &Fault) -> bool {
    fault.metadata.contains_key(UNSENT)
}

/// Marks a fault with the status from which it was made, if the server sent that status. For a
/// connection that fails, the client makes its own status with the error as its source.
pub(crate) fn marked(fault: Fault, status: &Status) -> Fault {
    match std::error::Error::source(status) {
        None => fault.with(GRPC_STATUS, code_name(status.code())),
        Some(_) => fault,
    }
}

/// Converts a status to a fault, which is marked if the server sent the status.
pub(crate) fn of_status(status: &Status) -> Fault {
    marked(Fault::from_status(status), status)
}

/// Whether the server received the request and answered it with this failure. Otherwise the
/// connection failed or broke, or the time was up, and the failure says nothing about the request.
pub fn answered(fault: &Fault) -> bool {
    matches!(fault.code, Code::Internal | Code::DataLoss)
        || [HTTP_STATUS, GRPC_STATUS]
            .iter()
            .any(|key| fault.metadata.contains_key(*key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_the_server_is_an_answer_and_one_of_the_connection_is_not() {
        let sent = Status::unavailable("the model is gone");
        let broken = Status::from_error("connection reset".into());
        for (status, expected) in [(sent, true), (broken, false)] {
            assert_eq!(answered(&of_status(&status)), expected, "{status}");
        }
    }
}
