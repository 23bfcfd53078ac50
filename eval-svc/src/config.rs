//! Configuration of the evaluation service.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use isomer_blobs::StoreConfig;
use isomer_datasets::{
    DatasetError, PermittedPath, below_roots,
    locate::{self, HubAccess, HubRules},
};
use isomer_models::ModelsConfig;
use isomer_service_kit::{
    ProcessConfig,
    client::ClientConfig,
    config::{ConfigError, Secret, Validate, home},
    limits::INNER_MESSAGE,
    server::ServerConfig,
    telemetry::TelemetryConfig,
};
use serde::{Deserialize, Serialize};

/// The section `fleet`, which a build without the feature refuses.
#[cfg(not(feature = "fleet"))]
pub use isomer_config::MissingFeature as FleetConfig;
#[cfg(feature = "fleet")]
pub use isomer_fleet::FleetConfig;

/// A ledger of runs that several replicas share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LedgerConfig {
    /// `postgres://USER:PASSWORD@HOST/DATABASE` for any number of replicas, or the path of a SQLite
    /// file for one. Absent: runs are kept in `state_dir`, and a run that was interrupted is
    /// started again by its caller.
    pub url: Secret,
    /// Seconds for which a replica may stand still before another one takes over its runs. At least
    /// 2.
    pub lease_seconds: u64,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self {
            url: Secret::default(),
            lease_seconds: 15,
        }
    }
}

impl LedgerConfig {
    pub fn is_set(&self) -> bool {
        self.url.expose().is_some()
    }

    /// How long a replica may stand still.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }
}

/// Settings of [`crate::EvalService`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvalConfig {
    /// Isomer's folder; `ISOMER_HOME`, else `isomer` in the user's cache folder.
    pub home: PathBuf,
    /// Where runs and their reports are kept; absent: `<home>/runs`.
    pub state_dir: Option<PathBuf>,
    /// Where runs and their reports are kept instead, if several replicas share them.
    pub ledger: LedgerConfig,
    /// Where finished units are kept; absent: `<home>/cache/eval`.
    pub cache_dir: Option<PathBuf>,
    /// Folders that requests may read datasets from. Empty: none, only built-in and inline data;
    /// `/`: any path, which is right where the caller is the owner of this process (the command
    /// line). A link that leads out of a folder is refused.
    pub data_roots: Vec<PathBuf>,
    /// Data sets that requests may have fetched from the Hugging Face hub: `off`, `catalogue`
    /// (those of `isomer datasets`) or `any`. A data set that a caller names is fetched without
    /// this process's token.
    pub hub: HubAccess,
    /// Maximum size in bytes of one file of a data set on the hub that a caller names (`hub =
    /// "any"`).
    pub max_hub_file_bytes: u64,
    /// Folders in which a data set is looked for by its catalogue name (`<folder>/STSBenchmark`),
    /// beside the data roots and `<home>/data`.
    pub dataset_dirs: Vec<PathBuf>,
    /// Encoder of a run that names none.
    pub default_encoder: String,
    /// Runs that work at the same time; more wait. At least 1.
    pub max_active_runs: usize,
    /// Runs that wait for one of these places, all callers together; more are refused. At least 1.
    pub max_pending_runs: usize,
    /// The same for one caller (a key or a token's subject).
    pub max_pending_runs_per_caller: usize,
    /// Days after its end when a run is deleted with its report; 0: never for its age.
    pub keep_runs_days: u32,
    /// Runs that are kept; beyond, the oldest ended ones are deleted. At least 1.
    pub max_kept_runs: usize,
    /// Texts in one request to an encoder, which may permit fewer. At least 1.
    pub encode_batch_items: usize,
    /// Requests to an encoder in flight at the same time. At least 1.
    pub encode_in_flight: usize,
    /// Documents of a retrieval corpus that are encoded and searched together. The vectors of a
    /// larger corpus are never all in memory: it is searched in shards of this size, which workers
    /// take one by one, and the scores are the same. At least 1.
    pub shard_documents: usize,
    /// With workers: operations (multiplications of vectors' values) from which a score is computed
    /// by a worker. Below, moving the vectors takes longer than the score. Reckoned for retrieval,
    /// bitext, classification and clustering; other tasks take few. 0: every score.
    pub score_unit_operations: u64,
    /// Texts in one request to the transform service. At least 1.
    pub transform_batch_items: usize,
    /// Largest message, received or sent, in bytes: vectors to score, inline files, reports. At
    /// least 4096.
    pub max_message_bytes: usize,
    /// Example texts in a report, per dataset and transformation.
    pub examples: usize,
}

