//! Turns errors of figment and serde into a [`ConfigError`] that names field, place and hint.

use figment::{Figment, error::Kind, value::Value};
use serde_ignored::Path;

use super::{ConfigError, spelling::suggest};

/// The keys of a path, from the outside in. Options and newtypes add no key of their own.
pub(super) fn segments(path: &Path<'_>) -> Vec<String> {
    match path {
        Path::Root => Vec::new(),
        Path::Seq { parent, index } => extended(parent, index.to_string()),
        Path::Map { parent, key } => extended(parent, key.clone()),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => segments(parent),
    }
}

fn extended(parent: &Path<'_>, key: String) -> Vec<String> {
    let mut keys = segments(parent);
    keys.push(key);
    keys
}

/// A type, shape or name that does not match.
pub(super) fn misfit(error: &figment::Error, layers: &Figment) -> ConfigError {
    let mut path = error.path.clone();
    let (message, hint) = match &error.kind {
        Kind::InvalidType(found, expected) => (format!("{found} does not fit"), format!("give {expected}")),
        Kind::InvalidValue(found, expected) => (format!("{found} is out of range"), format!("give {expected}")),
        Kind::InvalidLength(length, expected) => (format!("{length} items do not fit"), format!("give {expected}")),
        Kind::UnknownVariant(found, names) => (format!("unknown value `{found}`"), suggest(found, names)),
        Kind::UnknownField(found, names) => {
            // Some of figment's errors carry the key in their path already.
            if path.last() != Some(found) {
                path.push(found.clone());
            }
            ("unknown key".to_owned(), suggest(found, names))
        }
        Kind::MissingField(name) => {
            path.push(name.to_string());
            ("is missing".to_owned(), "add it".to_owned())
        }
        other => (other.to_string(), String::new()),
    };
    // The tag of a merged section is that of one of its layers; only the leaf says where it was
    // written.
    let place = origin(layers, &path).or_else(|| error.metadata.as_ref().map(|metadata| metadata.name.to_string()));
    ConfigError::new(path.join("."), message, hint).written_in(place)
}

/// A key that nothing reads; `known` is the configuration as it was understood.
pub(super) fn unread(path: &[String], known: Option<&Value>, layers: &Figment) -> ConfigError {
    let (key, parents) = path
        .split_last()
        .map_or(("", &[][..]), |(key, parents)| (key.as_str(), parents));
    let names: Vec<&str> = match known.and_then(|known| find(known, parents)) {
        Some(Value::Dict(_, dict)) => dict.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    ConfigError::new(path.join("."), "unknown key", suggest(key, &names)).written_in(origin(layers, path))
}

/// The place where the value at `path`, or else the nearest section above it, was written.
pub(super) fn origin(layers: &Figment, path: &[String]) -> Option<String> {
    (1..=path.len()).rev().find_map(|length| {
        layers
            .find_metadata(&path[..length].join("."))
            .map(|metadata| metadata.name.to_string())
    })
}

fn find<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    let Some((key, rest)) = path.split_first() else {
        return Some(value);
    };
    match value {
        Value::Dict(_, dict) => find(dict.get(key)?, rest),
        Value::Array(_, items) => find(items.get(key.parse::<usize>().ok()?)?, rest),
        _ => None,
    }
}
