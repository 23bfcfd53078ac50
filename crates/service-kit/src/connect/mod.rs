//! The Connect protocol beside gRPC: the same services as plain HTTP, with bodies in protobuf or
//! JSON, for connect-es, connect-go, curl.
//!
//! A request is translated into the equivalent gRPC request, and its answer is translated back. So
//! limits, deadlines, authentication and handlers are those of gRPC. JSON is proto3's
//! (<https://protobuf.dev/programming-guides/json/>); a field that the message does not have is
//! refused.
//!
//! <https://connectrpc.com/docs/protocol>

mod codec;
mod error;
pub(crate) mod fuzz;
mod stream;
mod unary;

use std::sync::{Arc, LazyLock, OnceLock};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use prost_reflect::{DescriptorPool, MethodDescriptor};
use tower::ServiceExt;

use self::codec::Encoding;
use crate::{Fault, layers, services::DESCRIPTORS};

pub(crate) use error::{code_name, error};

/// The messages of all services that a server can have.
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = DescriptorPool::new();
    for descriptors in DESCRIPTORS {
        // Each set comes from the compiler of the .proto files. A broken set would leave out its
        // services, and a test would fail.
        if let Err(error) = pool.decode_file_descriptor_set(*descriptors) {
            tracing::error!(%error, "cannot read a descriptor set; its services are not served over Connect");
        }
    }
    pool
});

/// How a request is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The body is one message.
    Unary,
    /// The body holds messages in envelopes.
    Stream,
}

/// How a message is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Proto,
    Json,
}

/// A request of the Connect protocol.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    shape: Shape,
    form: Form,
    method: MethodDescriptor,
    /// Largest message, in bytes.
    most: usize,
}

impl Call {
    /// Recognises a Connect request; `None` if the request uses another protocol.
    pub(crate) fn of(request: &Request, most: usize) -> Option<Self> {
        let media_type = request.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
        let essence = media_type.split(';').next()?.trim().to_ascii_lowercase();
        let (shape, form) = match essence.as_str() {
            "application/proto" => (Shape::Unary, Form::Proto),
            "application/json" => (Shape::Unary, Form::Json),
            "application/connect+proto" => (Shape::Stream, Form::Proto),
            "application/connect+json" => (Shape::Stream, Form::Json),
            _ => return None,
        };
        let (service, name) = request.uri().path().strip_prefix('/')?.split_once('/')?;
        let method = POOL
            .get_service_by_name(service)?
            .methods()
            .find(|method| method.name() == name)?;
        Some(Self {
            shape,
            form,
            method,
            most,
        })
    }

    pub(crate) fn streams(&self) -> bool {
        self.method.is_client_streaming() || self.method.is_server_streaming()
    }

    /// Calls the gRPC services, and answers in the Connect protocol.
    pub(crate) async fn answer(self, request: Request, grpc: Router) -> Response {
        if request.method() != Method::POST {
            layers::refused_request(&request, StatusCode::METHOD_NOT_ALLOWED);
            return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
        }
        if (self.shape == Shape::Stream) != self.streams() {
            let accepted = if self.streams() {
                "application/connect+proto, application/connect+json"
            } else {
                "application/proto, application/json"
            };
            layers::refused_request(&request, StatusCode::UNSUPPORTED_MEDIA_TYPE);
            return (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                [(HeaderName::from_static("accept-post"), accepted)],
            )
                .into_response();
        }
        let answered = match self.asked(&request) {
            Ok((headers, encoding)) => {
                let (mut parts, body) = request.into_parts();
                parts.headers = headers;
                match self.shape {
                    Shape::Unary => unary::answer(&self, parts, encoding, body, grpc).await,
                    Shape::Stream => Ok(stream::answer(&self, parts, encoding, body, grpc).await),
                }
            }
            Err(fault) => {
                let method = format!("{}/{}", self.method.parent_service().full_name(), self.method.name());
                layers::refused_call(&request, method, fault.code);
                Err(fault)
            }
        };
        match (answered, self.shape) {
            (Ok(response), _) => response,
            (Err(fault), Shape::Unary) => error(&fault.into()),
            (Err(fault), Shape::Stream) => stream::ended(&self, fault),
        }
    }

    /// The headers of the equivalent gRPC request, and the compression of the caller's messages.
    fn asked(&self, request: &Request) -> Result<(HeaderMap, Encoding), Fault> {
        let encoding = match self.shape {
            Shape::Unary => request.headers().get(header::CONTENT_ENCODING),
            Shape::Stream => request.headers().get("connect-content-encoding"),
        };
        let encoding = Encoding::of(encoding)?;
        Ok((asked(request.headers().clone())?, encoding))
    }
}

/// The reason why the caller's body could not be read to its end. Without it, a handler may take
/// the failure for the end of the body and answer as if nothing were wrong.
type BodyFailure = Arc<OnceLock<Fault>>;

/// The headers of the gRPC request that is equivalent to a Connect request.
fn asked(mut headers: HeaderMap) -> Result<HeaderMap, Fault> {
    if let Some(version) = headers.remove("connect-protocol-version")
        && version != "1"
    {
        return Err(Fault::invalid(
            "connect-protocol-version",
            format!("is {version:?}, should be 1"),
        ));
    }
    if let Some(timeout) = headers.remove("connect-timeout-ms") {
        headers.insert("grpc-timeout", grpc_timeout(&timeout)?);
    }
    for name in [
        header::CONTENT_LENGTH,
        header::CONTENT_ENCODING,
        header::ACCEPT_ENCODING,
    ] {
        headers.remove(name);
    }
    for name in [
        "connect-content-encoding",
        "connect-accept-encoding",
        "grpc-accept-encoding",
        "grpc-encoding",
    ] {
        headers.remove(name);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    Ok(headers)
}

/// Converts up to ten digits of milliseconds to gRPC's format of eight digits and a unit.
fn grpc_timeout(timeout: &HeaderValue) -> Result<HeaderValue, Fault> {
    let wrong = || {
        Fault::invalid("connect-timeout-ms", format!("{timeout:?} is not a timeout"))
            .hint("send up to ten digits, e.g. 1500")
    };
    let text = timeout.to_str().map_err(|_| wrong())?;
    if text.is_empty() || text.len() > 10 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let milliseconds: u64 = text.parse().map_err(|_| wrong())?;
    let shorter = if milliseconds < 100_000_000 {
        format!("{milliseconds}m")
    } else {
        format!("{}S", milliseconds.div_ceil(1000))
    };
    HeaderValue::from_str(&shorter).map_err(|_| wrong())
}

/// Sends the gRPC request.
async fn send(parts: http::request::Parts, body: Body, grpc: Router) -> http::Response<Body> {
    match grpc.oneshot(Request::from_parts(parts, body)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Headers of an answer that are metadata for the caller rather than part of the protocol.
fn metadata(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    headers.iter().filter(|(name, _)| {
        let ours = ["content-type", "content-length", "trailer"];
        !(name.as_str().starts_with("grpc-") || ours.contains(&name.as_str()))
    })
}

#[cfg(test)]
mod tests;