impl Default for EvalConfig {
    fn default() -> Self {
        Self {
            home: home::folder(),
            state_dir: None,
            ledger: LedgerConfig::default(),
            cache_dir: None,
            data_roots: Vec::new(),
            hub: HubAccess::default(),
            max_hub_file_bytes: locate::MAX_FILE_BYTES,
            dataset_dirs: Vec::new(),
            default_encoder: "all-MiniLM-L6-v2".to_owned(),
            max_active_runs: 2,
            max_pending_runs: 100,
            max_pending_runs_per_caller: 20,
            keep_runs_days: 90,
            max_kept_runs: 10_000,
            encode_batch_items: 256,
            encode_in_flight: 2,
            shard_documents: 16_384,
            score_unit_operations: 1_000_000_000,
            transform_batch_items: 256,
            max_message_bytes: INNER_MESSAGE,
            examples: 8,
        }
    }
}

impl EvalConfig {
    pub fn runs_dir(&self) -> PathBuf {
        self.state_dir.clone().unwrap_or_else(|| self.home.join("runs"))
    }

    /// Folder of the finished units.
    pub fn units_dir(&self) -> PathBuf {
        self.cache_dir
            .clone()
            .unwrap_or_else(|| self.home.join("cache").join("eval"))
    }

    /// The path of a request's dataset, if requests are permitted to read it.
    ///
    /// # Errors
    /// A path outside [`EvalConfig::data_roots`].
    pub fn data_path(&self, path: &Path) -> Result<PermittedPath, DatasetError> {
        if self.reads_everything() {
            return Ok(PermittedPath {
                path: path.to_owned(),
                root: None,
            });
        }
        below_roots(path, &self.data_roots)
    }

    /// Whether requests may read every path, because their caller is the owner of this process.
    pub fn reads_everything(&self) -> bool {
        self.data_roots.iter().any(|root| is_file_system(root))
    }

    /// Terms on which data sets are fetched from the hub. A caller who may read every path is the
    /// owner of this process.
    pub fn hub_rules(&self) -> HubRules {
        HubRules {
            access: self.hub,
            owner: self.reads_everything(),
            max_file_bytes: self.max_hub_file_bytes,
        }
    }

    /// Folders in which a data set is looked for by name.
    pub fn named_data(&self) -> Vec<PathBuf> {
        let roots = self.data_roots.iter().filter(|root| !is_file_system(root));
        let mut folders: Vec<PathBuf> = self.dataset_dirs.iter().chain(roots).cloned().collect();
        folders.push(self.home.join("data"));
        folders
    }
}

