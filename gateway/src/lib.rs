//! One address in front of every Isomer service.
//!
//! * [`proxy`]: passes a gRPC service's calls on to the server behind it, undecoded.
//! * [`front`]: what a gateway serves, over servers that run elsewhere or in the same process.
//! * [`openai`]: embeddings, models and reranking over HTTP, as OpenAI's clients know them.
//! * [`upstreams`]: the same front, with services that run elsewhere.

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
mod records;
pub mod routing;
mod runs;
mod screening;
pub mod upstreams;

pub use config::GatewayConfig;
pub use records::migrate;

/// The paths of all HTTP routes that a gateway serves beside gRPC, as its router has them.
pub fn http_paths() -> Vec<&'static str> {
    [page::paths(), openai::paths(), dialects::paths()].concat()
}
