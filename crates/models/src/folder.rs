//! The files that a folder or file must contain to be a model.

use std::{
    collections::BTreeMap,
    io::Read,
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;

use crate::{catalogue::ModelKind, error::ModelError};

/// Longest safetensors header that is read; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;

/// Checks that `path` is a usable model of that kind and returns its weights: paths relative to
/// `path` for an encoder's folder, the file name for a generator's file.
///
/// An encoder is a folder in the layout of sentence-transformers (or a plain Hugging Face one,
/// without `modules.json`), or a text file of word vectors (`.txt`, `.vec`). Its weights are those
/// of all modules, so that a change in any module changes the digest. Headers of weights are
/// compared with the files' sizes, so a truncated file is detected here.
///
/// # Errors
/// [`ModelError::PathMissing`], or [`ModelError::NotAModel`] naming everything that is missing or
/// wrong.
pub fn inspect(path: &Path, kind: ModelKind) -> Result<Vec<String>, ModelError> {
    if !path.exists() {
        return Err(ModelError::PathMissing {
            path: path.to_path_buf(),
        });
    }
    match kind {
        ModelKind::Encoder => inspect_encoder(path),
        ModelKind::Generator => inspect_generator(path),
    }
}

fn not_a_model(path: &Path, kind: ModelKind, reason: impl Into<String>, hint: impl Into<String>) -> ModelError {
    ModelError::NotAModel {
        path: path.to_path_buf(),
        kind,
        reason: reason.into(),
        hint: hint.into(),
    }
}

fn inspect_encoder(folder: &Path) -> Result<Vec<String>, ModelError> {
    let refuse = |reason: String, hint: &str| not_a_model(folder, ModelKind::Encoder, reason, hint);
    if !folder.is_dir() {
        if is_word_vectors(folder) {
            return Ok(vec![file_name(folder)]);
        }
        return Err(refuse(
            "it is a file".into(),
            "give the folder that holds config.json, tokenizer.json and model.safetensors, or a text file of word vectors \
             (.txt or .vec)",
        ));
    }
    let modules = modules(folder)?;
    let (needed, first) = modules
        .first()
        .map_or((TRANSFORMER, ""), |module| (module.needed, module.path.as_str()));
    let inner = folder.join(first);
    let mut missing: Vec<String> = needed
        .iter()
        .filter(|name| !inner.join(name).is_file())
        .map(|name| format!("{first}{name}"))
        .collect();
    let mut weights = named(first, weights_in(&inner)?);
    let has_pickle = inner.join("pytorch_model.bin").is_file();
    if weights.is_empty() {
        missing.push(format!("{first}model.safetensors"));
    }
    if !missing.is_empty() {
        let mut hint = String::new();
        if weights.is_empty() && has_pickle {
            hint += "pytorch_model.bin is a pickle, which can run code and is not opened; convert it once in Python: \
                     SentenceTransformer(FOLDER).save_pretrained(NEW_FOLDER, safe_serialization=True)";
        }
        if missing.iter().any(|name| name.ends_with("tokenizer.json")) {
            let separator = if hint.is_empty() { "" } else { "; " };
            hint += separator;
            hint += "a tokenizer.json is written in Python by AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";
        }
        if hint.is_empty() {
            hint += "give a folder saved by sentence-transformers, or a catalogue id";
        }
        return Err(refuse(format!("{} missing", missing.join(", ")), &hint));
    }
    for name in needed {
        read_json::<serde_json::Value>(folder, &inner.join(name))?;
    }
    // Modules after the first may also have weights, in a separate folder.
    for module in modules.iter().skip(1).filter(|module| !module.path.is_empty()) {
        weights.extend(named(&module.path, weights_in(&folder.join(&module.path))?));
    }
    weights.sort();
    weights.dedup();
    for name in &weights {
        read_safetensors_header(&folder.join(name))?;
    }
    Ok(weights)
}

/// Files that a transformer's folder must contain beside its weights.
const TRANSFORMER: &[&str] = &["config.json", "tokenizer.json"];

/// A module of a sentence-transformers folder.
struct Module {
    /// Its folder, ending in `/`; empty for the model's own.
    path: String,
    /// Files that must exist besides weights, if the module comes first.
    needed: &'static [&'static str],
}

/// The modules in `modules.json`; empty if the file does not exist.
fn modules(folder: &Path) -> Result<Vec<Module>, ModelError> {
    #[derive(Deserialize)]
    struct Entry {
        #[serde(default)]
        path: String,
        #[serde(default, rename = "type")]
        class: String,
    }
    let file = folder.join("modules.json");
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let entries: Vec<Entry> = read_json(folder, &file)?;
    entries
        .into_iter()
        .map(|entry| {
            let path = entry.path.trim_matches('/');
            let stays = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            if !Path::new(path).components().all(stays) {
                let shown: String = path.chars().take(100).flat_map(char::escape_debug).collect();
                return Err(not_a_model(
                    folder,
                    ModelKind::Encoder,
                    format!("modules.json names the module path `{shown}`, which leaves the model's folder"),
                    "give a path inside it",
                ));
            }
            Ok(Module {
                path: match path {
                    "" | "." => String::new(),
                    path => format!("{path}/"),
                },
                needed: match entry.class.rsplit('.').next() {
                    Some("WordEmbeddings") => &["wordembedding_config.json"],
                    Some("StaticEmbedding") => &["tokenizer.json"],
                    _ => TRANSFORMER,
                },
            })
        })
        .collect()
}

