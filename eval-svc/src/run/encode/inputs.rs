//! The inputs of the stages.

use crate::run::{
    RunContext,
    plan::{Encoders, Layout},
    progress::RunProgress,
    transform::TextResults,
};

/// The inputs of every stage after the transformations, the same for all encoders, scales and
/// transformations.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Clients, stores and settings.
    pub context: &'a RunContext,
    /// The texts of the run.
    pub layout: &'a Layout,
    pub encoders: &'a Encoders,
    pub text_results: &'a TextResults,
    /// Receives progress reports.
    pub progress: &'a RunProgress,
}
