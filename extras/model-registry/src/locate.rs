//! Finds the encoder among the files of a version. Pure: it reads paths and the text of `MLmodel`.
//!
//! A version with a sentence-transformers or Hugging Face folder with weights as safetensors is an
//! encoder, whatever its flavour. `sentence_transformers` stores it in
//! `model.sentence_transformer`, `transformers` in `model` with the tokenizer in
//! `components/tokenizer`, a pyfunc among its artifacts, and a folder that was logged unchanged at
//! the top. Pickles are never fetched.

use std::collections::BTreeSet;

use isomer_models::files::{ends_with, is_read};
use serde::Deserialize;

use crate::registry::StoredFile;

/// The file that describes a model of MLflow.
pub const DESCRIPTION: &str = "MLmodel";

/// Endings of files that a program would unpickle.
const PICKLES: [&str; 7] = ["pkl", "pickle", "bin", "pt", "pth", "joblib", "ckpt"];
/// Maximum number of folders and pickles that a reason names.
const NAMED: usize = 5;

/// An encoder among the files of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncoderFiles {
    /// Files to fetch: path in the version, path in the encoder's folder, size.
    pub files: Vec<FileRequest>,
    /// Its folder in the version; empty for the top.
    pub folder: String,
}

/// A file to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRequest {
    /// Path in the version.
    pub from: String,
    /// Path in the encoder's folder.
    pub to: String,
    /// Its size, if the store reports it.
    pub size: Option<u64>,
}

/// The parts of `MLmodel` that give the location of the encoder.
#[derive(Debug, Default, Deserialize)]
struct Description {
    #[serde(default)]
    flavors: Flavours,
}

#[derive(Debug, Default, Deserialize)]
struct Flavours {
    sentence_transformers: Option<serde_json::Value>,
    transformers: Option<Transformers>,
    python_function: Option<Pyfunc>,
}

