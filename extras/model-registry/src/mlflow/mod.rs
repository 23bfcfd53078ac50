//! MLflow, by its REST API.

mod artifacts;
mod client;
mod run_uri;
pub mod webhook;
mod wire;

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use client::Client;
pub use client::Credentials;
use wire::{
    DownloadAnswer, ExperimentAnswer, ModelAnswer, NewExperiment, RunAnswer, RunInfo, RunsAnswer, VersionAnswer,
    VersionsAnswer,
};

use crate::{
    error::{RegistryError, Result},
    evidence::{Evidence, PREFIX},
    registry::{AliasRegistry, Registry, StoredFile, Version, award_alias, champion_by_alias, withdraw_alias},
    verdict::Verdict,
};
use artifacts::Store;
use run_uri::RunUri;

/// Maximum number of metrics, and of tags, in one request (`runs/log-batch`).
const METRICS: usize = 500;
const TAGS: usize = 100;
/// Maximum length of a tag's value, in characters.
const LONGEST_TAG: usize = 5_000;
/// Number of versions on one page.
const PAGE: &str = "200";
/// Folder of the report among the artifacts of the run.
const FOLDER: &str = "isomer";

#[derive(Debug, Clone)]
pub struct Mlflow {
    client: Client,
    experiment: String,
}

impl Mlflow {
    /// A server at its tracking URI; checks are recorded as runs of this experiment.
    ///
    /// # Errors
    /// If the address is not one.
    pub fn new(tracking_uri: &str, credentials: &Credentials, experiment: &str) -> Result<Self> {
        Ok(Self {
            client: Client::new(tracking_uri, credentials)?,
            experiment: experiment.to_owned(),
        })
    }

    /// The location of a version's files. Its source may be a logged model (`models:/m-…`) or a
    /// run's folder (`runs:/…`), so the server is queried.
    async fn store(&self, version: &Version) -> Result<Store> {
        let query = [("name", version.model.as_str()), ("version", version.number.as_str())];
        let answer: DownloadAnswer = self
            .client
            .get("asking where the files are", "model-versions/get-download-uri", &query)
            .await?;
        match RunUri::read(&answer.artifact_uri)? {
            Some(folder) => folder.store(&self.client).await,
            None => Store::of(&self.client, &answer.artifact_uri),
        }
    }

    async fn experiment(&self) -> Result<String> {
        let query = [("experiment_name", self.experiment.as_str())];
        let doing = format!("asking for the experiment `{}`", self.experiment);
        let found: Result<ExperimentAnswer> = self.client.get(&doing, "experiments/get-by-name", &query).await;
        match found {
            Ok(found) if found.experiment.lifecycle_stage == "deleted" => Err(RegistryError::Refused {
                doing,
                status: 400,
                code: String::new(),
                message: "it is deleted: restore it, or name another (--experiment)".to_owned(),
            }),
            Ok(found) => Ok(found.experiment.experiment_id),
            Err(error) if error.is_not_found() => {
                let made: NewExperiment = self
                    .client
                    .create(
                        "making the experiment",
                        "experiments/create",
                        &json!({ "name": self.experiment }),
                    )
                    .await?;
                Ok(made.experiment_id)
            }
            Err(error) => Err(error),
        }
    }

    /// The run of a check: the existing one, or a new one.
    async fn run(&self, evidence: &Evidence) -> Result<RunInfo> {
        let experiment = self.experiment().await?;
        let search = json!({
            "experiment_ids": [experiment],
            "filter": format!("tags.`{PREFIX}check` = '{}'", evidence.key),
            "max_results": 1,
        });
        let found: RunsAnswer = self
            .client
            .send("looking for the run", Method::POST, "runs/search", &search)
            .await?;
        if let Some(run) = found.runs.into_iter().next() {
            return Ok(run.info);
        }
        // The tag is set together with the run, so that the run can be found whatever happens
        // afterwards.
        let create = json!({
            "experiment_id": experiment,
            "run_name": evidence.title,
            "start_time": evidence.time,
            "tags": [
                { "key": format!("{PREFIX}check"), "value": evidence.key },
                { "key": "mlflow.source.name", "value": "isomer" },
                { "key": "mlflow.source.type", "value": "JOB" },
            ],
        });
        let made: RunAnswer = self.client.create("making the run", "runs/create", &create).await?;
        Ok(made.run.info)
    }

