//! The current files of a model, for evidence.

use std::{collections::BTreeMap, path::Path};

use crate::{catalogue::ModelKind, digest, error::ModelError, folder, manifest, progress::Reporter};

/// Endings of an encoder's files that may affect its vectors.
const READ: [&str; 5] = ["json", "txt", "safetensors", "vec", "jinja"];

/// Whether a file of this name in an encoder's folder may affect its vectors.
pub fn is_read(path: &str) -> bool {
    ends_with(path, &READ)
}

/// Whether a file's name has one of these endings, ignoring case.
pub fn ends_with(path: &str, endings: &[&str]) -> bool {
    let ending = path.rsplit('/').next().and_then(|name| name.rsplit_once('.'));
    ending.is_some_and(|(_, ending)| endings.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

/// SHA-256 (hex) of the files of a model, each read in full: evidence does not rely on earlier
/// digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// Digest of the weights, like [`crate::ResolvedModel::weights_digest`].
    pub weights_digest: String,
    /// Digest of each file, by its path relative to the model's folder, with `/`. Hidden files are
    /// left out.
    pub files: BTreeMap<String, String>,
}

impl ModelFiles {
    /// Reads the files of a model's folder, or its only file.
    ///
    /// # Errors
    /// If it is not a model, or a file cannot be read.
    pub fn read(path: &Path, kind: ModelKind) -> Result<Self, ModelError> {
        Self::read_reporting(path, kind, None)
    }

    pub(crate) fn read_reporting(
        path: &Path,
        kind: ModelKind,
        reporter: Option<&Reporter>,
    ) -> Result<Self, ModelError> {
        let weights = folder::inspect(path, kind)?;
        let is_folder = path.is_dir();
        let names = if is_folder {
            manifest::files_under(path)?
        } else {
            weights.clone()
        };
        let full = |name: &str| if is_folder { path.join(name) } else { path.to_path_buf() };
        let files = names
            .into_iter()
            .map(|name| Ok((name.clone(), digest::file_reporting(&full(&name), reporter)?)))
            .collect::<Result<BTreeMap<_, _>, ModelError>>()?;
        let of_weights = weights.into_iter().map(|name| match files.get(&name) {
            Some(digest) => Ok((name, digest.clone())),
            None => Err(ModelError::PathMissing { path: path.join(name) }),
        });
        Ok(Self {
            weights_digest: digest::together(of_weights.collect::<Result<_, _>>()?),
            files,
        })
    }
}

/// Differences between an encoder and the one whose files have these digests, in words. An added
/// file counts if it [is read](is_read), because other programs leave their own files in a folder.
pub fn differences(checked: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let changed_or_missing = checked.iter().filter_map(|(path, digest)| match found.get(path) {
        Some(now) if now == digest => None,
        Some(_) => Some(format!("{path} has other contents")),
        None => Some(format!("{path} is missing")),
    });
    let added = found
        .keys()
        .filter(|path| is_read(path) && !checked.contains_key(*path));
    changed_or_missing
        .chain(added.map(|path| format!("{path} was added")))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    /// A folder with those files of an encoder that are checked here.
    fn encoder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let header = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        let mut weights = (header.len() as u64).to_le_bytes().to_vec();
        weights.extend(header);
        weights.extend([0; 4]);
        fs::write(folder.path().join("model.safetensors"), weights).unwrap();
        for name in [
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "1_Pooling/config.json",
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}").unwrap();
        }
        fs::write(folder.path().join("README.md"), "An encoder.").unwrap();
        folder
    }

    fn read(folder: &Path) -> ModelFiles {
        ModelFiles::read(folder, ModelKind::Encoder).unwrap()
    }

    #[test]
    fn every_file_that_was_changed_removed_or_added_is_named() {
        let folder = encoder();
        let checked = read(folder.path());
        assert_eq!(checked.files.len(), 6);
        assert_eq!(
            checked.weights_digest,
            digest::file(&folder.path().join("model.safetensors")).unwrap()
        );
        let of = |folder: &Path| differences(&checked.files, &read(folder).files);
        assert!(of(folder.path()).is_empty());
        for name in checked.files.keys().filter(|name| *name != "model.safetensors") {
            let path = folder.path().join(name);
            let (old, time) = (
                fs::read(&path).unwrap(),
                fs::metadata(&path).unwrap().modified().unwrap(),
            );
            // The file has the same length and the old time.
            fs::write(
                &path,
                if old.len() == 2 {
                    b"[]".to_vec()
                } else {
                    vec![b' '; old.len()]
                },
            )
            .unwrap();
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(time)
                .unwrap();
            assert_eq!(of(folder.path()), [format!("{name} has other contents")]);
            if !["config.json", "tokenizer.json"].contains(&name.as_str()) {
                fs::remove_file(&path).unwrap();
                assert_eq!(of(folder.path()), [format!("{name} is missing")]);
            }
            fs::write(&path, &old).unwrap();
        }
        fs::write(folder.path().join("added_tokens.json"), "{}").unwrap();
        fs::write(folder.path().join("MLmodel"), "flavors: {}").unwrap();
        assert_eq!(of(folder.path()), ["added_tokens.json was added"]);
    }
}
