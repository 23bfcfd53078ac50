//! One address in front of every Isomer service.
//!
//! * [`proxy`]: passes a gRPC service's calls on to the server behind it, undecoded.
//! * [`mod@compose`]: every service in this process, meeting over in-memory channels; what `isomer serve` and the other
//!   commands run when no server is named.
//! * [`openai`]: embeddings, models and reranking over HTTP, as OpenAI's clients know them.
//! * [`upstreams`]: the same front, with services that run elsewhere.

mod billing;
mod catalogue;
pub mod compose;
pub mod config;
mod dialects;
mod encoder_service;
mod front;
#[doc(hidden)]
pub mod fuzz;
mod json;
pub mod openai;
mod page;
mod provider;
pub mod proxy;
pub mod routing;
mod runs;
mod screening;
pub mod upstreams;

pub use compose::{Caller, House, compose};
pub use config::{GatewayConfig, IsomerConfig};

/// The paths of all HTTP routes that a gateway serves beside gRPC, as its router has them.
pub fn http_paths() -> Vec<&'static str> {
    [page::paths(), openai::paths(), dialects::paths()].concat()
}
