//! The plan of a run: the texts and encoders that all stages share, the plan of each stage, and the
//! manifest that the report shows.

pub(super) mod ceiling;
pub(super) mod copies;
pub(super) mod datasets;
pub(super) mod encoders;
pub(super) mod forecast;
pub(super) mod judge;
pub(super) mod layout;
pub(super) mod order;
pub(super) mod pilot;
pub(super) mod power;
pub(super) mod prepare;
pub(super) mod probe;
pub(super) mod prompts;
pub(super) mod requests;
pub(super) mod rounds;
pub(super) mod suite;
pub(super) mod table;
pub(super) mod transform;
pub(super) mod transformations;

use isomer_service_kit::WorkMemory;

use self::transform::TransformPlan;
use crate::gate::BoundGate;
pub(crate) use encoders::Encoders;
pub(crate) use judge::JudgePlan;
pub(crate) use layout::{Layout, Variant};

/// The planned work of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Memory of the data sets, if a request waits for the plan. A run in the background reserves
    /// none.
    pub _memory: WorkMemory,
    /// The texts, which all stages share.
    pub layout: Layout,
    /// The encoders, which all stages share.
    pub encoders: Encoders,
    pub stages: StagePlans,
    pub manifest: RunManifest,
}

/// The plan of each stage that has one.
#[derive(Debug)]
pub(crate) struct StagePlans {
    pub transform: TransformPlan,
    /// The judge that rates the transformed texts, if there is one.
    pub judge: Option<JudgePlan>,
    /// The gate's rules, if there are any.
    pub gate: Option<BoundGate>,
}

/// The choices of a run that only its report shows.
#[derive(Debug, Clone)]
pub(crate) struct RunManifest {
    /// Digest of the suite's text.
    pub suite_digest: String,
    /// Generator id; empty: the transform service's default.
    pub generator: String,
    /// Position of the baseline encoder.
    pub baseline: Option<usize>,
}
