//! The registry of encoder providers.
//!
//! A provider is stored by an operator, declared in a file, or registers itself with a lease.
//! [`Registry`] combines the three, serves them (`isomer.gateway.v1.ProviderService`) and notifies
//! watchers ([`Registry::watch`]) of the live providers.
//!
//! * [`Screening`]: the registry's questions to its owner before it accepts a provider.
//! * [`mod@file`]: the TOML format of providers, written by hand or by `isomer providers`;
//!   [`document`] writes TOML and JSON.
//!
//! Private modules: `validate`, `mask` and `page` are the rules for requests (pure); `store` holds
//! the records, `declared` watches the file, `keeper` watches leases and the changes of other
//! gateways; `state` is this process's view of all of them.

mod config;
mod declared;
pub mod document;
pub mod file;
mod keeper;
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
