//! Reports failures that occur before, around or after a handler. gRPC callers get a status and
//! HTTP callers a sentence, unless a path has another format.

use std::{error::Error, sync::Arc};

use axum::{body::Body, response::Response};
use http::{HeaderValue, StatusCode, header};
use tonic::{Code, Status};

use isomer_fault::Fault;

/// Converts a fault to an answer.
pub type Shape = fn(Fault) -> Response;

/// The formats of a server's paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(Arc<[(&'static str, Shape)]>);

impl Refusals {
    /// Adds `shape` for a path, or for everything below a path that ends in a slash. If two paths
    /// match, the one added first applies.
    pub(crate) fn with(&self, path: &'static str, shape: Shape) -> Self {
        Self(self.0.iter().copied().chain([(path, shape)]).collect())
    }

    /// The formats of both; those of `self` take precedence.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(other.0.iter()).copied().collect())
    }

    /// The format of failures for a caller of `path`.
    pub(crate) fn shape(&self, path: &str, is_grpc: bool) -> Shape {
        if is_grpc {
            return |fault| Status::from(fault).into_http();
        }
        let fits = |known: &str| match known.ends_with('/') {
            true => path.starts_with(known),
            false => path == known,
        };
        let own = self.0.iter().find(|(known, _)| fits(known));
        own.map_or(plain_refusal, |(_, shape)| *shape)
    }
}

/// An HTTP answer that states a fault in one sentence.
pub fn plain_refusal(fault: Fault) -> Response {
    let fault = fault.bounded();
    let mut response = Response::new(Body::from(format!("{fault}\n")));
    // For an HTTP client, an unimplemented path does not exist.
    *response.status_mut() = match fault.http_status() {
        StatusCode::NOT_IMPLEMENTED => StatusCode::NOT_FOUND,
        status => status,
    };
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Some(after) = fault.retry_after {
        // Whole seconds, never zero: an HTTP client must not retry at once.
        headers.insert(
            header::RETRY_AFTER,
            HeaderValue::from(after.as_secs_f64().ceil().max(1.0) as u64),
        );
    }
    response
}

/// The reason why a request's body could not be read to its end: the fault of an outer layer, or
/// that the body was cut off.
pub fn body_fault(error: &(dyn Error + 'static)) -> Fault {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(status) = error.downcast_ref::<Status>() {
            return Fault::from_status(status);
        }
        cause = error.source();
    }
    Fault::new(
        Code::InvalidArgument,
        "BROKEN_BODY",
        format!("the body cannot be read: {error}"),
    )
    .hint("send it completely")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teapot(_: Fault) -> Response {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    }

    #[test]
    fn a_path_has_its_own_shape_and_grpc_always_a_status() {
        let refusals = Refusals::default().and(&Refusals::default().with("/v1/", teapot));
        let shaped = |path: &str, is_grpc| refusals.shape(path, is_grpc)(Fault::unimplemented("no"));
        assert_eq!(shaped("/v1/x", false).status(), StatusCode::IM_A_TEAPOT);
        assert_eq!(shaped("/v10", false).status(), StatusCode::NOT_FOUND);
        let one = Refusals::default().with("/v1", teapot);
        assert_eq!(
            one.shape("/v1", false)(Fault::unimplemented("no")).status(),
            StatusCode::IM_A_TEAPOT
        );
        assert_eq!(
            one.shape("/v1/x", false)(Fault::unimplemented("no")).status(),
            StatusCode::NOT_FOUND
        );
        let grpc = shaped("/v1/x", true);
        assert_eq!(
            (grpc.status(), &grpc.headers()["grpc-status"]),
            (StatusCode::OK, &HeaderValue::from_static("12"))
        );
    }

    #[test]
    fn a_bodys_fault_is_found_under_other_errors() {
        let fault = Fault::invalid("content-length", "is a lie").hint("say it once");
        let wrapped = axum::Error::new(axum::Error::new(Status::from(fault.clone())));
        assert_eq!(body_fault(&wrapped), fault);
        assert_eq!(body_fault(&std::io::Error::other("gone")).reason, "BROKEN_BODY");
    }
}
