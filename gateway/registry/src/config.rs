//! Configuration of the registry.

use std::path::PathBuf;

use isomer_service_kit::config::{ConfigError, Validate};
use serde::{Deserialize, Serialize};

/// Settings of the registry (section `providers`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProvidersConfig {
    /// TOML file that declares providers, one `[[provider]]` table each; changes to it take effect
    /// within seconds.
    pub file: Option<PathBuf>,
    /// Interval in seconds at which the database is checked for changes of other gateways.
    pub poll_seconds: u64,
    /// Longest lease that a provider may request, in seconds.
    pub max_lease_seconds: u64,
    /// Maximum number of stored and leased providers.
    pub max_providers: usize,
    /// Environment variables that a provider registered by rpc may name as its secret (checked when
    /// it is registered or changed); `*` stands for any characters. None by default: the gateway
    /// sends their values to addresses that callers name, so list only variables that each caller
    /// with the scope `admin` may read.
    pub secret_environment: Vec<String>,
    /// Folders whose files a provider registered by rpc may name (secrets, TLS). Absolute; none: no
    /// files.
    pub file_dirs: Vec<PathBuf>,
}

impl Default for ProvidersConfig {
    fn default() -> Self {
        Self {
            file: None,
            poll_seconds: 2,
            max_lease_seconds: 24 * 3600,
            max_providers: 1000,
            secret_environment: Vec::new(),
            file_dirs: Vec::new(),
        }
    }
}

impl Validate for ProvidersConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        let within = |key: &str, value: u64, least: u64, most: u64| match value {
            value if (least..=most).contains(&value) => Ok(()),
            value => Err(ConfigError::new(
                key,
                format!("{value} is out of range"),
                format!("give {least} to {most} seconds"),
            )),
        };
        within("poll_seconds", self.poll_seconds, 1, 3600)?;
        within("max_lease_seconds", self.max_lease_seconds, 1, 366 * 24 * 3600)?;
        if self.secret_environment.iter().any(String::is_empty) {
            return Err(ConfigError::new(
                "secret_environment",
                "holds an empty name",
                "give names of variables, e.g. *_API_KEY",
            ));
        }
        if let Some(folder) = self.file_dirs.iter().find(|folder| !folder.is_absolute()) {
            return Err(ConfigError::new(
                "file_dirs",
                format!("`{}` is not absolute", folder.display()),
                "begin it with /",
            ));
        }
        Ok(())
    }
}
