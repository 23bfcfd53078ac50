//! The contents of a sentence-transformers folder, read once and checked before any weight is
//! touched.
//!
//! A folder that requests an unsupported feature is refused here. Nothing is approximated.

mod head;
mod instructor;
pub mod keys;
mod modules;
mod pooling;
mod settings;
mod sparse;
mod stage;
mod words;

use std::path::{Path, PathBuf};

use isomer_proto::common::v1::Similarity;
use serde::de::DeserializeOwned;

use crate::{error::EmbedError, pooling::PoolingMode};
use keys::FolderFile;

pub use head::Head;
pub use modules::Source;
pub use settings::Prompts;
pub use sparse::{Sparse, Splade};
pub use stage::{Dense, Stage};
pub use words::{WordList, WordTokens, Words};

/// The description of a model folder.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    /// The folder that contains `modules.json`; the file itself for a text file of word vectors.
    pub root: PathBuf,
    /// The source of token vectors.
    pub source: Source,
    /// The folder of the first module: `config.json`, `tokenizer.json`, weights of a transformer.
    pub transformer: PathBuf,
    /// `config.json` of the transformer; null if there is none.
    pub config: serde_json::Value,
    /// The settings of a `WordEmbeddings` module.
    pub words: Option<Words>,
    /// The stages on token vectors before the pooling, in order.
    pub token_stages: Vec<Stage>,
    /// The pooling of tokens into one vector; empty if the folder has no pooling, but only token
    /// vectors or a head.
    pub pooling: Vec<PoolingMode>,
    /// The head of a classification checkpoint without its own pooling.
    pub head: Option<Head>,
    /// The source of sparse vectors, if the folder has one.
    pub sparse: Option<Sparse>,
    /// The file of the linear layer that projects tokens for late interaction, if there is one.
    pub late_interaction: Option<PathBuf>,
    /// Whether the tokens of a prompt are pooled with the others.
    pub include_prompt: bool,
    /// Columns of a token's vector before the pooling, if the folder gives the number.
    pub token_width: Option<usize>,
    /// The stages after the pooling, in order.
    pub stages: Vec<Stage>,
    /// Maximum length of an input in tokens, if the folder sets it.
    pub max_seq_length: Option<usize>,
    /// Whether texts are lower-cased before tokenisation.
    pub lower_case: bool,
    /// Named prompts.
    pub prompts: Prompts,
    /// How vectors are compared.
    pub similarity: Similarity,
    /// Dimensions to which vectors may be truncated by the model's training; empty if the folder
    /// does not list them.
    pub matryoshka: Vec<usize>,
    /// Warnings for a person, e.g. that mean pooling was assumed.
    pub warnings: Vec<String>,
}

impl ModelFolder {
    /// [`ModelFolder::read`] for a model that came from `source`, e.g. `hub:org/name@commit`.
    ///
    /// # Errors
    /// Those of [`ModelFolder::read`].
    pub fn of_source(root: &Path, source: &str) -> Result<Self, EmbedError> {
        let mut folder = Self::read(root)?;
        if folder.include_prompt {
            if instructor::is_repository(source) {
                folder.include_prompt = false;
            } else if !folder.pooling.is_empty() {
                folder.warnings.extend(instructor::warning(root));
            }
        }
        Ok(folder)
    }

    /// Reads a folder, or describes a text file of word vectors.
    ///
    /// # Errors
    /// If a file is missing, broken or unsupported. The error names the file, the problem and the
    /// remedy.
    pub fn read(root: &Path) -> Result<Self, EmbedError> {
        if root.is_file() {
            return Ok(Self::of_text_file(root));
        }
        if !root.is_dir() {
            return Err(EmbedError::file(
                root,
                "is not a folder",
                "give the folder of a sentence-transformers model",
            ));
        }
        let mut warnings = Vec::new();
        let pipeline = modules::read(root, &mut warnings)?;
        let model = settings::model(root)?;
        let width = pipeline.pooling.width.clone();
        let mut folder = Self::of_pipeline(root, pipeline);
        folder.prompts = model.prompts;
        folder.similarity = model.similarity;
        match folder.source {
            Source::Transformer => {
                let layers = sparse::layers(root, &mut warnings);
                folder.late_interaction = layers.late_interaction;
                folder.sparse = folder.sparse.or(layers.sparse.map(Sparse::Lexical));
                folder.read_transformer(width.as_ref(), &mut warnings)?;
            }
            Source::WordEmbeddings => {
                let kind = FolderFile::WordEmbeddings;
                keys::check(kind, &folder.transformer.join(kind.name()), &mut warnings)?;
                let words = words::read(&folder.transformer)?;
                folder.max_seq_length = Some(words.max_seq_length);
                folder.words = Some(words);
            }
            Source::StaticEmbedding | Source::TextFile => {}
        }
        let file = root.join(FolderFile::Model.name());
        keys::check(FolderFile::Model, &file, &mut warnings)?;
        if let Some(other) = model.model_type.filter(|other| other != folder.model_type()) {
            return Err(EmbedError::file(
                &file,
                format!(
                    "model_type is `{other}`, and the modules are those of a {}",
                    folder.model_type()
                ),
                "load it in Python as what it is, and save it again",
            ));
        }
        folder.warnings = warnings;
        Ok(folder)
    }

    fn of_text_file(file: &Path) -> Self {
        Self::of_pipeline(file, modules::of_text_file(file))
    }

