//! The span of a request, by OpenTelemetry's semantic conventions 1.45 for HTTP and RPC.
//!
//! A request over the network has a SERVER span. A call within the process has an INTERNAL span, so
//! that metrics made from spans count each request once. Health, reflection and metrics requests
//! have none. A span holds no text that a caller wrote into a body, a query or a header, except the
//! path, the host and the name of a method that is not served. These are truncated.

use axum::extract::{MatchedPath, Request};
use http::{HeaderMap, StatusCode, Version, header};
use tonic::Code;
use tracing::{Span, field::Empty};

use super::{
    Via,
    labels::{Label, OTHER},
};
use crate::{code_name, connect, trace_context};

/// Maximum length of a caller's text in a span, in bytes.
const LONGEST: usize = 256;

/// The original form of a request that was translated to gRPC here; in its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OriginalRequest {
    pub(crate) is_connect: bool,
    pub(crate) version: Version,
}

/// In the extensions of each request that arrived over TLS.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverTls;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WireProtocol {
    Http,
    Grpc,
    Connect,
}

/// A request's span. Recording has no effect if no trace is kept.
#[derive(Debug, Clone)]
pub(super) struct RequestSpan {
    span: Span,
    spoken: WireProtocol,
}

impl RequestSpan {
    pub(super) fn new(label: &Label, request: &Request, is_grpc: bool, via: Via) -> Self {
        let translated = request.extensions().get::<OriginalRequest>();
        let spoken = match (is_grpc, translated) {
            (false, _) => WireProtocol::Http,
            (true, Some(OriginalRequest { is_connect: true, .. })) => WireProtocol::Connect,
            (true, _) => WireProtocol::Grpc,
        };
        if label.probe {
            // Probes come every few seconds: they would hide all other spans.
            return Self {
                span: Span::none(),
                spoken,
            };
        }
        let version = translated.map_or(request.version(), |before| before.version);
        let span = match spoken {
            WireProtocol::Http => http(request, version),
            WireProtocol::Grpc | WireProtocol::Connect => {
                let known = (&*label.method != OTHER).then(|| format!("{}/{}", label.service, label.method));
                rpc(known, request, spoken, version, via)
            }
        };
        trace_context::join(&span, request.headers());
        Self { span, spoken }
    }

    /// The span of a call within the process that is not an HTTP request: a child of the caller's.
    pub(super) fn direct(label: &Label) -> Self {
        let spoken = WireProtocol::Grpc;
        let method = format!("{}/{}", label.service, label.method);
        let span = internal("grpc", &method, &method);
        trace_context::join(&span, &HeaderMap::new());
        Self { span, spoken }
    }

    /// The span of a Connect call to a known method that never becomes a gRPC request.
    fn connect(request: &Request, method: String) -> Self {
        let spoken = WireProtocol::Connect;
        let span = rpc(Some(method), request, spoken, request.version(), Via::Network);
        trace_context::join(&span, request.headers());
        Self { span, spoken }
    }

    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Records how a gRPC call ended.
    pub(super) fn grpc(&self, code: Code) {
        let name = match self.spoken {
            // Connect has no name for the success code.
            WireProtocol::Connect if code == Code::Ok => None,
            WireProtocol::Connect => Some(connect::code_name(code)),
            WireProtocol::Grpc => Some(code_name(code)),
            WireProtocol::Http => None,
        };
        let Some(name) = name else { return };
        self.span.record("rpc.response.status_code", name);
        if is_servers_error(code) {
            self.failed(name);
        }
    }

    /// Records the status of an HTTP answer.
    pub(super) fn http(&self, status: StatusCode) {
        self.span
            .record("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            self.failed(status.as_str());
        }
    }

    /// Records that an answer ended early, after its status was sent.
    pub(super) fn broke_off(&self) {
        self.failed("_OTHER");
    }

    fn failed(&self, kind: &str) {
        self.span.record("error.type", kind);
        self.span.record("otel.status_code", "ERROR");
    }
}

/// Records a span for a Connect call that is refused before it becomes a gRPC request.
pub(crate) fn refused_call(request: &Request, method: String, code: Code) {
    RequestSpan::connect(request, method).grpc(code);
}

/// Records a span for a request that is refused as plain HTTP, before routing.
pub(crate) fn refused_request(request: &Request, status: StatusCode) {
    let span = http(request, request.version());
    trace_context::join(&span, request.headers());
    let spoken = WireProtocol::Http;
    RequestSpan { span, spoken }.http(status);
}

