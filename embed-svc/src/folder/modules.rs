//! `modules.json`: the modules of a model, and their order.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{
    keys::{self, FolderFile},
    pooling::{self, Pooling},
    read_json, read_optional,
    sparse::{self, Splade},
    stage::{self, Stage, StageInput},
};
use crate::error::EmbedError;

/// The source of token vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Transformer,
    /// One fixed vector per word (`WordEmbeddings`).
    WordEmbeddings,
    /// One fixed vector per token, averaged (`StaticEmbedding`, Model2Vec).
    StaticEmbedding,
    /// One fixed vector per word, in a text file in the format of GloVe and word2vec.
    TextFile,
}

/// The modules, in the order in which they run.
pub(super) struct Pipeline {
    pub(super) source: Source,
    /// Folder of the first module.
    pub(super) folder: PathBuf,
    /// Stages that run on token vectors.
    pub(super) token_stages: Vec<Stage>,
    pub(super) pooling: Pooling,
    /// The pooling of the scores of a masked language model.
    pub(super) splade: Option<Splade>,
    /// Stages that run on the text's vector.
    pub(super) stages: Vec<Stage>,
}

#[derive(Deserialize)]
struct ModuleEntry {
    #[serde(default)]
    path: String,
    #[serde(rename = "type")]
    class: String,
}

const ORDER: &str = "supported: Transformer or WordEmbeddings, then WordWeights, Dense and Normalize on token embeddings, \
                     then Pooling or nothing (token vectors only); or StaticEmbedding; or a transformer and SpladePooling; after Pooling or StaticEmbedding Dense, LayerNorm, \
                     Normalize and Dropout in any order";

pub(super) fn read(root: &Path, warnings: &mut Vec<String>) -> Result<Pipeline, EmbedError> {
    let file = root.join("modules.json");
    if !file.is_file() {
        return bare(root, warnings);
    }
    keys::check(FolderFile::Modules, &file, warnings)?;
    let entries: Vec<ModuleEntry> = read_json(&file)?;
    let mut modules = Vec::new();
    for entry in &entries {
        let (class, folder) = (class_name(&file, &entry.class)?, inside(root, &file, &entry.path)?);
        // The configuration in the root folder is the transformer's.
        if let Some(kind) = FolderFile::of_module(class).filter(|_| folder != root) {
            keys::check(kind, &folder.join("config.json"), warnings)?;
        }
        modules.push((class, folder));
    }
    let misplaced = |class: &str| {
        let found = modules.iter().map(|(class, _)| *class).collect::<Vec<_>>().join(", ");
        EmbedError::file(
            &file,
            format!("module {class} stands where it cannot run; the pipeline is [{found}]"),
            ORDER,
        )
    };
    let mut rest = modules.iter();
    let (source, folder) = match rest.next() {
        Some(("Transformer" | "MLMTransformer", folder)) => (Source::Transformer, folder),
        Some(("WordEmbeddings", folder)) => (Source::WordEmbeddings, folder),
        Some(("StaticEmbedding", folder)) => (Source::StaticEmbedding, folder),
        first => return Err(misplaced(first.map_or("(none)", |(class, _)| class))),
    };
    let mut pooling = (source == Source::StaticEmbedding).then(Pooling::mean);
    let (mut token_stages, mut stages, mut splade) = (Vec::new(), Vec::new(), None);
    for (class, folder) in rest {
        if splade.is_some() || (*class == "SpladePooling" && modules.len() > 2) {
            return Err(misplaced(class));
        } else if *class == "SpladePooling" {
            splade = Some(sparse::splade(folder)?);
        } else if *class == "Pooling" {
            if pooling.is_some() {
                return Err(misplaced(class));
            }
            pooling = Some(pooling::read(folder)?);
        } else if let Some((on, stage)) = stage::read(class, folder)? {
            match on {
                StageInput::Tokens if pooling.is_none() => token_stages.push(stage),
                StageInput::Sentence if pooling.is_some() => stages.push(stage),
                _ => return Err(misplaced(class)),
            }
        } else if *class != "Dropout" {
            return Err(misplaced(class));
        }
    }
    if let (None, Some(("MLMTransformer", _))) = (splade, modules.first()) {
        return Err(misplaced("MLMTransformer"));
    }
    Ok(Pipeline {
        source,
        folder: folder.clone(),
        splade,
        token_stages,
        // Without a pooling, the model produces token vectors, or a classification head follows.
        pooling: pooling.unwrap_or_else(Pooling::none),
        stages,
    })
}

