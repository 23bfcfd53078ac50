//! Runs: plan → transform → encode → score → judge → separate → decide → report, on a background
//! task. The lifecycle of runs surrounds these stages. A stage imports from no later one, and
//! receives the shared texts and encoders, the results so far, and at most its own plan.
//!
//! Each finished unit is stored on disk.
//!
//! Data moves forward only. Texts come from a transform service that caches them by content. Scores
//! are stored here by content ([`units`]), so a second run encodes nothing, and a killed run
//! resumes from its completed units when it is started again.

mod atomic_file;
mod decide;
mod encode;
mod error;
mod events;
mod holds;
mod judge;
mod lifecycle;
mod plan;
mod progress;
mod record;
mod report;
mod score;
mod separate;
mod transform;
pub mod units;
mod wire;

use std::sync::Arc;

use isomer_service_kit::Tenant;

use crate::{clients::EvalClients, compute::Compute, config::EvalConfig, locate::DatasetLocator, work::WorkEngine};

pub use error::{RunError, StoreError};
pub use events::{Event, EventKind};
pub(crate) use holds::RunHolds;
pub use lifecycle::forget::forget;
pub use lifecycle::manager::{Owner, RunManager};
pub use lifecycle::redaction::{RunRedaction, RunRedactions};
pub use lifecycle::report_file::{ReportFile, ReportFormat};
pub use lifecycle::store::{INTERRUPTED, Ledger, RunPage};
pub(crate) use lifecycle::takeover::take_part;
pub use plan::forecast::Forecast;
pub use record::{
    Counters, Failure, GateOutcome, Generation, JudgeCounters, RunRecord, RunRequest, RunState, Stage, StageProgress,
    SuiteChoice,
};
pub use transform::Outcome;
pub(crate) use wire::judge_scale;

/// Resources that the stages of a run share.
#[derive(Debug, Clone)]
pub(crate) struct RunContext {
    pub config: EvalConfig,
    pub clients: EvalClients,
    /// Executes the requests to transform, rate and encode.
    pub work: Arc<dyn WorkEngine>,
    pub locator: Arc<DatasetLocator>,
    pub units: units::UnitStore,
    /// The shared store, if there is one.
    pub shared: Option<holds::RunHolds>,
    /// Runs the computation of scores.
    pub compute: Compute,
    /// The tenant of the run; none between runs.
    pub tenant: Tenant,
}
