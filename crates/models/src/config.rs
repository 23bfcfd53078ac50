//! Where models are kept and which ways out to a network may be taken.

use std::{env, path::PathBuf};

use isomer_config::{
    ConfigError, Validate,
    home::{self, user_cache},
};
use serde::{Deserialize, Serialize};

/// Settings of a [`crate::Resolver`].
///
/// `Default` is the built-in default with the environment laid over it. Where a file is read in
/// between, call [`ModelsConfig::with_env`] on the result, so that the environment wins over the
/// file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsConfig {
    /// Folder of the cache; `ISOMER_HOME`, else `isomer` in the user's cache folder.
    pub home: PathBuf,
    /// A catalogue file of one's own; `ISOMER_CATALOGUE`. Its entries replace built-in ones of the
    /// same id, and are replaced by those of `<home>/catalogue.toml`.
    pub catalogue: Option<PathBuf>,
    /// Never use a network; `ISOMER_OFFLINE` or `HF_HUB_OFFLINE`.
    pub offline: bool,
    /// Whether a server downloads a model of the catalogue because a request names it. Off: such a
    /// request is refused until `isomer models pull` has fetched the model. Models that the
    /// configuration or the command line names are downloaded either way.
    pub download_on_request: bool,
    /// Whether the Hugging Face hub is asked at all.
    pub hub: bool,
    /// Address of the hub; `HF_ENDPOINT`, else `https://huggingface.co`.
    pub hub_endpoint: Option<String>,
    /// The hub's cache, shared with Python's; `HF_HUB_CACHE`, `HF_HOME/hub`, else `huggingface/hub`
    /// in the user's cache folder. The token is never part of the configuration: it is read from
    /// `HF_TOKEN` or the file beside this cache.
    pub hub_cache: Option<PathBuf>,
    /// Seconds in which the hub must answer the first question; then it counts as unreachable. 0 <
    /// value ≤ 60.
    pub hub_timeout_s: f64,
    /// The Python that runs pip; `ISOMER_PYTHON`, else `python3`, else `python` on the path.
    pub python: Option<PathBuf>,
    /// Further arguments of `pip download`, e.g. `["--index-url", "https://mirror/simple"]`.
    pub pip_args: Vec<String>,
}

impl Default for ModelsConfig {
    fn default() -> Self {
        Self {
            home: home::folder(),
            catalogue: None,
            offline: false,
            download_on_request: false,
            hub: true,
            hub_endpoint: None,
            hub_cache: None,
            hub_timeout_s: 5.0,
            python: None,
            pip_args: Vec::new(),
        }
        .with_env()
    }
}

impl ModelsConfig {
    /// Overrides these settings with the environment.
    #[must_use]
    pub fn with_env(mut self) -> Self {
        if let Some(home) = home::from_env() {
            self.home = home;
        }
        if let Some(catalogue) = path_var("ISOMER_CATALOGUE") {
            self.catalogue = Some(catalogue);
        }
        if let Some(offline) = bool_var("ISOMER_OFFLINE").or_else(|| bool_var("HF_HUB_OFFLINE").filter(|&on| on)) {
            self.offline = offline;
        }
        if let Some(endpoint) = env::var("HF_ENDPOINT").ok().filter(|v| !v.is_empty()) {
            self.hub_endpoint = Some(endpoint);
        }
        if let Some(cache) = path_var("HF_HUB_CACHE").or_else(|| path_var("HF_HOME").map(|home| home.join("hub"))) {
            self.hub_cache = Some(cache);
        }
        if let Some(python) = path_var("ISOMER_PYTHON") {
            self.python = Some(python);
        }
        self
    }

    /// Folder of the cached models.
    pub fn models_dir(&self) -> PathBuf {
        self.home.join("models")
    }

    /// Folder of wheels being downloaded.
    pub fn downloads_dir(&self) -> PathBuf {
        self.home.join("downloads")
    }

    pub(crate) fn hub_endpoint(&self) -> String {
        self.hub_endpoint
            .as_deref()
            .unwrap_or("https://huggingface.co")
            .trim_end_matches('/')
            .to_owned()
    }

    pub(crate) fn hub_cache(&self) -> PathBuf {
        self.hub_cache
            .clone()
            .unwrap_or_else(|| user_cache().join("huggingface").join("hub"))
    }
}

impl Validate for ModelsConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.home.as_os_str().is_empty() {
            return Err(ConfigError::new(
                "home",
                "is empty",
                "name a folder, or set ISOMER_HOME",
            ));
        }
        if !(self.hub_timeout_s > 0.0 && self.hub_timeout_s <= 60.0) {
            let message = format!("{} s is not a valid time limit", self.hub_timeout_s);
            return Err(ConfigError::new(
                "hub_timeout_s",
                message,
                "give more than 0 and at most 60",
            ));
        }
        if let Some(endpoint) = &self.hub_endpoint {
            let sound = url::Url::parse(endpoint).is_ok_and(|url| url.has_host() && url.scheme().starts_with("http"));
            if !sound {
                let message = format!("`{endpoint}` is not an http(s) address");
                return Err(ConfigError::new(
                    "hub_endpoint",
                    message,
                    "give one like https://huggingface.co, or unset HF_ENDPOINT",
                ));
            }
        }
        if let Some(catalogue) = &self.catalogue
            && !catalogue.is_file()
        {
            let message = format!("`{}` is not a file", catalogue.display());
            return Err(ConfigError::new(
                "catalogue",
                message,
                "name a catalogue file, or leave it out",
            ));
        }
        Ok(())
    }
}

fn path_var(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `1`, `true`, `yes`, `on` are true, as in Python's hub client; anything else is false. An empty
/// value counts as not set.
fn bool_var(name: &str) -> Option<bool> {
    let value = env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(matches!(
        value.to_ascii_lowercase().as_str(),
        "1" | "true" | "yes" | "on"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn errors_name_the_field() {
        let cases: [(&str, ModelsConfig); 4] = [
            (
                "home",
                ModelsConfig {
                    home: PathBuf::new(),
                    ..Default::default()
                },
            ),
            (
                "hub_timeout_s",
                ModelsConfig {
                    hub_timeout_s: 0.0,
                    ..Default::default()
                },
            ),
            (
                "hub_endpoint",
                ModelsConfig {
                    hub_endpoint: Some("nowhere".into()),
                    ..Default::default()
                },
            ),
            (
                "catalogue",
                ModelsConfig {
                    catalogue: Some("/no/such.toml".into()),
                    ..Default::default()
                },
            ),
        ];
        for (field, config) in cases {
            assert_eq!(config.validate().expect_err(field).field(), field);
        }
        ModelsConfig {
            catalogue: None,
            hub_endpoint: None,
            ..Default::default()
        }
        .validate()
        .unwrap();
    }

    #[test]
    fn a_file_may_name_a_few_fields_only() {
        let config: ModelsConfig = toml::from_str("home = '/x'\noffline = true").unwrap();
        assert_eq!(config.home, PathBuf::from("/x"));
        assert!(config.offline && config.hub);
        assert!(toml::from_str::<ModelsConfig>("hme = '/x'").is_err());
    }
}
