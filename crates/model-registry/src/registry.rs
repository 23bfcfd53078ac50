//! What a model registry is to this crate.

use std::{collections::BTreeMap, future::Future, path::Path};

use crate::{error::Result, evidence::Evidence};

/// A registry of models with numbered versions, tags and aliases. One implementation a file.
pub trait Registry: Send + Sync + 'static {
    /// Its name, e.g. `mlflow`.
    fn name(&self) -> &'static str;

    /// A version; `None` if there is no such version.
    fn version(&self, model: &str, version: &str) -> impl Future<Output = Result<Option<Version>>> + Send;

    /// The version at an alias; `None` if no version has it.
    fn at_alias(&self, model: &str, alias: &str) -> impl Future<Output = Result<Option<Version>>> + Send;

    /// All versions of all models.
    fn versions(&self) -> impl Future<Output = Result<Vec<Version>>> + Send;

    /// The files of a version, in order of their paths.
    fn files(&self, version: &Version) -> impl Future<Output = Result<Vec<StoredFile>>> + Send;

    /// Writes a file of a version to `to`, and no more than `most` bytes of it: `None` if it is
    /// longer. Returns its size.
    fn download(
        &self,
        version: &Version,
        file: &str,
        to: &Path,
        most: u64,
    ) -> impl Future<Output = Result<Option<u64>>> + Send;

    /// Records a check beside the version, and returns the id of the record. A record of the same
    /// key is completed, not repeated.
    fn record(&self, version: &Version, evidence: &Evidence) -> impl Future<Output = Result<String>> + Send;

    /// Sets tags of a version, in this order.
    fn set_tags(&self, version: &Version, tags: &[(String, String)]) -> impl Future<Output = Result<()>> + Send;

    /// Removes a tag of a version, if it has it.
    fn remove_tag(&self, version: &Version, key: &str) -> impl Future<Output = Result<()>> + Send;

    /// Gives an alias to a version, and takes it from the one that has it.
    fn set_alias(&self, version: &Version, alias: &str) -> impl Future<Output = Result<()>> + Send;

    /// Removes an alias, if a version has it.
    fn remove_alias(&self, model: &str, alias: &str) -> impl Future<Output = Result<()>> + Send;
}

/// A version of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Name of the model.
    pub model: String,
    /// Number of the version, as the registry writes it.
    pub number: String,
    /// Where its files are.
    pub files: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The run that made it, if the registry names one.
    pub run: Option<String>,
    /// The logged model (MLflow 3) that it was registered from.
    pub logged_model: Option<String>,
    /// Whether its files are complete.
    pub ready: bool,
}

impl Version {
    /// The value of a tag.
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.tags.get(key).map(String::as_str)
    }

    /// For people: `enc version 3`.
    pub fn shown(&self) -> String {
        format!("{} version {}", self.model, self.number)
    }

    /// Whether this version is later than another of the same model.
    pub fn is_after(&self, other: &Self) -> bool {
        let number = |version: &Self| version.number.parse::<u64>().unwrap_or(0);
        number(self) > number(other)
    }
}

/// A file of a version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredFile {
    /// Path below the version's files, with `/`.
    pub path: String,
    /// Its size, if the store says it.
    pub size: Option<u64>,
}