fn named(folder: &str, files: Vec<String>) -> Vec<String> {
    files.into_iter().map(|name| format!("{folder}{name}")).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a file's name is that of word vectors in text format, as written by GloVe and word2vec.
fn is_word_vectors(path: &Path) -> bool {
    let name = path.extension().and_then(|extension| extension.to_str());
    name.is_some_and(|name| name.eq_ignore_ascii_case("txt") || name.eq_ignore_ascii_case("vec"))
}

fn read_json<T: serde::de::DeserializeOwned>(folder: &Path, path: &Path) -> Result<T, ModelError> {
    let data = crate::regular::read(path).map_err(ModelError::io("reading", path))?;
    serde_json::from_slice(&data).map_err(|error| {
        let name = path.strip_prefix(folder).unwrap_or(path).display();
        not_a_model(
            folder,
            ModelKind::Encoder,
            format!("{name} is not sound JSON: {error}"),
            "fetch or save the file again",
        )
    })
}

/// The safetensors files of a folder: those of the index if there is one, else `model.safetensors`,
/// else all existing ones.
fn weights_in(folder: &Path) -> Result<Vec<String>, ModelError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    if folder.join("model.safetensors").is_file() {
        return Ok(vec!["model.safetensors".into()]);
    }
    let index = folder.join("model.safetensors.index.json");
    if index.is_file() {
        let index: Index = read_json(folder, &index)?;
        let mut shards: Vec<String> = index.weight_map.into_values().collect();
        shards.sort();
        shards.dedup();
        if let Some(absent) = shards.iter().find(|name| !folder.join(name).is_file()) {
            return Err(not_a_model(
                folder,
                ModelKind::Encoder,
                format!("{absent} missing, which model.safetensors.index.json names"),
                "fetch the folder again",
            ));
        }
        return Ok(shards);
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut found: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".safetensors") && folder.join(name).is_file())
        .collect();
    found.sort();
    Ok(found)
}

fn inspect_generator(path: &Path) -> Result<Vec<String>, ModelError> {
    let refuse = |reason: String, hint: &str| not_a_model(path, ModelKind::Generator, reason, hint);
    if path.is_dir() {
        return Err(refuse("it is a folder".into(), "give the .gguf file itself"));
    }
    let mut magic = [0_u8; 4];
    let mut file = crate::regular::open(path).map_err(ModelError::io("reading", path))?;
    if file.read_exact(&mut magic).is_err() || &magic != b"GGUF" {
        return Err(refuse(
            "it does not start with the letters GGUF".into(),
            "give a file in GGUF form; llama.cpp's convert_hf_to_gguf.py makes one",
        ));
    }
    Ok(vec![file_name(path)])
}

/// One tensor of a safetensors header.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TensorHeader {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    /// First byte and the byte after the last, relative to the start of the data.
    pub(crate) data_offsets: [u64; 2],
}

/// A safetensors header that matches its file.
#[derive(Debug)]
pub(crate) struct SafetensorsHeader {
    pub(crate) tensors: BTreeMap<String, TensorHeader>,
    /// The offset of the data in the file.
    pub(crate) data_start: u64,
}

/// Reads only the header and compares it with the file's size.
pub(crate) fn read_safetensors_header(path: &Path) -> Result<SafetensorsHeader, ModelError> {
    let unsound = |reason: String| {
        not_a_model(
            path,
            ModelKind::Encoder,
            reason,
            "the file is truncated or damaged: fetch or copy it again",
        )
    };
    let mut file = crate::regular::open(path).map_err(ModelError::io("reading", path))?;
    let size = file.metadata().map_err(ModelError::io("reading", path))?.len();
    let mut length = [0_u8; 8];
    file.read_exact(&mut length)
        .map_err(|_| unsound(format!("{size} bytes are too few for safetensors")))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER || length + 8 > size {
        return Err(unsound(format!(
            "its header would be {length} bytes long, the file is {size}"
        )));
    }
    let mut header = Vec::new();
    file.take(length)
        .read_to_end(&mut header)
        .map_err(ModelError::io("reading", path))?;
    let mut fields: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&header).map_err(|error| unsound(format!("its header is not JSON: {error}")))?;
    fields.remove("__metadata__");
    let tensors = fields
        .into_iter()
        .map(|(name, value)| match serde_json::from_value::<TensorHeader>(value) {
            Ok(tensor) if tensor.data_offsets[0] <= tensor.data_offsets[1] => Ok((name, tensor)),
            Ok(_) => Err(unsound(format!("tensor `{name}` ends before it starts"))),
            Err(error) => Err(unsound(format!("tensor `{name}`: {error}"))),
        })
        .collect::<Result<BTreeMap<_, _>, _>>()?;
    let data_start = 8 + length;
    let promised = tensors.values().map(|tensor| tensor.data_offsets[1]).max().unwrap_or(0);
    if data_start.checked_add(promised) != Some(size) {
        return Err(unsound(format!(
            "its header promises {promised} bytes of tensors, the file has {}",
            size - data_start
        )));
    }
    Ok(SafetensorsHeader { tensors, data_start })
}

/// Whether the user's text is meant as a path rather than as an id.
pub(crate) fn looks_like_path(text: &str) -> bool {
    let path = Path::new(text);
    path.is_absolute()
        || text.starts_with('.')
        || text.starts_with('~')
        || text.ends_with('/')
        || text.contains('\\')
        || text.matches('/').count() > 1
        || (text.to_lowercase().ends_with(".gguf") && !text.contains(':'))
}

/// The path that the user gave, with `~/` expanded (a shell does that only for separate words).
pub fn to_path(text: &str) -> PathBuf {
    if let Some(rest) = text.strip_prefix("~/")
        && let Ok(home) = etcetera::home_dir()
    {
        return home.join(rest);
    }
    PathBuf::from(text)
}
