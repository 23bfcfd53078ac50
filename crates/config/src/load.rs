//! Reads a configuration from its layers.

use std::{fs, path::Path};

use figment::{
    Figment, Metadata, Profile, Provider,
    error::Kind,
    value::{Dict, Map, Value},
};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use super::{ConfigError, Validate, explain};

/// Prefix of environment variables. A variable counts as configuration when a double underscore
/// separates section and key: `ISOMER_EMBED__MAX_BATCH_TOKENS`. (`ISOMER_HOME` and the like belong
/// to the command line.)
pub const ENV_PREFIX: &str = "ISOMER_";
const SEPARATOR: &str = "__";

/// Reads a configuration from its layers and validates it.
///
/// Environment values are read as TOML would read them (`7`, `true`, `[1, 2]`), and as text where
/// the key wants text. `overrides` is the flag layer: any serialisable map; keys that are absent or
/// null leave the layers below alone.
///
/// # Errors
/// The first thing wrong: file, key, type or value, with its place and hint.
pub fn load<T>(file: Option<&Path>, overrides: &impl Serialize) -> Result<T, ConfigError>
where
    T: DeserializeOwned + Serialize + Default + Validate,
{
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    load_from(file, environment, overrides)
}

/// [`load`] with the environment given, so that a test or an embedding program need not change its
/// own.
///
/// # Errors
/// As [`load`].
pub fn load_from<T>(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    overrides: &impl Serialize,
) -> Result<T, ConfigError>
where
    T: DeserializeOwned + Serialize + Default + Validate,
{
    let defaults = dict(&T::default(), "the built-in default")?;
    let file = file.map(read_file).transpose()?;
    let flags = dict(overrides, "the command line")?;
    let mut variables: Vec<Variable> = environment
        .into_iter()
        .filter_map(|(name, value)| Variable::parse(name, value))
        .collect();
    // The order of environment variables carries no meaning; a fixed order makes a clash of two
    // variables reproducible.
    variables.sort_by(|a, b| a.name.cmp(&b.name));
    // Only the type of the key says whether `0123` or `true` is meant as text, so a variable that
    // is refused for its type is tried once more as text: at most as many rounds as there are
    // variables.
    loop {
        let mut layers = Figment::from(defaults.clone());
        if let Some(file) = &file {
            layers = layers.merge(file.clone());
        }
        layers = variables
            .iter()
            .fold(layers, |layers, variable| layers.merge(variable.layer()));
        layers = layers.merge(flags.clone());
        match layers.extract::<TrackedValue<T>>() {
            Ok(tracked) => return accept(tracked, &layers),
            Err(error) if retry_as_text(&error, &mut variables) => {}
            Err(error) => return Err(explain::misfit(&error, &layers)),
        }
    }
}

fn accept<T: Serialize + Validate>(tracked: TrackedValue<T>, layers: &Figment) -> Result<T, ConfigError> {
    if let Some(path) = tracked.unread.first() {
        return Err(explain::unread(
            path,
            Value::serialize(&tracked.value).ok().as_ref(),
            layers,
        ));
    }
    tracked.value.validate().map_err(|error| {
        let path: Vec<String> = error.field().split('.').map(ToOwned::to_owned).collect();
        error.written_in(explain::origin(layers, &path))
    })?;
    Ok(tracked.value)
}

fn retry_as_text(error: &figment::Error, variables: &mut [Variable]) -> bool {
    let Some(place) = error.metadata.as_ref().map(|metadata| metadata.name.as_ref()) else {
        return false;
    };
    let refused = variables
        .iter_mut()
        .find(|variable| !variable.as_text && variable.place() == place);
    match (&error.kind, refused) {
        (Kind::InvalidType(..), Some(variable)) => {
            variable.as_text = true;
            true
        }
        _ => false,
    }
}

/// One source of values, as errors name it.
#[derive(Clone)]
struct Layer {
    place: String,
    dict: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.place.clone())
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}

/// One environment variable with our prefix.
struct Variable {
    name: String,
    path: Vec<String>,
    raw: String,
    as_text: bool,
}

impl Variable {
    fn parse(name: String, raw: String) -> Option<Self> {
        let key = name.strip_prefix(ENV_PREFIX)?;
        if !key.contains(SEPARATOR) {
            return None;
        }
        let path = key.split(SEPARATOR).map(str::to_ascii_lowercase).collect();
        Some(Self {
            name,
            path,
            raw,
            as_text: false,
        })
    }

    fn place(&self) -> String {
        format!("environment variable {}", self.name)
    }

    fn layer(&self) -> Layer {
        let read_as_toml = || self.raw.parse::<Value>().unwrap_or_else(|never| match never {});
        let leaf = if self.as_text {
            Value::from(self.raw.clone())
        } else {
            read_as_toml()
        };
        let nested = self
            .path
            .iter()
            .rev()
            .fold(leaf, |inner, key| Value::from(Dict::from([(key.clone(), inner)])));
        Layer {
            place: self.place(),
            dict: nested.into_dict().unwrap_or_default(),
        }
    }
}

fn read_file(path: &Path) -> Result<Layer, ConfigError> {
    let place = format!("file {}", path.display());
    let refuse = |message: String, hint: &str| ConfigError::new("", message, hint).written_in(Some(place.clone()));
    let text = fs::read_to_string(path).map_err(|error| {
        refuse(
            format!("cannot be read: {error}"),
            "give the path of a readable UTF-8 TOML file",
        )
    })?;
    let dict = toml::from_str::<Dict>(&text).map_err(|error| {
        refuse(
            format!("is not TOML: {}", error.to_string().trim_end()),
            "correct the line that the message names",
        )
    })?;
    Ok(Layer { place, dict })
}

/// A serialisable value as a layer, without absent values.
fn dict(value: &impl Serialize, place: &str) -> Result<Layer, ConfigError> {
    let refuse = |message: String| ConfigError::new("", message, "give a table of keys").written_in(Some(place.into()));
    let value = Value::serialize(value).map_err(|error| refuse(error.to_string()))?;
    let dict = match without_absent(value) {
        Some(Value::Dict(_, dict)) => dict,
        None => Dict::new(),
        Some(other) => return Err(refuse(format!("{} is not a table", other.to_actual()))),
    };
    Ok(Layer {
        place: place.to_owned(),
        dict,
    })
}

fn without_absent(value: Value) -> Option<Value> {
    match value {
        Value::Empty(..) => None,
        Value::Dict(tag, dict) => {
            let kept = dict
                .into_iter()
                .filter_map(|(key, value)| Some((key, without_absent(value)?)));
            Some(Value::Dict(tag, kept.collect()))
        }
        value => Some(value),
    }
}

/// A value together with the paths of the keys that nothing read, for structs that forgot
/// `deny_unknown_fields`.
struct TrackedValue<T> {
    value: T,
    unread: Vec<Vec<String>>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TrackedValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut unread = Vec::new();
        let value = serde_ignored::deserialize(deserializer, |path| unread.push(explain::segments(&path)))?;
        Ok(Self { value, unread })
    }
}
