//! Sections of a configuration that a build has no code for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ConfigError;

/// Stands for a section whose Cargo feature is off. It reads any keys, so that the error is about
/// the feature and not about an unknown key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MissingFeature(Map<String, Value>);

impl MissingFeature {
    /// Refuses a section that has keys.
    ///
    /// # Errors
    /// Names the first key, the feature and how to get it.
    pub fn refuse(&self, section: &str, feature: &str) -> Result<(), ConfigError> {
        match self.0.keys().next() {
            Some(key) => Err(ConfigError::new(
                format!("{section}.{key}"),
                format!("needs the feature `{feature}`, which this build lacks"),
                format!("build with `--features {feature}` or `--features full`"),
            )),
            None => Ok(()),
        }
    }
}