    /// The folder as described by its pipeline. Settings of the model and of its first module keep
    /// their defaults.
    fn of_pipeline(root: &Path, pipeline: modules::Pipeline) -> Self {
        Self {
            root: root.to_path_buf(),
            source: pipeline.source,
            transformer: pipeline.folder,
            config: serde_json::Value::Null,
            words: None,
            token_stages: pipeline.token_stages,
            pooling: pipeline.pooling.modes,
            sparse: pipeline.splade.map(Sparse::Splade),
            late_interaction: None,
            include_prompt: pipeline.pooling.include_prompt,
            token_width: pipeline.pooling.width.map(|(width, _)| width),
            head: None,
            stages: pipeline.stages,
            max_seq_length: None,
            lower_case: false,
            prompts: Prompts::default(),
            similarity: Similarity::Cosine,
            matryoshka: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn read_transformer(
        &mut self,
        pooled: Option<&(usize, PathBuf)>,
        warnings: &mut Vec<String>,
    ) -> Result<(), EmbedError> {
        let file = self.config_file();
        self.config = read_json(&file)?;
        if !self.config.is_object() {
            return Err(EmbedError::file(&file, "is not a JSON object", "fetch the model again"));
        }
        let hidden = ["hidden_size", "d_model"]
            .into_iter()
            .find_map(|key| self.config.get(key))
            .and_then(serde_json::Value::as_u64)
            .and_then(|size| usize::try_from(size).ok());
        self.token_width = self.token_width.or(hidden);
        if let (Some((width, pooling)), Some(hidden)) = (pooled, hidden)
            && *width != hidden
            && self.token_stages.is_empty()
        {
            return Err(EmbedError::file(
                pooling,
                format!("pools vectors of {width} columns, those of config.json have {hidden}"),
                "the modules of this folder do not belong together",
            ));
        }
        let adapter = self.transformer.join("adapter_config.json");
        if adapter.is_file() {
            return Err(EmbedError::file(
                &adapter,
                "an adapter beside the weights is not added to them",
                "merge it once: `PeftModel.from_pretrained(model, dir).merge_and_unload().save_pretrained(new_dir)`",
            ));
        }
        let tokenizer = self.transformer.join("tokenizer.json");
        if !tokenizer.is_file() {
            return Err(EmbedError::file(
                &tokenizer,
                "there is no tokenizer",
                "save the model with a fast tokenizer: \
                 `AutoTokenizer.from_pretrained(dir, use_fast=True).save_pretrained(dir)` writes tokenizer.json",
            ));
        }
        if self.pooling.is_empty() && self.token_stages.is_empty() && !self.is_splade() {
            self.head = head::read(&self.root, &file, &self.config)?;
        }
        let task = match (&self.head, self.is_splade()) {
            (Some(_), _) => "sequence-classification",
            (None, true) => "fill-mask",
            (None, false) => "feature-extraction",
        };
        for kind in [
            FolderFile::Config,
            FolderFile::TokenizerConfig,
            FolderFile::SpecialTokens,
        ] {
            keys::check(kind, &self.transformer.join(kind.name()), warnings)?;
        }
        self.refuse_template()?;
        let settings = settings::file(&self.transformer);
        keys::check(FolderFile::Transformer, &settings, warnings)?;
        let transformer = settings::transformer(&settings, &self.config, task)?;
        self.max_seq_length = transformer.max_seq_length;
        self.lower_case = transformer.lower_case;
        self.matryoshka = settings::matryoshka(&file, &self.config)?;
        Ok(())
    }

    /// Refuses a folder without `modules.json` whose tokenizer has a template of messages:
    /// sentence-transformers puts every text into a message there.
    fn refuse_template(&self) -> Result<(), EmbedError> {
        let config = self.transformer.join(FolderFile::TokenizerConfig.name());
        let written: serde_json::Value = read_optional(&config)?;
        let template = self.transformer.join("chat_template.jinja");
        let file = match written.get("chat_template") {
            _ if template.is_file() => template,
            Some(value) if !value.is_null() => config,
            _ => return Ok(()),
        };
        if self.root.join("modules.json").is_file() {
            return Ok(());
        }
        Err(EmbedError::file(
            &file,
            "chat_template makes a message of every text in a folder without modules.json, which is not served",
            "remove the template if texts are encoded as they are, or add the modules.json of the model",
        ))
    }

    /// The class of sentence-transformers that has these modules.
    fn model_type(&self) -> &'static str {
        match (&self.head, self.is_splade()) {
            (Some(_), _) => "CrossEncoder",
            (None, true) => "SparseEncoder",
            (None, false) => "SentenceTransformer",
        }
    }

    /// `config.json` of the transformer, for errors.
    pub fn config_file(&self) -> PathBuf {
        self.transformer.join("config.json")
    }

    /// Whether the model has only sparse vectors, of a masked language model.
    pub fn is_splade(&self) -> bool {
        matches!(self.sparse, Some(Sparse::Splade(_)))
    }

    /// Whether the pipeline ends with unit-length vectors.
    pub fn normalises(&self) -> bool {
        self.stages.last() == Some(&Stage::Normalize)
    }
}

/// Reads a JSON file.
///
/// # Errors
/// If the file is missing, is not JSON or has another structure. The error names the file and, for
/// a parse error, line and column.
pub(crate) fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T, EmbedError> {
    let text = isomer_models::regular::read(file).map_err(|error| {
        let problem = if error.kind() == std::io::ErrorKind::NotFound {
            "the file is missing".to_owned()
        } else {
            format!("cannot be read: {error}")
        };
        EmbedError::file(file, problem, "the folder is incomplete; fetch the model again")
    })?;
    serde_json::from_slice(&text)
        .map_err(|error| EmbedError::file(file, format!("cannot be understood: {error}"), "fetch the model again"))
}

/// Like [`read_json`], for a file that may be absent.
pub(crate) fn read_optional<T: DeserializeOwned + Default>(file: &Path) -> Result<T, EmbedError> {
    if file.is_file() {
        read_json(file)
    } else {
        Ok(T::default())
    }
}