    async fn log_batch(&self, run: &str, metrics: &[Value], tags: &[Value]) -> Result<()> {
        let body = json!({ "run_id": run, "metrics": metrics, "params": [], "tags": tags });
        let _: Value = self
            .client
            .send("writing metrics", Method::POST, "runs/log-batch", &body)
            .await?;
        Ok(())
    }
}

impl Registry for Mlflow {
    fn name(&self) -> &'static str {
        "mlflow"
    }

    fn uri(&self, version: &Version) -> String {
        format!("models:/{}/{}", version.model, version.number)
    }

    async fn champion(&self, version: &Version, alias: &str) -> Result<Option<Version>> {
        champion_by_alias(self, version, alias).await
    }

    async fn award(&self, version: &Version, alias: &str) -> Result<bool> {
        award_alias(self, version, alias).await
    }

    async fn withdraw(&self, version: &Version, alias: &str, _verdict: Option<Verdict>) -> Result<()> {
        withdraw_alias(self, version, alias).await
    }

    async fn promote(&self, version: &Version, alias: &str) -> Result<()> {
        self.set_alias(version, alias).await
    }

    async fn version(&self, model: &str, version: &str) -> Result<Option<Version>> {
        let query = [("name", model), ("version", version)];
        let doing = format!("asking for version {version} of `{model}`");
        let found: Result<VersionAnswer> = self.client.get(&doing, "model-versions/get", &query).await;
        match found {
            Ok(found) => Ok(Some(found.model_version.version())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn files(&self, version: &Version) -> Result<Vec<StoredFile>> {
        self.store(version).await?.list(&self.client).await
    }

    async fn download(&self, version: &Version, file: &str, to: &Path, most: u64) -> Result<Option<u64>> {
        self.store(version).await?.download(&self.client, file, to, most).await
    }

    async fn record(&self, version: &Version, evidence: &Evidence) -> Result<String> {
        let run = self.run(evidence).await?;
        let id = run.run_id.as_str();
        let metrics: Vec<Value> = evidence
            .metrics
            .iter()
            .map(|one| metric(one, version, evidence))
            .collect();
        let tags: Vec<Value> = evidence
            .tags
            .iter()
            .map(|(key, value)| json!({ "key": key, "value": cut(value, LONGEST_TAG) }))
            .collect();
        for chunk in tags.chunks(TAGS) {
            self.log_batch(id, &[], chunk).await?;
        }
        for chunk in metrics.chunks(METRICS) {
            self.log_batch(id, chunk, &[]).await?;
        }
        let datasets: Vec<Value> = evidence
            .datasets
            .iter()
            .map(|(name, digest)| {
                let source = json!({ "digest": digest }).to_string();
                let dataset =
                    json!({ "name": name, "digest": short(digest), "source_type": "isomer", "source": source });
                json!({ "dataset": dataset, "tags": [{ "key": "mlflow.data.context", "value": "eval" }] })
            })
            .collect();
        let models: Vec<Value> = version
            .logged_model
            .iter()
            .map(|id| json!({ "model_id": id }))
            .collect();
        let inputs = json!({ "run_id": id, "datasets": datasets, "models": models });
        let _: Value = self
            .client
            .send("naming the data sets", Method::POST, "runs/log-inputs", &inputs)
            .await?;
        let store = Store::of(&self.client, &run.artifact_uri)?;
        for (name, content) in &evidence.files {
            store.upload(&self.client, &format!("{FOLDER}/{name}"), content).await?;
        }
        // This comes last: a finished run is complete.
        let end = json!({ "run_id": id, "status": "FINISHED", "end_time": evidence.time });
        let _: Value = self
            .client
            .send("ending the run", Method::POST, "runs/update", &end)
            .await?;
        Ok(run.run_id)
    }

    async fn set_tags(&self, version: &Version, tags: &[(String, String)]) -> Result<()> {
        for (key, value) in tags {
            let body = json!({
                "name": version.model, "version": version.number, "key": key, "value": cut(value, LONGEST_TAG),
            });
            let _: Value = self
                .client
                .send("setting a tag", Method::POST, "model-versions/set-tag", &body)
                .await?;
        }
        Ok(())
    }

    async fn remove_tag(&self, version: &Version, key: &str) -> Result<()> {
        let body = json!({ "name": version.model, "version": version.number, "key": key });
        let sent: Result<Value> = self
            .client
            .send("removing a tag", Method::DELETE, "model-versions/delete-tag", &body)
            .await;
        absent_is_fine(sent)
    }
}

impl AliasRegistry for Mlflow {
    async fn at_alias(&self, model: &str, alias: &str) -> Result<Option<Version>> {
        // Not `registered-models/alias`, which answers INVALID_PARAMETER_VALUE both for an unused
        // alias and for an invalid request.
        let doing = format!("asking for the aliases of `{model}`");
        let found: Result<ModelAnswer> = self
            .client
            .get(&doing, "registered-models/get", &[("name", model)])
            .await;
        let aliases = match found {
            Ok(found) => found.registered_model.aliases,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        match aliases.into_iter().find(|one| one.alias == alias) {
            Some(one) => self.version(model, &one.version).await,
            None => Ok(None),
        }
    }

    async fn versions(&self) -> Result<Vec<Version>> {
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let query = [("max_results", PAGE), ("page_token", token.as_str())];
            let query = if token.is_empty() { &query[..1] } else { &query[..] };
            let page: VersionsAnswer = self
                .client
                .get("listing versions", "model-versions/search", query)
                .await?;
            all.extend(page.model_versions.into_iter().map(wire::ModelVersion::version));
            if page.next_page_token.is_empty() {
                return Ok(all);
            }
            token = page.next_page_token;
        }
    }

    async fn set_alias(&self, version: &Version, alias: &str) -> Result<()> {
        let body = json!({ "name": version.model, "version": version.number, "alias": alias });
        let _: Value = self
            .client
            .send("setting an alias", Method::POST, "registered-models/alias", &body)
            .await?;
        Ok(())
    }

    async fn remove_alias(&self, model: &str, alias: &str) -> Result<()> {
        let body = json!({ "name": model, "alias": alias });
        let sent: Result<Value> = self
            .client
            .send("removing an alias", Method::DELETE, "registered-models/alias", &body)
            .await;
        absent_is_fine(sent)
    }
}

fn absent_is_fine(sent: Result<Value>) -> Result<()> {
    match sent {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn metric(one: &crate::evidence::Metric, version: &Version, evidence: &Evidence) -> Value {
    let mut metric = json!({ "key": one.key, "value": one.value, "timestamp": evidence.time, "step": 0 });
    if let Some(model) = &version.logged_model {
        metric["model_id"] = json!(model);
    }
    if let Some((name, digest)) = one.dataset.and_then(|place| evidence.datasets.get(place)) {
        metric["dataset_name"] = json!(name);
        metric["dataset_digest"] = json!(short(digest));
    }
    metric
}

/// MLflow permits 36 characters of a data set's digest; the complete digest is in its source.
fn short(digest: &str) -> &str {
    digest.get(..32).unwrap_or(digest)
}

fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        false => text.to_owned(),
        true => text.chars().take(most - 1).chain(['…']).collect(),
    }
}
