//! The channel that stubs run over.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, header};
use isomer_service_kit::{Fault, GrpcChannel};
use tokio::time::Instant;
use tonic::{Status, body::Body};
use tower::Service;

use crate::token::CachedToken;

/// gRPC's header for the time that is left.
const TIMEOUT: &str = "grpc-timeout";
/// User agent of this library.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("isomer-client-rust/", env!("CARGO_PKG_VERSION")));

/// Changes the headers of every attempt.
pub(crate) type Interceptor = Arc<dyn Fn(&mut HeaderMap) + Send + Sync>;

/// A channel for generated stubs, of which cheap clones may be made:
/// `StatisticsServiceClient::new(client.channel())`. Calls over it have the client's key or token,
/// its metadata, its version and the current trace (`traceparent`); they are cancelled at the
/// server when their future or stream is dropped. [`Client::call`](crate::Client::call) adds
/// deadlines and retries.
#[derive(Clone)]
pub struct Channel {
    inner: GrpcChannel,
    shared: Arc<Shared>,
    /// The token of this attempt.
    secret: Option<HeaderValue>,
    deadline: Option<Instant>,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) metadata: HeaderMap,
    pub(crate) token: Option<CachedToken>,
    pub(crate) interceptors: Vec<Interceptor>,
}

impl Channel {
    pub(crate) fn new(inner: GrpcChannel, shared: Shared) -> Self {
        Self {
            inner,
            shared: Arc::new(shared),
            secret: None,
            deadline: None,
        }
    }

    pub(crate) fn token(&self) -> Option<&CachedToken> {
        self.shared.token.as_ref()
    }

    /// The same channel for one attempt.
    pub(crate) fn attempt(&self, secret: Option<HeaderValue>, deadline: Option<Instant>) -> Self {
        Self {
            secret,
            deadline,
            ..self.clone()
        }
    }
}

/// A channel to services of the same process, or one that was made otherwise.
impl From<GrpcChannel> for Channel {
    fn from(inner: GrpcChannel) -> Self {
        Self::new(inner, Shared::default())
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

/// gRPC's form of a time: at most eight digits, and a unit.
fn timeout(left: Duration) -> HeaderValue {
    const MOST: u128 = 99_999_999;
    let text = match (left.as_micros(), left.as_millis()) {
        (micros, _) if micros <= MOST => format!("{micros}u"),
        (_, millis) if millis <= MOST => format!("{millis}m"),
        _ => format!("{}S", left.as_secs().min(MOST as u64)),
    };
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("99999999S"))
}

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Self::Response, Status>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, AGENT);
        for (name, value) in &self.shared.metadata {
            headers.append(name, value.clone());
        }
        if let Some(deadline) = self.deadline {
            headers.insert(TIMEOUT, timeout(deadline.saturating_duration_since(Instant::now())));
        }
        for interceptor in &self.shared.interceptors {
            interceptor(headers);
        }
        if let Some(secret) = self.secret.clone() {
            headers.insert(header::AUTHORIZATION, secret);
        }
        if self.secret.is_some() || self.shared.token.is_none() {
            return self.inner.call(request);
        }
        let shared = Arc::clone(&self.shared);
        // The one that is ready stays with this call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            if let Some(token) = &shared.token {
                let secret = token.header().await.map_err(|error| Status::from(Fault::from(error)))?;
                request.headers_mut().insert(header::AUTHORIZATION, secret);
            }
            inner.call(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_has_at_most_eight_digits() {
        for (left, due) in [
            (Duration::from_micros(1500), "1500u"),
            (Duration::from_secs(99), "99000000u"),
            (Duration::from_secs(120), "120000m"),
            (Duration::from_secs(200_000), "200000S"),
            (Duration::ZERO, "0u"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(timeout(left), due);
        }
    }
}
