//! The used parts of the messages of MLflow's REST API.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::registry::Version;

#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default)]
    pub(super) error_code: String,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct VersionAnswer {
    pub(super) model_version: ModelVersion,
}

#[derive(Debug, Deserialize)]
pub(super) struct VersionsAnswer {
    #[serde(default)]
    pub(super) model_versions: Vec<ModelVersion>,
    #[serde(default)]
    pub(super) next_page_token: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ModelVersion {
    name: String,
    #[serde(deserialize_with = "number")]
    version: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    model_id: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tag {
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ModelAnswer {
    pub(super) registered_model: RegisteredModel,
}

#[derive(Debug, Deserialize)]
pub(super) struct RegisteredModel {
    #[serde(default)]
    pub(super) aliases: Vec<Alias>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Alias {
    pub(super) alias: String,
    #[serde(deserialize_with = "number")]
    pub(super) version: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct DownloadAnswer {
    #[serde(default)]
    pub(super) artifact_uri: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct FilesAnswer {
    #[serde(default)]
    pub(super) files: Vec<FileInfo>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FileInfo {
    pub(super) path: String,
    #[serde(default)]
    pub(super) is_dir: bool,
    #[serde(default, deserialize_with = "size")]
    pub(super) file_size: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExperimentAnswer {
    pub(super) experiment: Experiment,
}

#[derive(Debug, Deserialize)]
pub(super) struct Experiment {
    pub(super) experiment_id: String,
    #[serde(default)]
    pub(super) lifecycle_stage: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct NewExperiment {
    pub(super) experiment_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunAnswer {
    pub(super) run: RunBody,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunsAnswer {
    #[serde(default)]
    pub(super) runs: Vec<RunBody>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunBody {
    pub(super) info: RunInfo,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunInfo {
    pub(super) run_id: String,
    #[serde(default)]
    pub(super) experiment_id: String,
    #[serde(default)]
    pub(super) artifact_uri: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct LoggedModelsAnswer {
    #[serde(default)]
    pub(super) models: Vec<LoggedModel>,
    #[serde(default)]
    pub(super) next_page_token: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct LoggedModel {
    pub(super) info: LoggedModelInfo,
}

#[derive(Debug, Deserialize)]
pub(super) struct LoggedModelInfo {
    #[serde(default)]
    pub(super) artifact_uri: String,
    #[serde(default)]
    pub(super) source_run_id: String,
}

impl ModelVersion {
    pub(super) fn version(self) -> Version {
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let tags: BTreeMap<String, String> = self.tags.into_iter().map(|tag| (tag.key, tag.value)).collect();
        let of_source = self
            .source
            .strip_prefix("models:/")
            .filter(|id| !id.contains(['/', '@']));
        Version {
            logged_model: some(self.model_id).or_else(|| of_source.map(str::to_owned)),
            model: self.name,
            number: self.version,
            id: String::new(),
            files: self.source,
            tags,
            run: some(self.run_id),
            ready: self.status.is_empty() || self.status == "READY",
        }
    }
}

/// A version number: a string in MLflow's own answers, a number in those of some compatible
/// servers.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(text) => Ok(text),
        other => Ok(other.to_string()),
    }
}

/// A size: JSON of protocol buffers writes 64-bit numbers as strings.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(match Option::<serde_json::Value>::deserialize(from)? {
        Some(serde_json::Value::String(text)) => text.parse().ok(),
        Some(serde_json::Value::Number(number)) => number.as_u64(),
        _ => None,
    })
}
