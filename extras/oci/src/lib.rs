//! Evidence beside an artifact of an OCI registry.
//!
//! * [`mod@reference`]: names of artifacts. [`credentials`]: a registry's credentials from Docker's
//!   configuration.
//! * [`registry`]: a repository of a registry: manifests and blobs, with basic and bearer
//!   authentication. Answers are bounded, and content with a digest is verified.
//! * [`referrer`]: a manifest that refers to another one (`subject`, OCI 1.1). It is found by the
//!   referrers API or, if a registry has none, by the index at the tag `sha256-…`.
//!
//! This crate does not know statements, encoders or reports.
//!
//! Sources: OCI image specification 1.1, OCI distribution specification 1.1, the token
//! authentication of Docker's registry.

pub mod credentials;
mod error;
pub mod reference;
pub mod referrer;
pub mod registry;

pub use error::{OciError, Result};
