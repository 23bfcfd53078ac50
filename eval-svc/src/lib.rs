//! Vectors and labels in; scores, statistics, robustness profiles and reports out.
//!
//! Pure modules (no async, no tonic, no clock, no global random numbers): [`suite`], [`change`],
//! [`gate`], [`judging`], [`prompts`], [`selection`]. At the edge: [`mod@run`] plans and executes
//! robustness checks with an encoder and a transform service, over channels that it is given; the
//! gRPC handlers only convert protos.

mod augmented;
pub mod change;
mod clients;
pub mod config;
mod encoding;
pub mod error;
pub mod gate;
pub mod judging;
pub mod limits;
mod metric_names;
pub mod mteb_result;
mod pivot;
pub mod prompts;
pub mod run;
mod run_service;
pub mod selection;
pub mod separation;
mod statistics_service;
pub mod suite;
mod task_service;
pub mod work;

use std::sync::Arc;

use isomer_blobs::BlobStore;
use isomer_fleet::{Dispatcher, FleetError, Queue};
use isomer_models::Resolver;
use isomer_proto::eval::v1::{
    run_service_server::RunServiceServer, statistics_service_server::StatisticsServiceServer,
    task_service_server::TaskServiceServer,
};
use isomer_service_kit::{Fault, Services, client, server};
use isomer_usage::report::Reporting;
use tokio::net::TcpListener;

pub use clients::EvalClients;
pub use config::{EvalConfig, ServeConfig};
pub use error::EvalError;
/// Data sets: the crate `isomer-datasets`.
pub use isomer_datasets as dataset;
/// Locating named data sets: a module of `isomer-datasets`.
pub use isomer_datasets::locate;
/// Reports, the profiles behind them, and counts of texts that an encoder cut: the crate
/// `isomer-report`.
pub use isomer_report::{self as report, profile, terms::truncation};
/// Scores: the crate `isomer-scoring`.
pub use isomer_scoring::{evidence, metric, task};
/// Statistics: the crate `isomer-stats`.
pub use isomer_stats as stats;

use locate::DatasetLocator;
pub use run::Ledger;
use run::RunManager;
use run_service::RunHandler;
use statistics_service::StatisticsHandler;
use task_service::TaskHandler;
use work::{FleetEngine, LocalEngine, WorkEngine};

/// Parts of the evaluation service that not every process has.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    /// Access to data sets on the hub and their cache.
    pub hub: Option<Resolver>,
    /// Workers that execute units of runs, and the class of arithmetic of this process.
    pub fleet: Option<(Dispatcher, &'a str)>,
    /// The ledger of runs that replicas share.
    pub ledger: Option<Ledger>,
}

/// The evaluation service: `TaskService`, `StatisticsService` and `RunService`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EvalService {
    tasks: TaskHandler,
    runs: RunManager,
    locator: Arc<DatasetLocator>,
    max_message_bytes: usize,
}

impl EvalService {
    /// Opens the state folders. Runs start when they are asked for, so a tokio runtime is needed
    /// only then.
    ///
    /// # Errors
    /// When a folder cannot be made.
    pub fn new(config: EvalConfig, clients: EvalClients) -> Result<Self, EvalError> {
        Self::with_hub(config, clients, None)
    }

    /// As [`EvalService::new`], with access to data sets on the hub and their cache.
    ///
    /// # Errors
    /// When a folder cannot be made.
    pub fn with_hub(config: EvalConfig, clients: EvalClients, hub: Option<Resolver>) -> Result<Self, EvalError> {
        let parts = Parts {
            hub,
            ..Parts::default()
        };
        Self::with_parts(config, clients, parts)
    }

    /// As [`EvalService::new`], with parts that not every process has. With a ledger a tokio
    /// runtime is needed: this process takes over runs of replicas that have stopped.
    ///
    /// # Errors
    /// When a folder cannot be made.
    pub fn with_parts(config: EvalConfig, clients: EvalClients, parts: Parts<'_>) -> Result<Self, EvalError> {
        let Parts { hub, fleet, ledger } = parts;
        isomer_service_kit::metric_names::describe(crate::metric_names::ALL);
        let locator = Arc::new(DatasetLocator {
            folders: config.named_data(),
            hub,
            rules: config.hub_rules(),
        });
        let tasks = TaskHandler::new(Arc::new(config.clone()), clients.clone(), Arc::clone(&locator));
        let max_message_bytes = config.max_message_bytes;
        let own = LocalEngine::new(clients.clone());
        let work: Arc<dyn WorkEngine> = match fleet {
            Some((dispatcher, class)) => Arc::new(FleetEngine::new(dispatcher, class, own)),
            None => Arc::new(own),
        };
        let runs = RunManager::open(config, clients, work, Arc::clone(&locator), ledger)?;
        run::take_part(&runs);
        Ok(Self {
            tasks,
            max_message_bytes,
            locator,
            runs,
        })
    }

    /// Where data sets are looked for, for a process that fetches them before they are asked for.
    pub fn locator(&self) -> &DatasetLocator {
        &self.locator
    }

    /// The runs, for a process that interrupts them before it shuts down.
    pub fn runs(&self) -> &RunManager {
        &self.runs
    }
}

/// The service's gRPC handlers.
pub fn services(service: EvalService) -> Services {
    let most = service.max_message_bytes;
    Services::new()
        .add(Reporting(
            TaskServiceServer::new(service.tasks)
                .max_decoding_message_size(most)
                .max_encoding_message_size(most),
        ))
        .add(
            StatisticsServiceServer::new(StatisticsHandler)
                .max_decoding_message_size(most)
                .max_encoding_message_size(most),
        )
        .add(
            RunServiceServer::new(RunHandler::new(service.runs))
                .max_decoding_message_size(most)
                .max_encoding_message_size(most),
        )
}

/// Serves until `shutdown` completes, then drains. Runs that are still active are handed back to
/// the other replicas of the ledger; without a ledger they end as interrupted and can be started
/// again.
///
/// # Errors
/// When a service cannot be reached, a folder cannot be created or the server stops on its own.
pub async fn run(
    config: ServeConfig,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let clients = EvalClients {
        encoder: client::connect(&config.encoder).await?,
        transform: client::connect(&config.transform).await?,
    };
    let hub = Resolver::new(config.models)?;
    let ledger = match config.eval.ledger.is_set() {
        true => Some(Ledger::open(&config.eval.ledger).await?),
        false => None,
    };
    let blobs = BlobStore::open(&config.store).map_err(FleetError::from)?;
    let dispatcher = match blobs {
        Some(blobs) if config.fleet.is_set() => {
            let queue = Box::pin(Queue::connect(&config.fleet)).await?;
            Some(Dispatcher::open(queue, blobs).await?)
        }
        _ => None,
    };
    let class = isomer_kernels::class();
    let parts = Parts {
        hub: Some(hub),
        fleet: dispatcher.map(|dispatcher| (dispatcher, class.as_str())),
        ledger,
    };
    let service = EvalService::with_parts(config.eval, clients, parts)?;
    let runs = service.runs().clone();
    let stopping = {
        let runs = runs.clone();
        async move {
            shutdown.await;
            // The watchers of a run receive its end before the server drains.
            runs.interrupt().await;
        }
    };
    let served = server::serve(services(service), &config.server, listener, stopping).await;
    runs.interrupt().await;
    served
}
