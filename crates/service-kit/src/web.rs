//! Calls from pages in a browser: gRPC-Web beside gRPC, and the origins that may call (CORS).

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

use crate::{request_id, versions};

/// How long a browser may cache the answer to a preflight request.
const REMEMBER: Duration = Duration::from_secs(600);

/// Headers of answers that pages may read.
const READ: [HeaderName; 15] = [
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
    HeaderName::from_static("isomer-vector-space"),
    versions::SERVER,
    versions::OLDEST,
    header::RETRY_AFTER,
    request_id::HEADER,
    HeaderName::from_static("server-timing"),
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// The origins whose pages may call; `*` stands for all. Without origins, a browser permits only
/// the server's own pages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Web {
    pub(crate) origins: Vec<HeaderValue>,
}

impl Web {
    pub(crate) fn cors(&self) -> Option<CorsLayer> {
        if self.origins.is_empty() {
            return None;
        }
        let origins = if self.origins.iter().any(|origin| origin == "*") {
            AllowOrigin::from(Any)
        } else {
            AllowOrigin::list(self.origins.iter().cloned())
        };
        let layer = CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::POST])
            // Each client sends its own headers (OpenAI's sends a dozen). The origin decides which
            // pages may call.
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(READ);
        Some(layer.max_age(REMEMBER))
    }
}
