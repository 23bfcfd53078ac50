//! Null values: some clients write `null` where others omit a field. Both mean the default.

use serde::{Deserialize, Deserializer};

/// A value, or its type's default for `null`. For a field that may be absent, combine it with
/// `#[serde(default)]`.
///
/// # Errors
/// If the value is invalid for its type.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}
