//! Values that must not be shown.

use std::{fmt, fs};

use secrecy::{ExposeSecret, SecretString};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor},
};

/// A secret: read from configuration, never printed and never written back; its memory is wiped
/// when dropped.
///
/// In a configuration it is `{ env = "NAME" }`, `{ file = "/path" }` (trailing line break dropped),
/// or the plain value, meant for an environment variable of ours. A variable or file that is named
/// but missing or empty is refused while the configuration is loaded; an absent key or an empty
/// string is an empty secret.
#[derive(Clone, Default)]
pub struct Secret(Option<SecretString>);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Some(SecretString::from(value.into())))
    }

    /// Takes the secret from an environment variable; absent or empty gives an empty secret.
    pub fn from_env(variable: &str) -> Self {
        Self(
            std::env::var(variable)
                .ok()
                .filter(|v| !v.is_empty())
                .map(SecretString::from),
        )
    }

    /// Whether there is no secret.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The secret itself, for the one place that sends it.
    pub fn expose(&self) -> Option<&str> {
        self.0.as_ref().map(ExposeSecret::expose_secret)
    }

    fn named_variable(name: &str) -> Result<Self, String> {
        let secret = Self::from_env(name);
        if secret.is_empty() {
            return Err(format!(
                "environment variable {name} is not set or empty; put the secret in it"
            ));
        }
        Ok(secret)
    }

    fn named_file(path: &str) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("secret file {path} cannot be read: {error}"))?;
        match text.trim_end_matches(['\n', '\r']) {
            "" => Err(format!("secret file {path} is empty; write the secret into it")),
            value => Ok(Self::new(value)),
        }
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secret(none)" } else { "Secret(set)" })
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret: { env = \"NAME\" }, { file = \"PATH\" } or a string")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Secret, E> {
        Ok(if value.is_empty() {
            Secret::default()
        } else {
            Secret::new(value)
        })
    }

    fn visit_unit<E: de::Error>(self) -> Result<Secret, E> {
        Ok(Secret::default())
    }

    fn visit_none<E: de::Error>(self) -> Result<Secret, E> {
        Ok(Secret::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Secret, D::Error> {
        Secret::deserialize(deserializer)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Secret, A::Error> {
        let mut found = None;
        while let Some((key, value)) = map.next_entry::<String, String>()? {
            if found.is_some() {
                return Err(de::Error::custom("give either env or file, not both"));
            }
            found = Some(match key.as_str() {
                "env" => Secret::named_variable(&value),
                "file" => Secret::named_file(&value),
                _ => return Err(de::Error::unknown_field(&key, &["env", "file"])),
            });
        }
        found
            .unwrap_or_else(|| Err("give env or file".to_owned()))
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_never_printed_or_written_back() {
        let secret: Secret = serde_json::from_value(json!("hunter2")).unwrap();
        assert_eq!(secret.expose(), Some("hunter2"));
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(serde_json::to_string(&secret).unwrap(), "null");
    }

    #[test]
    fn a_secret_file_loses_its_line_break_and_must_not_be_empty() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\r\n").unwrap();
        let secret: Secret = serde_json::from_value(json!({"file": file.path()})).unwrap();
        assert_eq!(secret.expose(), Some("s3cret"));
        std::fs::write(file.path(), "\n").unwrap();
        let error = serde_json::from_value::<Secret>(json!({"file": file.path()}))
            .unwrap_err()
            .to_string();
        assert!(error.contains("is empty"), "{error}");
    }

    #[test]
    fn a_named_variable_that_is_missing_is_refused() {
        let error = serde_json::from_value::<Secret>(json!({"env": "ISOMER_NO_SUCH_VARIABLE"}))
            .unwrap_err()
            .to_string();
        assert!(error.contains("ISOMER_NO_SUCH_VARIABLE"), "{error}");
        // PATH is an example of a variable that is set wherever tests run.
        let secret: Secret = serde_json::from_value(json!({"env": "PATH"})).unwrap();
        assert_eq!(secret.expose(), std::env::var("PATH").ok().as_deref());
    }

    #[test]
    fn absent_and_empty_are_no_secret() {
        for value in [json!(null), json!("")] {
            assert!(serde_json::from_value::<Secret>(value).unwrap().is_empty());
        }
    }
}
