//! Suites: which datasets, transformations and seeds a robustness check runs, as a TOML file.
//!
//! ```toml
//! name = "nightly"
//! description = "What the search team watches."
//! seeds = [1337, 1338, 1339]
//! transformations = ["paraphrase", { name = "translation", target_language = "fr" }]
//! generator = "openai:gemma-3-27b-it@http://llm.internal:8000/v1"   # default: the transform service's
//! encoders = ["all-MiniLM-L6-v2"]                                    # default: the eval service's
//! temperature = 0.0
//! attempts = 3
//! on_failure = "keep_original"                                       # or "fail"
//! profile = "mteb-v2"                                                # which definition of the metrics
//!
//! [[dataset]]
//! task = "sts"
//! path = "data/STSBenchmark"                                         # relative to this file; or builtin = "quick/sts"
//! split = "test"
//! language = "en"
//! limit = 200
//! # retrieval only: ignore_identical_ids = true                      # as mteb does for ArguAna, Quora and others
//! ```

mod error;
mod nearest;
mod parse;
mod reader;
#[cfg(test)]
mod tests;
mod transformation;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::task::{Profile, TaskType};

pub use error::SuiteError;
pub use nearest::nearest;
pub use transformation::{CATALOGUE, NOT_SCORABLE, Transformation};

/// Suites that ship with Isomer: name and text.
pub const BUILTIN: [(&str, &str); 1] = [("quick", include_str!("../../suites/quick.toml"))];

/// Seeds of HTEB's three runs.
pub const DEFAULT_SEEDS: [u64; 3] = [1337, 1338, 1339];

/// A suite, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Short name, shown in reports.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Seeds of the runs; distinct, at least one.
    pub seeds: Vec<u64>,
    /// Transformations with distinct labels; at least one.
    pub transformations: Vec<Transformation>,
    /// Generator id; absent: the transform service's default.
    pub generator: Option<String>,
    /// Encoder ids; may be empty.
    pub encoders: Vec<String>,
    /// Sampling temperature of the generator.
    pub temperature: f64,
    /// Nucleus of the generator's sampling.
    pub top_p: f64,
    /// Most attempts per text.
    pub attempts: u32,
    /// What to do with a text whose attempts all failed.
    pub on_failure: OnFailure,
    /// Which definition of the metrics.
    pub profile: Profile,
    /// At least one.
    pub datasets: Vec<DatasetSpec>,
}

/// What stands in for a text that no attempt could transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The original text, counted (HTEB).
    KeepOriginal,
    /// Nothing: the run fails.
    Fail,
}

impl OnFailure {
    /// As a suite spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::KeepOriginal => "keep_original",
            Self::Fail => "fail",
        }
    }
}

/// Where a dataset of a suite comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum DatasetSource {
    /// Ships with Isomer, e.g. `quick/sts`.
    Builtin(String),
    /// A folder or file, relative paths already resolved.
    Path(PathBuf),
}

impl DatasetSource {
    /// As a person would name it.
    pub fn display(&self) -> String {
        match self {
            Self::Builtin(name) => name.clone(),
            Self::Path(path) => path.display().to_string(),
        }
    }
}

/// One dataset of a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetSpec {
    /// Kind of task.
    pub task: TaskType,
    /// Where from.
    pub source: DatasetSource,
    /// Name in reports; absent: from the source.
    pub name: Option<String>,
    /// Split.
    pub split: String,
    /// Language subset.
    pub language: Option<String>,
    /// At most so many rows.
    pub limit: Option<usize>,
    /// Retrieval: a document with the query's own id does not count as found.
    pub ignore_identical_ids: bool,
    /// Where the suite names it, e.g. `quick.toml:21`.
    pub origin: String,
}

impl Suite {
    /// Reads a suite file. `file` is its name for messages; `base_dir` is what relative paths are relative to.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and the nearest valid name.
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