#[derive(Debug, Deserialize)]
struct Transformers {
    #[serde(default)]
    model_binary: Option<String>,
    #[serde(default)]
    source_model_name: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Pyfunc {
    #[serde(default)]
    data: Option<String>,
    #[serde(default)]
    loader_module: String,
}

/// Finds the encoder among the files of a version. `description` is the text of its `MLmodel`, if
/// it has one.
///
/// # Errors
/// The reason why the version cannot be checked, as a sentence for people.
pub fn locate(files: &[StoredFile], description: Option<&str>) -> Result<EncoderFiles, String> {
    if let Some(bad) = files.iter().find(|file| !is_plain(&file.path)) {
        let shown: String = bad.path.chars().take(100).flat_map(char::escape_debug).collect();
        return Err(format!(
            "the registry lists the file `{shown}`, which would leave its folder"
        ));
    }
    let description: Description = match description {
        None => Description::default(),
        Some(text) => serde_norway::from_str(text).map_err(|error| format!("MLmodel cannot be read: {error}"))?,
    };
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let folder = folder(&paths, &description)?;
    let mut requests: Vec<FileRequest> = below(files, &folder);
    // The flavour `transformers` stores the tokenizer beside the model.
    if description.flavors.transformers.is_some() {
        let parent = folder
            .rsplit_once('/')
            .map_or(String::new(), |(parent, _)| format!("{parent}/"));
        for extra in below(files, &format!("{parent}components/tokenizer")) {
            if requests.iter().all(|known| known.to != extra.to) {
                requests.push(extra);
            }
        }
    }
    requests.sort_by(|a, b| a.to.cmp(&b.to));
    if !requests.iter().any(|file| ends_with(&file.to, &["safetensors"])) {
        return Err(without_weights(&paths, &description));
    }
    Ok(EncoderFiles {
        files: requests,
        folder,
    })
}

/// The folder of the encoder.
fn folder(paths: &BTreeSet<&str>, description: &Description) -> Result<String, String> {
    let flavours = &description.flavors;
    let named = match (
        &flavours.sentence_transformers,
        &flavours.transformers,
        &flavours.python_function,
    ) {
        (Some(_), _, pyfunc) => pyfunc.as_ref().and_then(|pyfunc| pyfunc.data.clone()),
        (None, Some(transformers), _) => transformers.model_binary.clone(),
        _ => None,
    };
    if let Some(named) = named.map(|named| named.trim_matches('/').to_owned())
        && paths.iter().any(|path| is_below(path, &named))
    {
        return Ok(named);
    }
    // A folder with `modules.json` is sentence-transformers', and the folders below it are its
    // modules.
    let folders: Vec<&str> = folders_with(paths, "modules.json").collect();
    let folders = match folders.is_empty() {
        false => folders,
        true => folders_with(paths, "config.json")
            .filter(|folder| has_weights(paths, folder))
            .collect(),
    };
    match folders.as_slice() {
        [] => Err(without_weights(paths, description)),
        [one] => Ok((*one).to_owned()),
        several => Err(format!(
            "it holds {} encoders ({}), and which one to check is not known: register each as a version of its own",
            several.len(),
            listed(several)
        )),
    }
}

fn without_weights(paths: &BTreeSet<&str>, description: &Description) -> String {
    let flavours = &description.flavors;
    if let Some(name) = flavours
        .transformers
        .as_ref()
        .and_then(|flavour| flavour.source_model_name.as_deref())
        && !paths.iter().any(|path| ends_with(path, &["safetensors"]))
    {
        return format!(
            "it holds no weights, only the name `{name}` of a model on a hub (save_pretrained=False): log it with \
             save_pretrained=True"
        );
    }
    let pickles: Vec<&str> = paths.iter().copied().filter(|path| ends_with(path, &PICKLES)).collect();
    let what = "it holds no sentence-transformers or Hugging Face folder with weights as safetensors";
    if pickles.is_empty() {
        let loader = flavours
            .python_function
            .as_ref()
            .map(|pyfunc| pyfunc.loader_module.as_str());
        return match loader.filter(|loader| !loader.is_empty()) {
            Some(loader) => format!("{what} (it is loaded by {loader})"),
            None => what.to_owned(),
        };
    }
    format!(
        "{what}, and pickles are never loaded, since they run code ({}): save it with safe_serialization=True, and give a \
         pyfunc its encoder as an artifact",
        listed(&pickles)
    )
}

/// Whether a file may be fetched. Everything else stays in the registry: pickles (`.pkl`, `.bin`,
/// `.pt`), code, and weights in unsupported formats.
pub fn may_be_fetched(path: &str) -> bool {
    path == DESCRIPTION || is_read(path)
}

/// The files below a folder that are fetched.
fn below(files: &[StoredFile], folder: &str) -> Vec<FileRequest> {
    let inside = files
        .iter()
        .filter(|file| is_below(&file.path, folder) && is_read(&file.path));
    inside
        .map(|file| FileRequest {
            from: file.path.clone(),
            to: match folder {
                "" => file.path.clone(),
                folder => file.path[folder.len() + 1..].to_owned(),
            },
            size: file.size,
        })
        .collect()
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn folders_with<'a>(paths: &'a BTreeSet<&'a str>, name: &'a str) -> impl Iterator<Item = &'a str> {
    paths.iter().filter_map(move |path| match path.rsplit_once('/') {
        Some((folder, file)) if file == name => Some(folder),
        None if *path == name => Some(""),
        _ => None,
    })
}

fn has_weights(paths: &BTreeSet<&str>, folder: &str) -> bool {
    paths.iter().any(|path| {
        is_below(path, folder)
            && ends_with(path, &["safetensors"])
            && !path[folder.len()..].trim_start_matches('/').contains('/')
    })
}

fn listed(names: &[&str]) -> String {
    let shown: Vec<&str> = names
        .iter()
        .take(NAMED)
        .map(|name| if name.is_empty() { "the top folder" } else { *name })
        .collect();
    match names.len() {
        all if all > NAMED => format!("{} and {} more", shown.join(", "), all - NAMED),
        _ => shown.join(", "),
    }
}

