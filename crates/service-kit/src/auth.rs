//! Authentication: every request that comes over the network is checked before anything else is
//! done for it.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderValue, StatusCode, header, request::Parts};

use crate::{Fault, Tenant, budget::Reservation, refusals::Shape};

/// Checks the head of a request. Facts about the caller are stored in the request's extensions,
/// where handlers find them (tonic passes extensions on to gRPC methods).
#[tonic::async_trait]
pub trait Authenticator: std::fmt::Debug + Send + Sync + 'static {
    /// Admits the request, or returns the refusal.
    async fn admit(&self, parts: &mut Parts) -> Result<(), Fault>;

    /// The account of an admitted request. All requests of an account share one part of the
    /// server's memory. Requests without an account share one part per address.
    fn account(&self, parts: &Parts) -> Option<String> {
        let _ = parts;
        None
    }

    /// The value of `WWW-Authenticate` in a 401 answer for this path.
    fn challenge(&self, path: &str) -> Option<&'static str> {
        let _ = path;
        None
    }
}

/// An authenticator; without one, every request is admitted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Auth(pub(crate) Option<Arc<dyn Authenticator>>);

impl Auth {
    /// Returns the request if it is admitted, else its refusal.
    pub(crate) async fn pass(
        &self,
        request: axum::extract::Request,
        respond: Shape,
    ) -> Result<axum::extract::Request, Response> {
        let Some(keeper) = &self.0 else {
            // A gateway before this server names the tenant of each call.
            let tenant: Option<String> = Tenant::of_headers(request.headers()).into();
            if let (Some(memory), Some(tenant)) = (request.extensions().get::<Reservation>(), tenant) {
                memory.of_account(tenant.into()).map_err(respond)?;
            }
            return Ok(request);
        };
        let (mut parts, body) = request.into_parts();
        match keeper.admit(&mut parts).await {
            Ok(()) => {
                if let (Some(memory), Some(account)) = (parts.extensions.get::<Reservation>(), keeper.account(&parts)) {
                    memory.of_account(account.into()).map_err(respond)?;
                }
                Ok(axum::extract::Request::from_parts(parts, body))
            }
            Err(fault) => {
                let mut refusal = respond(fault);
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
