//! Who may come in: asked for every request that comes over the network, before anything is done
//! for it.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderValue, StatusCode, header, request::Parts};

use crate::{error::Fault, refusals::Shape};

/// Looks at a request's head. What it learns of the caller it leaves in the extensions, where
/// handlers find it (tonic hands them on to gRPC methods).
#[tonic::async_trait]
pub trait Authenticator: std::fmt::Debug + Send + Sync + 'static {
    /// Lets the request in, or says why not.
    async fn admit(&self, parts: &mut Parts) -> Result<(), Fault>;

    /// What a 401 answer at this path says in `WWW-Authenticate`.
    fn challenge(&self, path: &str) -> Option<&'static str> {
        let _ = path;
        None
    }
}

/// A authenticator, or an open auth.
#[derive(Debug, Clone, Default)]
pub(crate) struct Auth(pub(crate) Option<Arc<dyn Authenticator>>);

impl Auth {
    /// The request if it may come in, its refusal otherwise.
    pub(crate) async fn pass(
        &self,
        request: axum::extract::Request,
        tell: Shape,
    ) -> Result<axum::extract::Request, Response> {
        let Some(keeper) = &self.0 else { return Ok(request) };
        let (mut parts, body) = request.into_parts();
        match keeper.admit(&mut parts).await {
            Ok(()) => Ok(axum::extract::Request::from_parts(parts, body)),
            Err(fault) => {
                let mut refusal = tell(fault);
                if refusal.status() == StatusCode::UNAUTHORIZED
                    && let Some(challenge) = keeper.challenge(parts.uri.path())
                {
                    let challenge = HeaderValue::from_static(challenge);
                    refusal.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                }
                Err(refusal)
            }
        }
    }
}