/// Whether a path stays in its folder on every system.
pub fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', ':', '\0']))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn files(paths: &[&str]) -> Vec<StoredFile> {
        let file = |path: &&str| StoredFile {
            path: (*path).to_owned(),
            size: Some(1),
            tag: None,
        };
        paths.iter().map(file).collect()
    }

    fn fetched(encoder_files: &EncoderFiles) -> Vec<&str> {
        encoder_files.files.iter().map(|file| file.to.as_str()).collect()
    }

    const FOLDER: [&str; 4] = [
        "modules.json",
        "0_Transformer/config.json",
        "0_Transformer/tokenizer.json",
        "0_Transformer/model.safetensors",
    ];

    #[test]
    fn the_sentence_transformers_flavour_names_its_folder() {
        let mut paths: Vec<String> = FOLDER
            .iter()
            .map(|file| format!("model.sentence_transformer/{file}"))
            .collect();
        paths.extend(["MLmodel", "conda.yaml", "other/modules.json"].map(str::to_owned));
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let text = "flavors:\n  python_function:\n    data: model.sentence_transformer\n    loader_module: mlflow.sentence_transformers\n  sentence_transformers:\n    code: null\n";
        let encoder_files = locate(&files(&paths), Some(text)).unwrap();
        assert_eq!(encoder_files.folder, "model.sentence_transformer");
        assert_eq!(fetched(&encoder_files).len(), FOLDER.len());
        // Without the description there would be two.
        assert!(locate(&files(&paths), None).unwrap_err().contains("2 encoders"));
    }

    #[test]
    fn the_transformers_flavour_gets_the_tokenizer_that_lies_beside_it() {
        let paths = [
            "MLmodel",
            "components/tokenizer/tokenizer.json",
            "components/tokenizer/tokenizer_config.json",
            "model/config.json",
            "model/model.safetensors",
        ];
        let text = "flavors:\n  transformers:\n    model_binary: model\n    source_model_name: org/name\n    task: feature-extraction\n";
        let encoder_files = locate(&files(&paths), Some(text)).unwrap();
        let names = [
            "config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
        ];
        assert_eq!(fetched(&encoder_files), names);
        let reference = locate(&files(&["MLmodel"]), Some(text)).unwrap_err();
        assert!(
            reference.contains("`org/name`") && reference.contains("save_pretrained"),
            "{reference}"
        );
    }

    #[test]
    fn a_pyfunc_is_taken_for_the_folder_that_it_carries_and_its_pickle_is_not_fetched() {
        let mut paths: Vec<String> = FOLDER.iter().map(|file| format!("artifacts/enc/{file}")).collect();
        paths.extend(["MLmodel", "python_model.pkl", "artifacts/enc/pytorch_model.bin"].map(str::to_owned));
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let text = "flavors:\n  python_function:\n    loader_module: mlflow.pyfunc.model\n    python_model: python_model.pkl\n";
        let encoder_files = locate(&files(&paths), Some(text)).unwrap();
        assert_eq!(encoder_files.folder, "artifacts/enc");
        let from: Vec<&str> = encoder_files.files.iter().map(|file| file.from.as_str()).collect();
        assert!(from.iter().all(|path| !ends_with(path, &PICKLES)), "{from:?}");
        assert_eq!(from.len(), FOLDER.len());
    }

    #[test]
    fn pickles_alone_are_refused_and_named() {
        let text = "flavors:\n  python_function:\n    loader_module: mlflow.pyfunc.model\n";
        let problem = locate(&files(&["MLmodel", "python_model.pkl"]), Some(text)).unwrap_err();
        assert!(
            problem.contains("python_model.pkl") && problem.contains("never loaded"),
            "{problem}"
        );
        let problem = locate(&files(&["config.json", "pytorch_model.bin", "tokenizer.json"]), None).unwrap_err();
        assert!(problem.contains("pytorch_model.bin"), "{problem}");
        let problem = locate(&files(&["modules.json", "pytorch_model.bin"]), None).unwrap_err();
        assert!(problem.contains("pytorch_model.bin"), "{problem}");
    }

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        for path in ["../x.json", "a//b.json", "/etc/passwd", "a/../../b", "c:\\x", ""] {
            let problem = locate(&files(&["modules.json", path]), None).unwrap_err();
            assert!(problem.contains("leave its folder"), "{path}: {problem}");
        }
    }

    #[test]
    fn a_folder_that_was_logged_as_it_is_lies_at_the_top() {
        let encoder_files = locate(&files(&FOLDER), None).unwrap();
        assert_eq!(
            (encoder_files.folder.as_str(), encoder_files.files.len()),
            ("", FOLDER.len())
        );
        let plain = locate(&files(&["config.json", "tokenizer.json", "model.safetensors"]), None).unwrap();
        assert_eq!(plain.files.len(), 3);
    }
}
