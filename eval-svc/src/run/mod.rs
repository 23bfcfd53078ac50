//! Runs: plan → transform → encode → score → judge → profile → report, on a background task. Each
//! finished unit is stored on disk.
//!
//! Data moves forward only. Texts come from a transform service that caches them by content. Scores
//! are stored here by content ([`units`]), so a second run encodes nothing, and a killed run
//! resumes from its completed units when it is started again.

mod allowance;
mod answers;
mod ceiling;
mod corpus;
pub mod cuts;
mod drift;
mod encoders;
mod error;
mod events;
mod examples;
mod execute;
mod expiry;
mod facts;
mod forecast;
mod forget;
mod forgotten;
mod grid;
mod holding;
mod inputs;
mod items;
mod judge;
mod kept_items;
mod lexical;
mod live;
mod looks;
mod manager;
mod measure;
mod order;
mod pilot;
mod plan;
mod portions;
mod power;
mod prepare;
mod probe;
mod progress;
mod prompting;
mod ratings;
mod record;
mod rounds;
mod scale;
mod second_level;
mod separation;
pub mod shared;
mod store;
mod summary;
mod takeover;
mod transform;
pub mod units;
mod vectors;
mod waiting;
mod watch;
mod wire;

use std::sync::Arc;

use isomer_service_kit::Tenant;

use crate::{clients::EvalClients, compute::Compute, config::EvalConfig, locate::DatasetLocator, work::WorkEngine};

pub use error::RunError;
pub use events::{Event, EventKind};
pub use forecast::Forecast;
pub use forget::forget;
pub use forgotten::{ForgottenIn, ForgottenRuns};
pub(crate) use holding::RunHolds;
pub use manager::{Owner, ReportFile, ReportFormat, RunManager};
pub use record::{
    Counters, Failure, GateOutcome, Generation, JudgeCounters, RunRecord, RunRequest, RunState, Stage, StageProgress,
    SuiteChoice,
};
pub use store::{INTERRUPTED, Ledger, StoreError};
pub(crate) use takeover::take_part;
pub use transform::Outcome;
pub(crate) use wire::judge_scale;

/// Resources that the stages of a run share.
#[derive(Debug, Clone)]
struct RunContext {
    config: EvalConfig,
    clients: EvalClients,
    /// Executes the requests to transform, rate and encode.
    work: Arc<dyn WorkEngine>,
    places: Arc<DatasetLocator>,
    units: units::UnitStore,
    /// The shared store, if there is one.
    shared: Option<holding::RunHolds>,
    /// Runs the computation of scores.
    compute: Compute,
    /// The tenant of the run; none between runs.
    tenant: Tenant,
}
