//! What the stages read.

use super::{RunContext, live::Live, plan::Plan, transform::Transformed};

/// What every stage after the transformations reads: the same for all encoders, scales and
/// transformations.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// Clients, stores and settings.
    pub context: &'a RunContext,
    /// What is done.
    pub plan: &'a Plan,
    /// What became of its texts.
    pub transformed: &'a Transformed,
    /// Where progress is told.
    pub live: &'a Live,
}
