//! Which encoder providers there are.
//!
//! A provider is stored by an operator, declared in a file, or registers itself with a lease. [`Registry`] puts the three together,
//! serves them (`isomer.gateway.v1.ProviderService`) and tells whoever watches ([`Registry::watch`]) what is alive.
//!
//! * [`validate`], [`mask`], [`page`]: what a request may say. Pure.
//! * [`store`]: the records in the database.
//! * [`file`]: the form of providers in TOML, read and written; [`declared`] keeps an eye on such a file.
//! * [`Screening`]: what the registry asks its owner before it takes a provider in.

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
