//! One address in front of every Isomer service.
//!
//! * [`proxy`]: forwards a gRPC service's calls to a server behind the gateway, without decoding
//!   them.
//! * [`front`]: what a gateway serves, with services elsewhere or in the same process.
//! * [`openai`]: embeddings, models and reranking over HTTP, in the shapes that OpenAI's clients
//!   use.
//! * [`upstreams`]: the same gateway, with services that run elsewhere.

mod billing;
mod catalogue;
pub mod config;
mod dialects;
mod encoder_service;
pub mod front;
#[doc(hidden)]
pub mod fuzz;
mod json;
pub mod openai;
mod page;
mod provider;
pub mod proxy;
mod rate_limits;
mod records;
pub mod routing;
mod runs;
mod screening;
mod tenant;
mod timing;
pub mod upstreams;

pub use config::{AugmentedModelConfig, GatewayConfig};
pub use dialects::fields::{Field, Handling, RequestFields};
pub use proxy::missing_variants::MissingVariantsConfig;
pub use records::migrate;

/// The fields of all requests in the shapes of other servers.
pub fn http_fields() -> Vec<RequestFields> {
    [openai::fields(), dialects::fields()].concat()
}

/// The paths of all HTTP routes that a gateway serves beside gRPC, in its router's syntax.
pub fn http_paths() -> Vec<&'static str> {
    [page::paths(), openai::paths(), dialects::paths()].concat()
}
