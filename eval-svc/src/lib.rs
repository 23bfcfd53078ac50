//! Computes scores, statistics, robustness profiles and reports from vectors and labels.
//!
//! Pure modules (no async, no tonic, no clock, no global random numbers): [`suite`], [`change`],
//! [`gate`], [`judging`], [`prompts`], [`selection`]. At the edge, [`mod@run`] plans and executes
//! robustness checks with an encoder and a transform service over the given channels; the gRPC
//! handlers only convert protos.

mod augmented;
pub mod change;
mod clients;
mod compute;
pub mod config;
pub mod error;
pub mod form;
pub mod gate;
mod item_clusters;
pub mod judging;
pub mod limits;
mod metric_names;
pub mod mteb_result;
mod pivot;
pub mod prompts;
pub mod run;
mod run_service;
pub mod search_form;
pub mod selection;
pub mod separation;
mod statistics_service;
pub mod stored_form;
pub mod suite;
mod task_service;
pub mod work;

use std::sync::Arc;

use isomer_blobs::BlobStore;
#[cfg(feature = "fleet")]
use isomer_fleet::{Dispatcher, Queue};
use isomer_models::Resolver;
use isomer_proto::eval::v1::{
    run_service_server::RunServiceServer, statistics_service_server::StatisticsServiceServer,
    task_service_server::TaskServiceServer,
};
use isomer_retention::Holds;
use isomer_service_kit::{Fault, Services, Tenant, client, server};
use isomer_usage::report::ReportingService;
use tokio::net::TcpListener;

pub use clients::EvalClients;
use compute::Compute;
pub use config::{EvalConfig, ServeConfig};
pub use error::EvalError;
/// Data sets: the crate `isomer-datasets`.
pub use isomer_datasets as dataset;
/// Locating named data sets: a module of `isomer-datasets`.
pub use isomer_datasets::locate;
/// Reports, the profiles they are based on, and counts of truncated texts: the crate
/// `isomer-report`.
pub use isomer_report::{self as report, profile, terms::truncation};
/// Scores: the crate `isomer-scoring`.
pub use isomer_scoring::{evidence, lexical, metric, task};
/// Statistics: the crate `isomer-stats`.
pub use isomer_stats as stats;

use locate::DatasetLocator;
pub use run::Ledger;
use run::{RunContext, RunError, RunHolds, RunManager, units::UnitStore};
use run_service::RunHandler;
#[cfg(feature = "fleet")]
pub use run_service::fleet::response as fleet_response;
use statistics_service::StatisticsHandler;
use task_service::TaskHandler;
use work::encoding;
#[cfg(feature = "fleet")]
use work::fleet::engine::FleetEngine;
use work::{BatchLimits, LocalEngine, WorkEngine};

/// The resources that a process shares with other machines.
#[derive(Debug, Clone, Default)]
pub struct Shared {
    /// The store, if there is one, with the references of runs to its entries.
    pub store: Option<Holds>,
    /// Workers that execute units of runs, if there are any.
    #[cfg(feature = "fleet")]
    pub workers: Option<Dispatcher>,
    /// The class of arithmetic of this process.
    pub class: String,
    /// The ledger of runs that replicas share. With a ledger a tokio runtime is needed, because
    /// this process takes over runs of replicas that have stopped.
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
    /// Opens the state folders. Runs start on request, so a tokio runtime is needed only then.
    ///
    /// # Errors
    /// When a folder cannot be made.
    pub fn new(config: EvalConfig, clients: EvalClients) -> Result<Self, EvalError> {
        Self::with_hub(config, clients, None)
    }

    /// Like [`EvalService::new`], with access to data sets on the hub and their cache.
    ///
    /// # Errors
    /// When a folder cannot be made.
    pub fn with_hub(config: EvalConfig, clients: EvalClients, hub: Option<Resolver>) -> Result<Self, EvalError> {
        Self::with_shared(config, clients, hub, Shared::default())
    }

    /// Like [`EvalService::with_hub`], with the resources that this process shares with other
    /// machines.
    ///
    /// # Errors
    /// When a folder cannot be made.
    pub fn with_shared(
        config: EvalConfig,
        clients: EvalClients,
        hub: Option<Resolver>,
        shared: Shared,
    ) -> Result<Self, EvalError> {
        isomer_service_kit::metric_names::describe(crate::metric_names::ALL);
        let locator = Arc::new(DatasetLocator {
            folders: config.named_data(),
            hub,
            rules: config.hub_rules(),
        });
        let compute = Compute::default();
        let tasks = TaskHandler::new(
            Arc::new(config.clone()),
            clients.clone(),
            Arc::clone(&locator),
            compute.clone(),
        );
        let max_message_bytes = config.max_message_bytes;
        let own = LocalEngine::new(clients.clone(), BatchLimits::of_encoders(&config), compute.clone());
        #[cfg(not(feature = "fleet"))]
        let work: Arc<dyn WorkEngine> = Arc::new(own);
        #[cfg(feature = "fleet")]
        let work: Arc<dyn WorkEngine> = match shared.workers {
            Some(dispatcher) => Arc::new(FleetEngine::new(
                dispatcher,
                &shared.class,
                own,
                config.score_unit_operations,
            )),
            None => Arc::new(own),
        };
        let holds = shared.store.map(|holds| RunHolds {
            holds,
            hold: None,
            class: shared.class.into(),
        });
        let context = RunContext {
            units: UnitStore::open(config.units_dir()).map_err(RunError::Units)?,
            config,
            clients,
            work,
            locator: Arc::clone(&locator),
            shared: holds,
            compute,
            tenant: Tenant::default(),
        };
        let runs = RunManager::open(context, shared.ledger)?;
        run::take_part(&runs);
        Ok(Self {
            tasks,
            max_message_bytes,
            locator,
            runs,
        })
    }

    /// The locator of data sets, for a process that fetches them in advance.
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
        .add(ReportingService(
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

/// Serves until `shutdown` completes, then drains. Runs that are still active are handed over to
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
    let store = BlobStore::open(&config.store)?.map(Holds::new);
    #[cfg(feature = "fleet")]
    let workers = match &store {
        Some(store) if config.fleet.is_set() => {
            let queue = Box::pin(Queue::connect(&config.fleet)).await?;
            Some(Dispatcher::open(queue, store.clone()).await?)
        }
        _ => None,
    };
    let shared = Shared {
        store,
        #[cfg(feature = "fleet")]
        workers,
        class: isomer_kernels::class(),
        ledger,
    };
    let service = EvalService::with_shared(config.eval, clients, Some(hub), shared)?;
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
