//! Which encoder providers there are.
//!
//! A provider is stored by an operator, declared in a file, or registers itself with a lease.
//! [`Registry`] puts the three together, serves them (`isomer.gateway.v1.ProviderService`) and
//! tells whoever watches ([`Registry::watch`]) what is alive.
//!
//! * [`Screening`]: what the registry asks its owner before it takes a provider in.
//! * [`mod@file`]: the form of providers in TOML, read and written by hand or by `isomer
//!   providers`; [`document`] writes it, and JSON.
//! * [`kind`]: kinds of providers, by name.
//!
//! Inside: `validate`, `mask` and `page` say what a request may say (pure); `store` has the
//! records, `declared` keeps an eye on the file, `keeper` on leases and on what other gateways
//! change; `state` is what is known of all that.

mod config;
mod declared;
pub mod document;
pub mod file;
mod keeper;
pub mod kind;
mod mask;
pub mod metric_names;
mod page;
mod registry;
mod screening;
mod service;
mod state;
mod store;
mod time;
mod validate;

pub use config::ProvidersConfig;
pub use registry::Registry;
pub use screening::{ProviderStatus, Screening};
pub use service::ProviderHandler;
pub use store::prepare;
