//! Runs: plan → transform → encode → score → judge → profile → report, on a background task. Each
//! finished unit is stored on disk.
//!
//! Data moves forward only. Texts come from a transform service that caches them by content. Scores
//! are stored here by content ([`units`]), so a second run encodes nothing, and a killed run
//! resumes from its completed units when it is started again.

mod allowance;
mod answers;
mod atomic_file;
mod ceiling;
mod copies;
mod copy_plan;
mod corpus;
pub mod cuts;
mod drift;
mod drift_rows;
mod encode;
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
mod judge_trial;
mod kept_items;
mod lexical;
mod live;
mod looks;
mod manager;
mod measure;
mod order;
mod pairs;
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
mod requests;
mod results;
mod rounds;
mod scale;
mod second_level;
mod separation;
pub mod shared;
mod stages;
mod store;
mod summary;
mod table;
mod takeover;
mod text_set;
mod transform;
mod transformations;
mod truncation;
pub mod units;
mod vectors;
mod waiting;
mod watch;
mod wire;

use std::sync::Arc;

use isomer_service_kit::Tenant;

use crate::{clients::EvalClients, compute::Compute, config::EvalConfig, locate::DatasetLocator, work::WorkEngine};

pub use error::{RunError, StoreError};
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
pub use store::{INTERRUPTED, Ledger};
pub(crate) use takeover::take_part;
pub use transform::Outcome;
pub(crate) use wire::judge_scale;

/// Resources that the stages of a run share.
#[derive(Debug, Clone)]
pub(crate) struct RunContext {
    pub config: EvalConfig,
    pub clients: EvalClients,
    /// Executes the requests to transform, rate and encode.
    pub work: Arc<dyn WorkEngine>,
    pub places: Arc<DatasetLocator>,
    pub units: units::UnitStore,
    /// The shared store, if there is one.
    pub shared: Option<holding::RunHolds>,
    /// Runs the computation of scores.
    pub compute: Compute,
    /// The tenant of the run; none between runs.
    pub tenant: Tenant,
}
