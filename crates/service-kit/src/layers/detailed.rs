//! `google.rpc.ErrorInfo` for statuses that no handler made. The generated servers' statuses have
//! neither reasons nor hints.

use http::HeaderMap;
use tonic::{Code, Status};

use isomer_fault::{Fault, code_name};

/// The beginning of the message of the generated servers' decoder.
const UNDECODABLE: &str = "failed to decode Protobuf message";

/// Completes a status in these headers or trailers of the answer to a call of `path`. A status with
/// details stays unchanged.
pub(super) fn complete(headers: &mut HeaderMap, path: &str) {
    let Some(status) = Status::from_header_map(headers) else {
        return;
    };
    if status.code() == Code::Ok || !status.details().is_empty() {
        return;
    }
    let fault = explained(&status, path);
    // If the message does not fit a header, the existing status still reports the failure.
    let mut told = HeaderMap::new();
    if Status::from(fault).add_header(&mut told).is_ok() {
        headers.extend(told);
    }
}

fn explained(status: &Status, path: &str) -> Fault {
    let message = status.message();
    match status.code() {
        Code::Unimplemented if message.is_empty() => no_such_method(path),
        Code::Internal if message.starts_with(UNDECODABLE) => Fault::new(
            Code::InvalidArgument,
            "UNDECODABLE_MESSAGE",
            format!("the request's message cannot be decoded: {message}"),
        )
        .hint("encode it as the rpc's .proto file says, with strings in UTF-8; server reflection gives that file"),
        code if message.is_empty() => Fault::new(code, code_name(code), "the request failed"),
        code => Fault::new(code, code_name(code), message),
    }
}

/// The refusal of a call to a service or method that is not served.
pub(crate) fn no_such_method(path: &str) -> Fault {
    Fault::unimplemented(format!("no such method: {path}")).hint("server reflection lists the services")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn completed(status: &Status) -> Fault {
        let mut headers = HeaderMap::new();
        status.add_header(&mut headers).unwrap();
        complete(&mut headers, "/a.B/C");
        Fault::from_status(&Status::from_header_map(&headers).unwrap())
    }

    #[test]
    fn what_the_generated_servers_say_gets_a_reason_and_a_remedy() {
        let unknown = completed(&Status::unimplemented(""));
        assert_eq!(
            (unknown.code, unknown.reason.as_str()),
            (Code::Unimplemented, "NOT_SERVED_YET")
        );
        assert!(unknown.message.contains("/a.B/C"), "{unknown}");
        let broken = completed(&Status::internal("failed to decode Protobuf message: invalid varint"));
        assert_eq!(
            (broken.code, broken.reason.as_str()),
            (Code::InvalidArgument, "UNDECODABLE_MESSAGE")
        );
        assert!(broken.hint.is_some());
        assert_eq!(completed(&Status::internal("failed to write")).reason, "INTERNAL");
    }

    #[test]
    fn what_has_details_or_succeeded_stays() {
        let fault = Fault::not_found("UNKNOWN_KEY", "no such key").hint("list them");
        assert_eq!(completed(&Status::from(fault.clone())), fault);
        let mut headers = HeaderMap::new();
        Status::ok("").add_header(&mut headers).unwrap();
        let before = headers.clone();
        complete(&mut headers, "/a.B/C");
        assert_eq!(headers, before);
    }
}
