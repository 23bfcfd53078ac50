//! Maps failures of HTTP calls to faults.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use isomer_outbound::{
    guard::AddressRefusal,
    said::{ErrorBody, cause, presentable, retry_after},
};
use isomer_service_kit::{Fault, config::Secret};
use tonic::Code;

use crate::answered::{HTTP_STATUS, unsent};

/// Reason of a 404 or 405: the server answers, but the path does not exist.
pub(super) const NOTHING_THERE: &str = "PROVIDER_NOT_FOUND";
/// Time before another attempt if a busy provider does not give one.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection that failed or broke.
pub(super) fn of_connection(id: &str, error: &reqwest::Error, secret: &Secret) -> Fault {
    if let Some(refused) = AddressRefusal::behind(error) {
        return Fault::from(refused.clone()).with("provider", id);
    }
    let said = presentable(&cause(error), secret);
    let fault = |message| Fault::unavailable("PROVIDER_UNAVAILABLE", message).with("provider", id);
    if error.is_connect() {
        return unsent(fault(format!("provider `{id}` cannot be reached: {said}")));
    }
    fault(format!("the connection to provider `{id}` broke: {said}"))
}

/// An unsuccessful answer.
pub(crate) fn of_status(id: &str, status: StatusCode, headers: &HeaderMap, body: &[u8], secret: &Secret) -> Fault {
    let error_body = ErrorBody::read(body, secret);
    let mut message = format!("provider `{id}` answered {}", status.as_u16());
    if !error_body.message.is_empty() {
        message = format!("{message}: {}", error_body.message);
    }
    let after = retry_after(headers);
    match status.as_u16() {
        402 => no_money(message),
        429 if error_body.no_quota() => no_money(message),
        401 | 403 => Fault::precondition("PROVIDER_REFUSED_SECRET", message)
            .field("provider.secret")
            .hint("correct the secret that provider.secret names, or what it may be used for"),
        404 | 405 => Fault::not_found(NOTHING_THERE, message)
            .hint("check provider.address and the model's name in provider.encoders"),
        429 => Fault::new(Code::ResourceExhausted, "PROVIDER_BUSY", message)
            .retry_after(after.unwrap_or(PAUSE))
            .hint("send less, or set provider.limits to what the provider allows"),
        413 => Fault::new(Code::InvalidArgument, "PROVIDER_REFUSED", message)
            .hint("set provider.limits.max_batch_items or max_batch_tokens to what the provider takes"),
        400 | 409 | 415 | 422 => Fault::new(Code::InvalidArgument, "PROVIDER_REFUSED", message),
        300..=399 => Fault::precondition("PROVIDER_REDIRECTS", message)
            .field("provider.address")
            .hint("redirects are not followed: give the address that it leads to"),
        501 => Fault::new(Code::Unimplemented, "PROVIDER_REFUSED", message),
        // text-embeddings-inference answers 424 if its model failed.
        408 | 424 | 425 | 500.. => {
            let fault = Fault::unavailable("PROVIDER_UNAVAILABLE", message);
            match after {
                Some(after) => fault.retry_after(after),
                None => fault,
            }
        }
        _ => Fault::precondition("PROVIDER_REFUSED", message),
    }
    .with("provider", id)
    .with(HTTP_STATUS, status.as_str())
}

fn no_money(message: String) -> Fault {
    Fault::precondition("PROVIDER_QUOTA", message).hint("raise the quota or pay the provider's account")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn fault(status: u16, body: &str) -> Fault {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::RETRY_AFTER, "7".parse().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        of_status("p", status, &headers, body.as_bytes(), &Secret::new("sk-secret-1"))
    }

    #[test]
    fn every_status_has_its_code() {
        for (status, code) in [
            (301, Code::FailedPrecondition),
            (400, Code::InvalidArgument),
            (401, Code::FailedPrecondition),
            (402, Code::FailedPrecondition),
            (403, Code::FailedPrecondition),
            (404, Code::NotFound),
            (413, Code::InvalidArgument),
            (418, Code::FailedPrecondition),
            (422, Code::InvalidArgument),
            (424, Code::Unavailable),
            (429, Code::ResourceExhausted),
            (500, Code::Unavailable),
            (503, Code::Unavailable),
        ] {
            assert_eq!(fault(status, "{}").code, code, "{status}");
        }
        assert_eq!(fault(429, "{}").retry_after, Some(Duration::from_secs(7)));
        assert_eq!(fault(503, "{}").retry_after, Some(Duration::from_secs(7)));
        assert_eq!(fault(403, "{}").field.as_deref(), Some("provider.secret"));
        let quota = r#"{"error": {"message": "no credit", "code": "insufficient_quota"}}"#;
        assert_eq!(fault(429, quota).code, Code::FailedPrecondition);
    }

    #[test]
    fn what_the_provider_said_is_told_without_the_secret() {
        let message = fault(400, r#"{"message": "bad key sk-secret-1"}"#).message;
        assert_eq!(message, "provider `p` answered 400: bad key [secret]");
        assert_eq!(fault(400, "{}").message, "provider `p` answered 400");
    }
}