/// A folder without `modules.json`.
fn bare(root: &Path, warnings: &mut Vec<String>) -> Result<Pipeline, EmbedError> {
    let file = root.join("config.json");
    let config: Value = read_optional(&file)?;
    if config.get("model_type").and_then(Value::as_str) == Some("model2vec") {
        return Err(EmbedError::file(
            &root.join("modules.json"),
            "the file is missing: model2vec and sentence-transformers treat unknown tokens differently, and only it says \
             whose vectors are meant",
            "in Python: SentenceTransformer(modules=[StaticEmbedding.from_model2vec(DIR)]).save_pretrained(NEW_DIR)",
        ));
    }
    let architecture = config
        .get("architectures")
        .and_then(|names| names.get(0))
        .and_then(Value::as_str);
    if architecture.is_some_and(|name| name.ends_with("ForSequenceClassification")) {
        return Ok(Pipeline {
            source: Source::Transformer,
            folder: root.to_path_buf(),
            token_stages: Vec::new(),
            pooling: Pooling::none(),
            splade: None,
            stages: Vec::new(),
        });
    }
    // In a causal language model, the last token has seen the whole text.
    let causal = architecture.is_some_and(|name| name.ends_with("ForCausalLM"))
        && config.get("is_causal").and_then(Value::as_bool) != Some(false);
    let pooling = if causal { Pooling::last_token() } else { Pooling::mean() };
    warnings.push(format!(
        "{} has no modules.json: {} pooling without normalisation is assumed, as sentence-transformers does",
        root.display(),
        pooling.modes.first().map_or("no", |mode| mode.name()),
    ));
    Ok(Pipeline {
        source: Source::Transformer,
        folder: root.to_path_buf(),
        token_stages: Vec::new(),
        pooling,
        splade: None,
        stages: Vec::new(),
    })
}

/// The pipeline of a text file of word vectors: the mean of the words' vectors.
pub(super) fn of_text_file(file: &Path) -> Pipeline {
    Pipeline {
        source: Source::TextFile,
        folder: file.to_path_buf(),
        token_stages: Vec::new(),
        pooling: Pooling::mean(),
        splade: None,
        stages: Vec::new(),
    }
}

/// `sentence_transformers.models.Pooling` → `Pooling`. Classes of other packages are refused,
/// because their code is not available here.
fn class_name<'a>(file: &Path, class: &'a str) -> Result<&'a str, EmbedError> {
    const KNOWN: [&str; 11] = [
        "Transformer",
        "MLMTransformer",
        "SpladePooling",
        "WordEmbeddings",
        "StaticEmbedding",
        "WordWeights",
        "Pooling",
        "Dense",
        "LayerNorm",
        "Normalize",
        "Dropout",
    ];
    let name = class.rsplit('.').next().unwrap_or(class);
    if class.starts_with("sentence_transformers.") && KNOWN.contains(&name) {
        return Ok(name);
    }
    // An untrusted file may contain a name of any length.
    let shown: String = class.chars().take(100).flat_map(char::escape_debug).collect();
    Err(EmbedError::file(file, format!("module `{shown}` is not served"), ORDER))
}

/// A module's folder, which must lie inside the model's.
fn inside(root: &Path, file: &Path, path: &str) -> Result<PathBuf, EmbedError> {
    if Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    {
        return Ok(root
            .components()
            .chain(Path::new(path).components().filter(|part| *part != Component::CurDir))
            .collect());
    }
    Err(EmbedError::file(
        file,
        format!("module path `{path}` leaves the model's folder"),
        "give a path inside it",
    ))
}
