//! The span of a call over HTTP, by OpenTelemetry's semantic conventions 1.45.

use http::StatusCode;
use isomer_service_kit::{Fault, code_name};
use reqwest::Request;
use tracing::{Span, field::Empty};

/// The span of a request. An address contains no user, password or query, because providers with
/// such addresses are refused.
pub(super) fn of(request: &Request) -> Span {
    let (method, url) = (request.method().as_str(), request.url());
    tracing::info_span!(
        "call",
        otel.kind = "client",
        otel.name = method,
        otel.status_code = Empty,
        http.request.method = method,
        http.response.status_code = Empty,
        url.full = url.as_str(),
        server.address = url.host_str().map(|host| host.trim_matches(['[', ']'])),
        server.port = url.port_or_known_default().map(i64::from),
        "error.type" = Empty,
    )
}

/// Records the outcome of the call: a status if there was an answer, and a fault if the answer is
/// unusable.
pub(super) fn ended(span: &Span, status: Option<StatusCode>, fault: Option<&Fault>) {
    if let Some(status) = status {
        span.record("http.response.status_code", i64::from(status.as_u16()));
    }
    // For a client, 4xx is also a failure.
    let failure = status.filter(|status| status.is_client_error() || status.is_server_error());
    let kind = match (&failure, fault) {
        (Some(status), _) => status.as_str(),
        (None, Some(fault)) => code_name(fault.code),
        (None, None) => return,
    };
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}
