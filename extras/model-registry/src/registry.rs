//! The interface of a model registry to this crate.

use std::{collections::BTreeMap, future::Future, path::Path};

use crate::{
    error::Result,
    evidence::Evidence,
    verdict::{Verdict, tag},
};

/// A registry of models with numbered versions. There is one implementation per folder.
pub trait Registry: Send + Sync + 'static {
    /// Its name, e.g. `mlflow`.
    fn name(&self) -> &'static str;

    /// The name of a version in reports, e.g. `models:/enc/3`.
    fn uri(&self, version: &Version) -> String;

    /// A version; `None` if it does not exist.
    fn version(&self, model: &str, version: &str) -> impl Future<Output = Result<Option<Version>>> + Send;

    /// The version with which a version is compared: the champion, unless it is the champion
    /// itself.
    fn champion(&self, version: &Version, alias: &str) -> impl Future<Output = Result<Option<Version>>> + Send;

    /// The files of a version, in order of their paths.
    fn files(&self, version: &Version) -> impl Future<Output = Result<Vec<StoredFile>>> + Send;

    /// Writes at most `most` bytes of a version's file to `to`; `None` if it is longer. Returns its
    /// size.
    fn download(
        &self,
        version: &Version,
        file: &str,
        to: &Path,
        most: u64,
    ) -> impl Future<Output = Result<Option<u64>>> + Send;

    /// Records a check beside the version, and returns the id of the record. A record with the same
    /// key is completed rather than duplicated.
    fn record(&self, version: &Version, evidence: &Evidence) -> impl Future<Output = Result<String>> + Send;

    /// Sets tags of a version, in this order.
    fn set_tags(&self, version: &Version, tags: &[(String, String)]) -> impl Future<Output = Result<()>> + Send;

    /// Removes a tag of a version, if it exists.
    fn remove_tag(&self, version: &Version, key: &str) -> impl Future<Output = Result<()>> + Send;

    /// Gives a version that passed the registry's mark for it. Returns whether the version has it.
    fn award(&self, version: &Version, alias: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Removes the registry's mark of passed versions, if the version has it. `verdict` is absent
    /// if there is none yet.
    fn withdraw(
        &self,
        version: &Version,
        alias: &str,
        verdict: Option<Verdict>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Makes a version the champion.
    fn promote(&self, version: &Version, alias: &str) -> impl Future<Output = Result<()>> + Send;
}

/// A registry that is watched: its versions can be listed, and an alias points at one of them.
pub trait AliasRegistry: Send + Sync + 'static {
    /// The version at an alias; `None` if no version has it.
    fn at_alias(&self, model: &str, alias: &str) -> impl Future<Output = Result<Option<Version>>> + Send;

    fn versions(&self) -> impl Future<Output = Result<Vec<Version>>> + Send;

    /// Gives an alias to a version, and removes it from the version that has it.
    fn set_alias(&self, version: &Version, alias: &str) -> impl Future<Output = Result<()>> + Send;

    /// Removes an alias, if a version has it.
    fn remove_alias(&self, model: &str, alias: &str) -> impl Future<Output = Result<()>> + Send;
}

/// [`Registry::champion`] by an alias.
///
/// # Errors
/// If the registry fails.
pub async fn champion_by_alias(
    registry: &impl AliasRegistry,
    version: &Version,
    alias: &str,
) -> Result<Option<Version>> {
    let found = registry.at_alias(&version.model, alias).await?;
    Ok(found.filter(|champion| champion.number != version.number))
}

/// [`Registry::award`] by an alias, unless a later version that passed has it: checks may not end
/// in the order in which versions were created.
///
/// # Errors
/// If the registry fails.
pub async fn award_alias(registry: &impl AliasRegistry, version: &Version, alias: &str) -> Result<bool> {
    let holder = registry.at_alias(&version.model, alias).await?;
    if holder.is_some_and(|holder| holder.is_after(version) && holder.has_passed()) {
        return Ok(false);
    }
    registry.set_alias(version, alias).await?;
    Ok(true)
}

/// [`Registry::withdraw`] by an alias.
///
/// # Errors
/// If the registry fails.
pub async fn withdraw_alias(registry: &impl AliasRegistry, version: &Version, alias: &str) -> Result<()> {
    let found = registry.at_alias(&version.model, alias).await?;
    if found.is_some_and(|found| found.number == version.number) {
        registry.remove_alias(&version.model, alias).await?;
    }
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Name of the model.
    pub model: String,
    /// Number of the version, as the registry writes it.
    pub number: String,
    /// The registry's own name for it, if it differs; else empty.
    pub id: String,
    /// The location of its files.
    pub files: String,
    pub tags: BTreeMap<String, String>,
    /// The run that created it, if the registry names one.
    pub run: Option<String>,
    /// The logged model (MLflow 3) from which it was registered.
    pub logged_model: Option<String>,
    /// Whether its files are complete.
    pub ready: bool,
}

impl Version {
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.tags.get(key).map(String::as_str)
    }

    /// Whether it has passed, according to its tag.
    pub fn has_passed(&self) -> bool {
        self.tag(tag::VERDICT) == Some(Verdict::Pass.name())
    }

    /// Text for people: `enc version 3`.
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
    /// Its size, if the store reports it.
    pub size: Option<u64>,
    /// A tag that changes with its content, if the store reports one (an `ETag`).
    pub tag: Option<String>,
}
