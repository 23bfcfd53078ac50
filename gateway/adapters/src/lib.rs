//! Encoder providers of every kind behind one interface.
//!
//! A provider is a third-party server that turns text into vectors. [`connect`] makes an
//! [`EncoderBackend`] of it, whatever its protocol. Requests that its protocol cannot express are
//! refused, never approximated.
//!
//! The file of a kind declares the abilities of its protocol ([`Kind`]);
//! `docs/reference/providers.md` is generated from these declarations.
//!
//! `Provider.input_types` maps prompt names to the provider's terms; a literal prompt is prepended
//! to each text. If a request does not choose how to truncate, the tail of a text is cut; if the
//! protocol has no such option, the server's default applies. Vectors arrive as 32-bit floats, and
//! are scaled and converted to 16-bit floats or bits here. Vector spaces are named `kind/model`,
//! with `@revision` if the server reports one, and have a digest like embed-svc's.

mod answered;
mod backend;
pub mod check;
mod connect;
mod estimate;
mod foreign;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod in_process;
mod isomer;
mod kinds;
mod limits;
mod metered;
mod names;
mod params;
mod rest;
mod surroundings;
mod target;

pub use answered::answered;
pub use backend::EncoderBackend;
pub use connect::{connect, kind_of, kinds};
pub use grpc::out_of_time;
pub use in_process::InProcessBackend;
pub use isomer::IsomerBackend;
pub use isomer_outbound::{AddressGuard, GuardConfig};
pub use kinds::Kind;
pub use metered::{HasUsage, billed_answer, metered};
pub use surroundings::Surroundings;
