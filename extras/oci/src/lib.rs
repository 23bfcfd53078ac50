//! Evidence beside an artifact of an OCI registry.
//!
//! * [`mod@reference`]: names of artifacts. [`credentials`]: what Docker's configuration has for a
//!   registry.
//! * [`registry`]: a repository of a registry: manifests and blobs, with basic and bearer
//!   authentication. Answers are bounded, and what has a digest is compared with it.
//! * [`referrer`]: a manifest that refers to another one (`subject`, OCI 1.1), found by the
//!   referrers API or, where a registry has none, by the index at the tag `sha256-…`.
//!
//! Knows no statements, encoders or reports.
//!
//! Sources: OCI image specification 1.1, OCI distribution specification 1.1, the token
//! authentication of Docker's registry.

pub mod credentials;
mod error;
pub mod reference;
pub mod referrer;
pub mod registry;

pub use error::{OciError, Result};
