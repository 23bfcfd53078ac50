//! Layered configuration: built-in default ← TOML file ← environment (`ISOMER_SECTION__KEY`) ← flags.
//!
//! A configuration struct is plain serde with `#[serde(default, deny_unknown_fields)]`, a [`Default`] that is the built-in
//! layer, and [`Validate`] for what types cannot say. [`load`] names the key, where it came from, and how to mend it.

use std::{fmt, path::Path};

use figment::{
    Figment, Provider,
    providers::{Env, Format, Serialized, Toml},
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Prefix of environment variables. A variable counts as configuration when a double underscore parts section and key:
/// `ISOMER_EMBED__MAX_BATCH_TOKENS`. (`ISOMER_HOME` and the like belong to the command line.)
pub const ENV_PREFIX: &str = "ISOMER_";

/// What is wrong with a configuration, where, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    field: String,
    message: String,
    mend: String,
    origin: Option<String>,
}

impl ConfigError {
    /// A value that cannot be used: path of the key (`embed.max_batch_tokens`), what is wrong, how to mend it.
    pub fn new(field: impl Into<String>, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), mend: mend.into(), origin: None }
    }

    /// Path of the key.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The same error, seen from the section that holds it: `max_batch_tokens` becomes `embed.max_batch_tokens`.
    #[must_use]
    pub fn within(mut self, section: &str) -> Self {
        self.field = format!("{section}.{}", self.field);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("configuration: ")?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        if let Some(origin) = &self.origin {
            write!(f, ", in {origin}")?;
        }
        if !self.mend.is_empty() {
            write!(f, "; {}", self.mend)?;
        }
        Ok(())
    }
}

/// Checks what types cannot say. Called before anything is bound, opened or loaded.
pub trait Validate {
    /// The first thing that is wrong.
    fn validate(&self) -> Result<(), ConfigError>;
}

/// Reads a configuration from its layers and validates it.
///
/// `overrides` is the flag layer: any serialisable map; keys that are absent leave the layers below alone.
pub fn load<T>(file: Option<&Path>, overrides: &impl Serialize) -> Result<T, ConfigError>
where
    T: DeserializeOwned + Serialize + Default + Validate,
{
    load_from(file, Env::prefixed(ENV_PREFIX).filter(|key| key.as_str().contains("__")).split("__"), overrides)
}

fn load_from<T>(file: Option<&Path>, environment: impl Provider, overrides: &impl Serialize) -> Result<T, ConfigError>
where
    T: DeserializeOwned + Serialize + Default + Validate,
{
    let mut layers = Figment::from(Serialized::defaults(T::default()));
    if let Some(file) = file {
        if !file.is_file() {
            return Err(ConfigError::new("", format!("no file {}", file.display()), "check the path"));
        }
        layers = layers.merge(Toml::file_exact(file));
    }
    let value: T = layers.merge(environment).merge(Serialized::defaults(overrides)).extract().map_err(explain)?;
    value.validate()?;
    Ok(value)
}

fn explain(error: figment::Error) -> ConfigError {
    use figment::error::Kind;
    let origin = error.metadata.as_ref().map(|m| match &m.source {
        Some(source) => format!("{source}"),
        None => m.name.to_string(),
    });
    let field = error.path.join(".");
    let (message, mend) = match &error.kind {
        Kind::UnknownField(name, known) => {
            (format!("unknown key `{name}`"), nearest(name, known).unwrap_or_else(|| format!("known keys: {}", known.join(", "))))
        }
        Kind::UnknownVariant(name, known) => (format!("unknown value `{name}`"), format!("one of {}", known.join(", "))),
        kind => (kind.to_string(), "correct the value".to_owned()),
    };
    ConfigError { field, message, mend, origin }
}

fn nearest(name: &str, known: &[&str]) -> Option<String> {
    let best = known.iter().min_by_key(|k| distance(name, k))?;
    (distance(name, best) <= name.len().div_ceil(3)).then(|| format!("did you mean `{best}`?"))
}

/// Levenshtein distance over characters; names are short.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// A secret: read from configuration, never printed and never written back.
#[derive(Clone, Default)]
pub struct Secret(Option<SecretString>);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Some(SecretString::from(value.into())))
    }

    /// Takes the secret from an environment variable; absent or empty gives an empty secret.
    pub fn from_env(variable: &str) -> Self {
        Self(std::env::var(variable).ok().filter(|v| !v.is_empty()).map(SecretString::from))
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The secret itself, for the one place that sends it.
    pub fn expose(&self) -> Option<&str> {
        self.0.as_ref().map(ExposeSecret::expose_secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secret(none)" } else { "Secret(set)" })
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::<String>::deserialize(deserializer)?.filter(|v| !v.is_empty()).map(SecretString::from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Serialize, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Sample {
        port: u16,
        nested: Nested,
    }
    #[derive(Debug, Default, Serialize, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Nested {
        max_items: u32,
        key: Secret2,
    }
    type Secret2 = Option<String>;
    impl Default for Sample {
        fn default() -> Self {
            Self { port: 1, nested: Nested { max_items: 8, key: None } }
        }
    }
    impl Validate for Sample {
        fn validate(&self) -> Result<(), ConfigError> {
            match self.nested.max_items {
                0 => Err(ConfigError::new("max_items", "is 0", "give at least 1").within("nested")),
                _ => Ok(()),
            }
        }
    }

    fn read(toml: &str, environment: serde_json::Value, flags: serde_json::Value) -> Result<Sample, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), toml).unwrap();
        load_from(Some(file.path()), Serialized::defaults(environment), &flags)
    }

    #[test]
    fn each_layer_overrides_the_one_below() {
        let none = json!({});
        assert_eq!(read("", none.clone(), none.clone()).unwrap().nested.max_items, 8);
        assert_eq!(read("[nested]\nmax_items = 9", none.clone(), none.clone()).unwrap().nested.max_items, 9);
        let environment = json!({"nested": {"max_items": 10}});
        assert_eq!(read("[nested]\nmax_items = 9", environment.clone(), none).unwrap().nested.max_items, 10);
        let value = read("port = 7\n[nested]\nmax_items = 9", environment, json!({"nested": {"max_items": 11}})).unwrap();
        assert_eq!((value.port, value.nested.max_items), (7, 11));
    }

    #[test]
    fn a_typo_names_the_key_its_file_and_the_nearest_name() {
        let error = read("[nested]\nmax_itmes = 9", json!({}), json!({})).unwrap_err().to_string();
        assert!(error.contains("max_itmes") && error.contains("did you mean `max_items`?") && error.contains("tmp"), "{error}");
    }

    #[test]
    fn a_wrong_type_names_the_key() {
        let error = read("port = \"high\"", json!({}), json!({})).unwrap_err().to_string();
        assert!(error.contains("port") && error.contains("high"), "{error}");
    }

    #[test]
    fn validation_names_the_whole_path() {
        let error = read("[nested]\nmax_items = 0", json!({}), json!({})).unwrap_err();
        assert_eq!(error.field(), "nested.max_items");
    }

    #[test]
    fn a_missing_file_is_told() {
        let error = load::<Sample>(Some(Path::new("/no/such.toml")), &json!({})).unwrap_err().to_string();
        assert!(error.contains("/no/such.toml"), "{error}");
    }

    #[test]
    fn a_secret_is_never_printed_or_written_back() {
        let secret: Secret = serde_json::from_value(json!("hunter2")).unwrap();
        assert_eq!(secret.expose(), Some("hunter2"));
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(serde_json::to_string(&secret).unwrap(), "null");
    }
}
