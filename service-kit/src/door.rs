//! Who may come in: asked for every request that comes over the network, before anything is done for it.

use std::sync::Arc;

use axum::response::Response;
use http::request::Parts;

use crate::{error::Fault, layers};

/// Looks at a request's head. What it learns of the caller it leaves in the extensions, where handlers find it (tonic hands them on
/// to gRPC methods).
#[tonic::async_trait]
pub trait Doorkeeper: std::fmt::Debug + Send + Sync + 'static {
    /// Lets the request in, or says why not.
    async fn admit(&self, parts: &mut Parts) -> Result<(), Fault>;

    /// The refusal of an HTTP request, in the shape that callers of `path` read.
    fn refusal(&self, path: &str, fault: Fault) -> Response {
        let _ = path;
        plain_refusal(fault)
    }
}

/// An HTTP answer that says a fault in a sentence.
pub fn plain_refusal(fault: Fault) -> Response {
    layers::refuse(fault, false)
}

/// A doorkeeper, or an open door.
#[derive(Debug, Clone, Default)]
pub(crate) struct Door(pub(crate) Option<Arc<dyn Doorkeeper>>);

impl Door {
    /// The request if it may come in, its refusal otherwise.
    pub(crate) async fn pass(
        &self,
        request: axum::extract::Request,
        is_grpc: bool,
    ) -> Result<axum::extract::Request, Response> {
        let Some(keeper) = &self.0 else { return Ok(request) };
        let (mut parts, body) = request.into_parts();
        match keeper.admit(&mut parts).await {
            Ok(()) => Ok(axum::extract::Request::from_parts(parts, body)),
            Err(fault) if is_grpc => Err(layers::refuse(fault, true)),
            Err(fault) => Err(keeper.refusal(parts.uri.path(), fault)),
        }
    }
}
