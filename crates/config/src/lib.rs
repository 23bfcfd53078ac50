//! Layered configuration: built-in default ← TOML file ← environment (`ISOMER_SECTION__KEY`) ←
//! flags.
//!
//! A configuration struct is plain serde with `#[serde(default, deny_unknown_fields)]`, a
//! [`Default`] that is the built-in layer, and [`Validate`] for what types cannot express. [`load`]
//! validates before it returns, so a configuration that is not valid is refused before a port is
//! bound. Its errors name the key, where the value came from, and how to fix it.

mod error;
#[cfg(feature = "load")]
mod explain;
pub mod home;
pub mod key_values;
#[cfg(feature = "load")]
mod load;
mod missing_feature;
pub mod regular;
mod secret;
pub mod spelling;
#[cfg(all(test, feature = "load"))]
mod tests;

pub use error::{ConfigError, Validate};
#[cfg(feature = "load")]
pub use load::{ENV_PREFIX, load, load_from};
pub use missing_feature::MissingFeature;
pub use secret::Secret;
pub use spelling::suggest;