/// Whether the conventions count a code as the server's error rather than the caller's.
fn is_servers_error(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

fn http(request: &Request, version: Version) -> Span {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let method = known_method(request.method());
    let verb = method.unwrap_or("HTTP");
    let name = match route {
        Some(route) => format!("{verb} {route}"),
        None => verb.to_owned(),
    };
    let scheme = scheme(request);
    let (address, port) = server(request, scheme);
    tracing::info_span!(
        "request",
        otel.kind = "server",
        otel.name = name,
        otel.status_code = Empty,
        http.request.method = method.unwrap_or("_OTHER"),
        http.request.method_original = method.is_none().then(|| cut(request.method().as_str())),
        http.route = route,
        http.response.status_code = Empty,
        url.path = cut(request.uri().path()),
        url.scheme = scheme,
        server.address = address,
        server.port = port,
        network.protocol.version = written(version),
        "error.type" = Empty,
    )
}

/// `known` is the method's full name, if it is served here.
fn rpc(known: Option<String>, request: &Request, spoken: WireProtocol, version: Version, via: Via) -> Span {
    let system = match spoken {
        WireProtocol::Connect => "connectrpc",
        WireProtocol::Grpc | WireProtocol::Http => "grpc",
    };
    let name = known.as_deref().unwrap_or(system);
    let method = known.as_deref().unwrap_or("_OTHER");
    if via == Via::Memory {
        return internal(system, name, method);
    }
    let (address, port) = server(request, scheme(request));
    let asked = request.uri().path().trim_start_matches('/');
    tracing::info_span!(
        "request",
        otel.kind = "server",
        otel.name = name,
        otel.status_code = Empty,
        rpc.system.name = system,
        rpc.method = method,
        rpc.method_original = known.is_none().then(|| cut(asked)),
        rpc.response.status_code = Empty,
        server.address = address,
        server.port = port,
        network.protocol.name = "http",
        network.protocol.version = written(version),
        "error.type" = Empty,
    )
}

fn internal(system: &str, name: &str, method: &str) -> Span {
    tracing::info_span!(
        "request",
        otel.kind = "internal",
        otel.name = name,
        otel.status_code = Empty,
        rpc.system.name = system,
        rpc.method = method,
        rpc.response.status_code = Empty,
        "error.type" = Empty,
    )
}

/// The method, if it is in the conventions.
fn known_method(method: &http::Method) -> Option<&str> {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" | "CONNECT" | "TRACE" | "QUERY") => {
            Some(known)
        }
        _ => None,
    }
}

fn scheme(request: &Request) -> &'static str {
    match request.extensions().get::<OverTls>() {
        Some(OverTls) => "https",
        None => "http",
    }
}

/// The host and port that the caller requested.
fn server<'a>(request: &'a Request, scheme: &str) -> (Option<&'a str>, Option<i64>) {
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let Some(authority) = authority.or_else(|| host(request.headers())) else {
        return (None, None);
    };
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().ok()),
        _ => (authority, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host.len() > LONGEST {
        return (None, None);
    }
    let usual = if scheme == "https" { 443 } else { 80 };
    (Some(host), Some(port.map_or(usual, i64::from)))
}

fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

fn written(version: Version) -> Option<&'static str> {
    match version {
        Version::HTTP_10 => Some("1.0"),
        Version::HTTP_11 => Some("1.1"),
        Version::HTTP_2 => Some("2"),
        Version::HTTP_3 => Some("3"),
        _ => None,
    }
}

/// The beginning of a text, at most `LONGEST` bytes.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn request(uri: &str, host: Option<&str>) -> Request {
        let builder = http::Request::builder().uri(uri);
        let builder = match host {
            Some(host) => builder.header(header::HOST, host),
            None => builder,
        };
        builder.body(axum::body::Body::empty()).unwrap()
    }

    #[test]
    fn a_server_is_named_as_its_caller_names_it() {
        for (uri, host, expected) in [
            ("/x", Some("example.com:8080"), (Some("example.com"), Some(8080))),
            ("/x", Some("example.com"), (Some("example.com"), Some(443))),
            ("/x", Some("[::1]:50051"), (Some("::1"), Some(50051))),
            ("/x", Some("[::1]"), (Some("::1"), Some(443))),
            ("http://user:pass@host:1/x", Some("other"), (Some("host"), Some(1))),
            ("/x", None, (None, None)),
        ] {
            assert_eq!(server(&request(uri, host), "https"), expected, "{uri} {host:?}");
        }
        assert_eq!(server(&request("/x", Some("a")), "http").1, Some(80));
        assert_eq!(server(&request("/x", Some(&"a".repeat(300))), "http"), (None, None));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("/a"), "/a");
        let long = format!("/a{}", "ü".repeat(1000));
        assert_eq!(cut(&long).len(), LONGEST);
        assert_eq!(cut(&long[1..]).len(), LONGEST - 1);
    }
}
