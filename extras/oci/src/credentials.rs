//! Credentials from Docker's configuration, which `docker login` and `oras login` write.

use std::{fs, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use isomer_service_kit::config::Secret;
use serde_json::Value;

use crate::error::{OciError, Result};

/// A user and a password; empty: no login.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    pub username: String,
    /// The password, or a token in its place.
    pub password: Secret,
}

impl Credentials {
    /// The values of `ISOMER_OCI_USERNAME` and `ISOMER_OCI_PASSWORD`; else the entry for the host
    /// in `config.json` in `DOCKER_CONFIG` (`~/.docker`).
    ///
    /// # Errors
    /// If that file cannot be read, or stores the password with a helper.
    pub fn of(host: &str) -> Result<Self> {
        let username = std::env::var("ISOMER_OCI_USERNAME").unwrap_or_default();
        if !username.is_empty() {
            return Ok(Self {
                username,
                password: Secret::from_env("ISOMER_OCI_PASSWORD"),
            });
        }
        let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker"));
        let Some(file) = folder.or_else(home).map(|folder| folder.join("config.json")) else {
            return Ok(Self::default());
        };
        let credentials_error = |message: String| OciError::Credentials {
            file: file.clone(),
            message,
        };
        match fs::read_to_string(&file) {
            Ok(text) => in_config(&text, host).map_err(credentials_error),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(credentials_error(error.to_string())),
        }
    }

    /// Whether the credentials are empty.
    pub fn is_none(&self) -> bool {
        self.username.is_empty()
    }
}

fn in_config(text: &str, host: &str) -> Result<Credentials, String> {
    let config: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let entry = config["auths"].as_object().and_then(|all| {
        let is_host = |key: &str| {
            let plain = key.trim_start_matches("https://").trim_start_matches("http://");
            plain.split('/').next() == Some(host)
        };
        all.iter().find(|(key, _)| is_host(key)).map(|(_, entry)| entry)
    });
    let encoded = entry
        .and_then(|entry| entry["auth"].as_str())
        .filter(|text| !text.is_empty());
    if let Some(encoded) = encoded {
        let decoded = STANDARD
            .decode(encoded)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded
            .as_deref()
            .and_then(|text| text.trim_end_matches('\0').split_once(':'));
        let (username, password) = pair.ok_or_else(|| format!("the entry of {host} is not a user and a password"))?;
        return Ok(Credentials {
            username: username.to_owned(),
            password: Secret::new(password),
        });
    }
    let helper = config["credHelpers"][host].as_str();
    // With a credential store, there is an empty entry for each registry with a login.
    let store = config["credsStore"].as_str().filter(|_| entry.is_some());
    match helper.or(store) {
        Some(helper) => Err(format!(
            "the password for {host} is kept by the program docker-credential-{helper}, which is not run here: give \
             ISOMER_OCI_USERNAME and ISOMER_OCI_PASSWORD"
        )),
        None => Ok(Credentials::default()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_password_is_that_of_its_host_alone() {
        let pair = STANDARD.encode("ann:pa:ss");
        let text = format!(
            r#"{{"auths": {{"r.io": {{"auth": "{pair}"}}, "https://index.docker.io/v1/": {{"auth": "{pair}"}}}}}}"#
        );
        let of = |host: &str| in_config(&text, host).unwrap();
        let found = of("r.io");
        assert_eq!(
            (found.username.as_str(), found.password.expose()),
            ("ann", Some("pa:ss"))
        );
        assert_eq!(of("index.docker.io").username, "ann");
        for other in ["evil.io", "r.io.evil.com", "r.io:5000", "io"] {
            assert!(of(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_password_elsewhere_is_told_of_and_not_taken_for_none() {
        let text = r#"{"auths": {"r.io": {}}, "credsStore": "pass", "credHelpers": {"g.io": "gcloud"}}"#;
        assert!(in_config(text, "r.io").unwrap_err().contains("docker-credential-pass"));
        assert!(
            in_config(text, "g.io")
                .unwrap_err()
                .contains("docker-credential-gcloud")
        );
        assert!(in_config(text, "other.io").unwrap().is_none());
        assert!(in_config(r#"{"auths": {"r.io": {"auth": "***"}}}"#, "r.io").is_err());
        assert!(in_config("[", "r.io").is_err());
    }
}