impl Validate for EvalConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        let at_least_one = [
            ("max_active_runs", self.max_active_runs),
            ("max_pending_runs", self.max_pending_runs),
            ("max_pending_runs_per_caller", self.max_pending_runs_per_caller),
            ("max_kept_runs", self.max_kept_runs),
            ("encode_batch_items", self.encode_batch_items),
            ("encode_in_flight", self.encode_in_flight),
            ("shard_documents", self.shard_documents),
            ("transform_batch_items", self.transform_batch_items),
        ];
        for (field, value) in at_least_one {
            if value == 0 {
                return Err(ConfigError::new(
                    field,
                    "is 0, so nothing would be done",
                    "give at least 1",
                ));
            }
        }
        if self.ledger.lease_seconds < 2 {
            return Err(ConfigError::new(
                "ledger.lease_seconds",
                format!(
                    "is {}, so a replica that is busy would lose its runs",
                    self.ledger.lease_seconds
                ),
                "give at least 2, e.g. 15",
            ));
        }
        if self.max_message_bytes < 4096 {
            return Err(ConfigError::new(
                "max_message_bytes",
                "is under 4096",
                "give a size in bytes, e.g. 268435456",
            ));
        }
        if self.default_encoder.trim().is_empty() {
            return Err(ConfigError::new(
                "default_encoder",
                "is empty",
                "name an encoder, e.g. all-MiniLM-L6-v2",
            ));
        }
        if self.home.as_os_str().is_empty() {
            return Err(ConfigError::new(
                "home",
                "is empty",
                "give a folder, or leave it out for the user's cache folder",
            ));
        }
        for (field, folders) in [("data_roots", &self.data_roots), ("dataset_dirs", &self.dataset_dirs)] {
            if let Some(folder) = folders.iter().find(|folder| !folder.is_dir()) {
                let message = format!("{} is not a folder", folder.display());
                return Err(ConfigError::new(
                    field,
                    message,
                    "name folders that exist, or leave the entry out",
                ));
            }
        }
        Ok(())
    }
}

/// Whether a folder is the root of the whole file system.
fn is_file_system(root: &Path) -> bool {
    root.has_root() && root.parent().is_none()
}

/// Checks the section `fleet`, and the store that workers need.
///
/// # Errors
/// Names the key, or the feature that this build lacks.
pub fn validate_fleet(fleet: &FleetConfig, store: &StoreConfig) -> Result<(), ConfigError> {
    #[cfg(feature = "fleet")]
    return fleet
        .validate()
        .map_err(|error| error.within("fleet"))
        .and_then(|()| fleet.check_store(store));
    #[cfg(not(feature = "fleet"))]
    {
        let _ = store;
        fleet.refuse("fleet", "fleet")
    }
}

/// Configuration of the process `isomer-eval-svc`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServeConfig {
    /// Its port, limits and TLS.
    pub server: ServerConfig,
    /// Logs and traces.
    pub telemetry: TelemetryConfig,
    /// Where an `EncoderService` is.
    pub encoder: ClientConfig,
    /// Where a `TransformService` is.
    pub transform: ClientConfig,
    /// The service itself.
    pub eval: EvalConfig,
    /// The way to data sets on the hub and their cache.
    pub models: ModelsConfig,
    /// Bytes that all machines share: requests to workers and their answers.
    pub store: StoreConfig,
    /// Workers that do the pieces of runs.
    pub fleet: FleetConfig,
}

impl ProcessConfig for ServeConfig {
    fn server(&self) -> &ServerConfig {
        &self.server
    }

    fn telemetry(&self) -> &TelemetryConfig {
        &self.telemetry
    }

    fn with_env(mut self) -> Self {
        self.models = self.models.with_env();
        self
    }
}

impl Validate for ServeConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.server.validate()?;
        for (section, client) in [("encoder", &self.encoder), ("transform", &self.transform)] {
            if client.address.is_empty() {
                let field = format!("{section}.address");
                return Err(ConfigError::new(
                    field,
                    "is empty",
                    "give the address of the service, e.g. http://127.0.0.1:50051",
                ));
            }
        }
        self.models.validate().map_err(|error| error.within("models"))?;
        self.store.validate().map_err(|error| error.within("store"))?;
        validate_fleet(&self.fleet, &self.store)?;
        self.eval.validate().map_err(|error| error.within("eval"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_a_zero_is_named() {
        EvalConfig::default().validate().unwrap();
        let broken = EvalConfig {
            encode_in_flight: 0,
            ..EvalConfig::default()
        };
        assert_eq!(broken.validate().unwrap_err().field(), "encode_in_flight");
    }

    #[test]
    fn without_roots_no_path_is_read_and_with_the_root_every_path_is() {
        let closed = EvalConfig::default();
        assert!(closed.data_path(Path::new("/etc")).is_err());
        let open = EvalConfig {
            data_roots: vec![PathBuf::from("/")],
            ..EvalConfig::default()
        };
        assert_eq!(
            open.data_path(Path::new("/no/such")).unwrap().path,
            Path::new("/no/such")
        );
    }
}
