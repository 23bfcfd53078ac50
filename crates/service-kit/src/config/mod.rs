//! Layered configuration: built-in default ← TOML file ← environment (`ISOMER_SECTION__KEY`) ←
//! flags.
//!
//! A configuration struct is plain serde with `#[serde(default, deny_unknown_fields)]`, a
//! [`Default`] that is the built-in layer, and [`Validate`] for what types cannot express. [`load`]
//! validates before it returns, so a configuration that is not valid is refused before a port is
//! bound. Its errors name the key, where the value came from, and how to fix it.

mod error;
#[cfg(feature = "server")]
mod explain;
#[cfg(feature = "server")]
mod load;
mod secret;
#[cfg(all(test, feature = "server"))]
mod tests;

pub use error::{ConfigError, Validate};
#[cfg(feature = "server")]
pub use explain::suggest;
#[cfg(feature = "server")]
pub use load::{ENV_PREFIX, load, load_from};
pub use secret::Secret;
