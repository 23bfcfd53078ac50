//! Serialisers of some clients write `null` where others leave a field out. Both mean the default.

use serde::{Deserialize, Deserializer};

/// A value, or the default of its type for `null`. With `#[serde(default)]` beside it, for a field
/// that is left out.
///
/// # Errors
/// What the value's own type refuses.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}
