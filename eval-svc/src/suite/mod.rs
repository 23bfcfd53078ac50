//! Suites: the datasets, transformations and seeds of a robustness check, as a TOML file.
//!
//! [`KEYS`] shows every key:
//!
//! ```toml
#![doc = include_str!("keys.toml")]
//! ```

mod dataset;
mod encoder;
mod error;
mod fields;
mod gate;
mod judge;
mod limits;
mod parse;
mod protocol;
mod reader;
mod separation;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use isomer_config::spelling::nearest;
use isomer_proto::transform::v1::{GuardMode, OnFailure, OnFingerprintChange};

use crate::{
    dataset::{DEFAULT_SAMPLE_SEED, FieldMap, HubRef, LoadOptions, PermittedPath, Source},
    form::Form,
    gate::Gate,
    judging::Judge,
    limits::Limits,
    locate::DatasetRequest,
    prompts::variant::PromptVariant,
    separation::Separation,
    task::{Profile, TaskType},
};

pub use error::SuiteError;
pub use isomer_transformations::Transformation;
pub(crate) use reader::MOST_ITEMS;

/// Suites that ship with Isomer: name and text.
pub const BUILTIN: [(&str, &str); 6] = [
    ("quick", include_str!("../../suites/quick.toml")),
    ("noise", include_str!("../../suites/noise.toml")),
    ("minimal", include_str!("../../suites/minimal.toml")),
    ("pteb", include_str!("../../suites/pteb.toml")),
    ("hteb-english", include_str!("../../suites/hteb-english.toml")),
    ("hteb-multilingual", include_str!("../../suites/hteb-multilingual.toml")),
];

/// Every key of a suite, as a valid suite with comments.
pub const KEYS: &str = include_str!("keys.toml");

/// Seeds of HTEB's three runs.
pub const DEFAULT_SEEDS: [u64; 3] = [1337, 1338, 1339];

#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Short name, shown in reports.
    pub name: String,
    /// The suite's purpose.
    pub description: String,
    /// Seeds of the runs; distinct, at least one.
    pub seeds: Vec<u64>,
    /// Transformations with distinct labels; at least one.
    pub transformations: Vec<Transformation>,
    /// Number of items of all data sets together, divided so that the total varies
    /// least for the texts that are rewritten.
    pub total_items: Option<usize>,
    /// Generator id; absent: the transform service's default.
    pub generator: Option<String>,
    /// Encoder ids; may be empty.
    pub encoders: Vec<String>,
    /// Forms in which the encoders are scored too.
    pub forms: Vec<Form>,
    /// Variants of the encoders' prompts that are scored too.
    pub prompt_variants: Vec<PromptVariant>,
    /// Prompts of encoders: id to role to text ([`crate::prompts`]).
    pub encoder_prompts: BTreeMap<String, BTreeMap<String, String>>,
    /// Id of the encoder that others are compared with.
    pub baseline: Option<String>,
    /// Sampling temperature of the generator.
    pub temperature: f64,
    /// Nucleus (top-p) of the generator's sampling.
    pub top_p: f64,
    /// Number of most likely tokens to sample from; absent: the generator's default.
    pub top_k: Option<u32>,
    /// Maximum number of attempts per text.
    pub attempts: u32,
    /// Whether a text that came back unchanged is requested again.
    pub retry_identical: bool,
    /// Minimum temperature of attempts after the first.
    pub retry_temperature: f64,
    /// The consequence of a meaning guard that fires.
    pub guards: GuardMode,
    /// How stored texts and ratings of another version of a model are used.
    pub on_fingerprint_change: OnFingerprintChange,
    /// The treatment of a text whose attempts all failed.
    pub on_failure: OnFailure,
    /// The definition of the metrics.
    pub profile: Profile,
    /// The datasets; at least one.
    pub datasets: Vec<DatasetSpec>,
    /// Rules that encoders must satisfy; a suite without rules has no gate.
    pub gate: Gate,
    /// The judge that rates transformed texts, if one is named.
    pub judge: Judge,
    /// Settings of the comparison of rewrites with changes of meaning.
    pub separation: Separation,
    /// Limits of a run of the suite.
    pub limits: Limits,
}

/// The source of a dataset of a suite.
#[derive(Debug, Clone, PartialEq)]
pub enum DatasetSource {
    /// Ships with Isomer, for example `quick/sts`.
    Builtin(String),
    /// A folder or file; relative paths are already resolved.
    Path(PathBuf),
    /// A name of the catalogue.
    Catalogue(String),
    /// On the Hugging Face hub.
    Hub(HubRef),
}

impl DatasetSource {
    /// The source's name for messages.
    pub fn display(&self) -> String {
        match self {
            Self::Builtin(name) | Self::Catalogue(name) => name.clone(),
            Self::Hub(hub) => hub.to_string(),
            Self::Path(path) => path.display().to_string(),
        }
    }
}

