//! The inputs of the stages.

use crate::run::{RunContext, plan::Plan, progress::RunProgress, transform::TextResults};

/// The inputs of every stage after the transformations, the same for all encoders, scales and
/// transformations.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Clients, stores and settings.
    pub context: &'a RunContext,
    /// The plan of the run.
    pub plan: &'a Plan,
    pub text_results: &'a TextResults,
    /// Receives progress reports.
    pub progress: &'a RunProgress,
}
