//! Ids on the hub, and the files of a repository that make up a model.

use std::path::{Component, Path};

use isomer_config::spelling::{is_plain_name, is_repository};

use super::{
    HubFailure,
    repository::{Kind, Repository},
};
use crate::{catalogue::ModelKind, pattern};

/// A repository, and the requested part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubModel {
    /// `org/name`.
    pub repo: String,
    /// Commit, tag or branch; absent = `main`.
    pub revision: Option<String>,
    /// The requested file, for a generator.
    pub file: Option<String>,
}

impl HubModel {
    /// Reads `org/name`, `org/name@revision`, `org/name:file.gguf`, `org/name@revision:file.gguf`.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, file) = match text.split_once(':') {
            Some((text, file)) => (text, Some(file)),
            None => (text, None),
        };
        let (repo, revision) = match text.split_once('@') {
            Some((repo, revision)) => (repo, Some(revision)),
            None => (text, None),
        };
        let file_is_plain = file.is_none_or(|file| file.split('/').all(is_plain_name));
        (is_repository(repo, revision) && file_is_plain).then(|| Self {
            repo: repo.to_owned(),
            revision: revision.map(str::to_owned),
            file: file.map(str::to_owned),
        })
    }

    pub(super) fn repository(&self) -> Repository {
        Repository {
            kind: Kind::Model,
            id: self.repo.clone(),
            revision: self.revision.clone().unwrap_or_else(|| "main".into()),
        }
    }
}

impl std::fmt::Display for HubModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.repo)?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))
    }
}

/// The files of a repository that make up the model.
pub(super) fn wanted_files(
    listed: &[String],
    model: &HubModel,
    kind: ModelKind,
    weights: Option<&str>,
) -> Result<Vec<String>, HubFailure> {
    match kind {
        ModelKind::Generator => wanted_gguf(listed, model, weights),
        ModelKind::Encoder => wanted_encoder_files(listed, model),
    }
}

fn wanted_gguf(listed: &[String], model: &HubModel, weights: Option<&str>) -> Result<Vec<String>, HubFailure> {
    let ggufs: Vec<&String> = listed
        .iter()
        .filter(|file| file.to_lowercase().ends_with(".gguf"))
        .collect();
    let choices = || ggufs.iter().map(|file| file.as_str()).collect::<Vec<_>>().join(", ");
    match (model.file.as_deref().or(weights), ggufs.as_slice()) {
        // Names are compared ignoring case, since quantisers spell them differently.
        (Some(file), _) => match listed.iter().find(|name| name.eq_ignore_ascii_case(file)) {
            Some(name) => Ok(vec![name.clone()]),
            None => Err(HubFailure::refused(
                format!("{file} is not in it"),
                format!("it has: {}", choices()),
            )),
        },
        (None, [only]) => Ok(vec![(*only).clone()]),
        (None, []) => Err(HubFailure::refused(
            "it has no .gguf file",
            "name a repository with GGUF files",
        )),
        (None, _) => Err(HubFailure::refused(
            "it has several .gguf files",
            format!("name one as {}:FILE; it has: {}", model.repo, choices()),
        )),
    }
}

fn wanted_encoder_files(listed: &[String], model: &HubModel) -> Result<Vec<String>, HubFailure> {
    const FOREIGN: [&str; 6] = ["onnx/*", "openvino/*", "coreml/*", "*.onnx", "*.bin", "*.h5"];
    const WANTED: [&str; 4] = ["*.json", "*.safetensors", "*vocab.txt", "*.model"];
    let mut files: Vec<String> = listed
        .iter()
        .filter(|file| WANTED.iter().any(|p| pattern::matches(p, file)))
        .filter(|file| !FOREIGN.iter().any(|p| pattern::matches(p, file)))
        .filter(|file| {
            Path::new(file)
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
        })
        .filter(|file| file.matches('/').count() <= 1)
        .cloned()
        .collect();
    files.sort();
    if !files.iter().any(|file| file.ends_with(".safetensors")) {
        let pickle = listed.iter().any(|file| file.ends_with("pytorch_model.bin"));
        let hint = if pickle {
            "it has pytorch_model.bin only, a pickle, which is not opened; convert it in Python: \
             SentenceTransformer(ID).save_pretrained(FOLDER, safe_serialization=True), then give the folder"
        } else {
            "name a repository saved by sentence-transformers"
        };
        return Err(HubFailure::refused(
            format!("`{model}` has no safetensors weights"),
            hint,
        ));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn hub_ids_are_read_with_revision_and_file() {
        let full = HubModel::parse("org/name@v1:a.gguf").unwrap();
        assert_eq!(
            (full.repo.as_str(), full.revision.as_deref(), full.file.as_deref()),
            ("org/name", Some("v1"), Some("a.gguf"))
        );
        assert_eq!(HubModel::parse("org/name").unwrap().revision, None);
        for bad in ["name", "a/b/c", "org/", "../name", "org/name:../x", "org/na me"] {
            assert_eq!(HubModel::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_encoder_takes_the_sentence_transformers_files_and_no_foreign_weights() {
        let model = HubModel::parse("org/name").unwrap();
        let listed = strings(&[
            "README.md",
            "config.json",
            "modules.json",
            "1_Pooling/config.json",
            "2_Dense/model.safetensors",
            "model.safetensors",
            "pytorch_model.bin",
            "onnx/model.onnx",
            "onnx/config.json",
            "vocab.txt",
            "../evil.json",
        ]);
        assert_eq!(
            wanted_files(&listed, &model, ModelKind::Encoder, None).unwrap(),
            [
                "1_Pooling/config.json",
                "2_Dense/model.safetensors",
                "config.json",
                "model.safetensors",
                "modules.json",
                "vocab.txt"
            ]
        );
        let pickled = wanted_files(
            &strings(&["config.json", "pytorch_model.bin"]),
            &model,
            ModelKind::Encoder,
            None,
        );
        assert!(matches!(pickled, Err(HubFailure::Refused { hint, .. }) if hint.contains("pickle")));
    }

    #[test]
    fn one_gguf_file_is_taken_and_several_are_listed() {
        let model = HubModel::parse("org/name").unwrap();
        let pick = |names: &[&str], weights| wanted_files(&strings(names), &model, ModelKind::Generator, weights);
        assert_eq!(pick(&["a.Q4.gguf", "README.md"], None).unwrap(), ["a.Q4.gguf"]);
        assert_eq!(
            pick(&["a-Q4.gguf", "a-Q8.gguf"], Some("A-q4.gguf")).unwrap(),
            ["a-Q4.gguf"]
        );
        let several = pick(&["a-Q4.gguf", "a-Q8.gguf"], None).unwrap_err();
        assert!(matches!(several, HubFailure::Refused { hint, .. } if hint.contains("a-Q4.gguf, a-Q8.gguf")));
    }
}