/// A leak of a data set that the suite allows.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredLeak {
    /// The largest share of its test rows or queries that may leak.
    pub share: f64,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DatasetSpec {
    pub task: TaskType,
    pub source: DatasetSource,
    /// Name in reports; absent: from the source.
    pub name: Option<String>,
    /// Split; absent: the catalogue's, else `test`.
    pub split: Option<String>,
    /// Language subset.
    pub language: Option<String>,
    /// Languages of the texts: one, or those of the two sides; empty: the catalogue's, else the
    /// name of the subset.
    pub languages: Vec<String>,
    /// The group that it belongs to; see [`DatasetSpec::group_of`].
    pub group: Option<String>,
    /// Maximum number of rows; more are sampled.
    pub limit: Option<usize>,
    /// Classification: maximum number of train rows; more are sampled.
    pub train_limit: Option<usize>,
    /// Seed of the sample; absent: [`DEFAULT_SAMPLE_SEED`].
    pub sample_seed: Option<u64>,
    /// Columns whose names differ from Isomer's.
    pub fields: FieldMap,
    /// Retrieval: whether a document with the query's own id does not count as found.
    pub ignore_identical_ids: bool,
    /// Classification: train rows of each label in each fit.
    pub samples_per_label: Option<usize>,
    /// Clustering: share of the documents that is clustered.
    pub max_fraction: Option<f64>,
    /// Clustering: whether the older form is used under mteb-v2 too.
    pub legacy_clustering: bool,
    /// Clustering: number of sets into which single documents are cut.
    pub sets: Option<usize>,
    /// A leak that does not make rules invalid.
    pub leak: Option<DeclaredLeak>,
    /// The place in the suite, for example `quick.toml:21`.
    pub origin: String,
}

impl DatasetSpec {
    /// Its name before it is loaded.
    pub(crate) fn called(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.source.display())
    }

    /// Whether the suite allows a leak of this share.
    pub(crate) fn allows_leak(&self, share: f64) -> bool {
        self.leak.as_ref().is_some_and(|declared| share <= declared.share)
    }

    /// The group that the data set belongs to: the named one, else the catalogue's data set of
    /// which it is one language, else its own group under its loaded name. Members of a group are
    /// averaged before statistics over data sets.
    pub fn group_of(&self, loaded: &str) -> String {
        match (&self.group, &self.source) {
            (Some(group), _) => group.clone(),
            (None, DatasetSource::Catalogue(name)) => name.clone(),
            (None, _) => loaded.to_owned(),
        }
    }

    /// The description of the data set for the locator; `permitted` is the resolved path that the
    /// service may read.
    pub(crate) fn wanted(&self, permitted: Option<PermittedPath>) -> DatasetRequest {
        let (path, root) = permitted.map_or((None, None), |permitted| (Some(permitted.path), permitted.root));
        DatasetRequest {
            task: Some(self.task),
            source: match &self.source {
                DatasetSource::Builtin(name) => Source::Builtin(name.clone()),
                DatasetSource::Path(own) => Source::Path(path.unwrap_or_else(|| own.clone())),
                DatasetSource::Catalogue(name) => Source::Catalogue(name.clone()),
                DatasetSource::Hub(hub) => Source::Hub(hub.clone()),
            },
            split: self.split.clone(),
            options: LoadOptions {
                language: self.language.clone(),
                languages: self.languages.clone(),
                limit: self.limit,
                train_limit: self.train_limit,
                sample_seed: self.sample_seed.unwrap_or(DEFAULT_SAMPLE_SEED),
                fields: self.fields.clone(),
                name: self.name.clone(),
                ignore_identical_ids: self.ignore_identical_ids,
                samples_per_label: self.samples_per_label,
                max_fraction: self.max_fraction,
                legacy_clustering: self.legacy_clustering,
                sets: self.sets,
                root,
                ..LoadOptions::default()
            },
        }
    }
}

impl Suite {
    /// Reads a suite file. `file` is its name for messages; `base_dir` is the base of relative
    /// paths.
    ///
    /// # Errors
    /// The first error, with its line and the nearest valid name.
    pub fn parse(text: &str, file: &str, base_dir: Option<&Path>) -> Result<Self, SuiteError> {
        parse::suite(text, file, base_dir)
    }

    /// A suite that ships with Isomer.
    ///
    /// # Errors
    /// [`SuiteError::NoSuchSuite`] with the nearest name.
    pub fn builtin(name: &str) -> Result<Self, SuiteError> {
        match BUILTIN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text, &format!("{name}.toml"), None),
            None => Err(SuiteError::NoSuchSuite {
                name: name.to_owned(),
                nearest: nearest(name, BUILTIN.map(|(known, _)| known)).map(str::to_owned),
                known: BUILTIN.iter().map(|(known, _)| (*known).to_owned()).collect(),
            }),
        }
    }
}
