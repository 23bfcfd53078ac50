//! Stage: compares rewrites with changes of meaning under each encoder. [`crate::separation`]
//! defines the terms.
//!
//! * `copies`: changed copies. Rules make their copies with the plan; the transform service makes
//!   the others after the rewrites of a round.
//! * `sets`: the pairs of rewrites and copies to compare.
//! * `measure`: the cosines under an encoder. Copies are encoded after the texts of the encoder are
//!   scored, while the vectors of originals and rewrites are in memory. Measurements are stored
//!   like drift, so that a second run encodes nothing.
//! * `summary`: the results for the gate and the report.

mod copies;
mod measure;
mod sets;
mod summary;

pub(super) use copies::{Copies, copy, keys, may_ask, may_swap, most_texts, prepare, spec, what};
pub(super) use measure::{Separated, measure};
pub(super) use sets::sets;
pub(super) use summary::{of_rules, report};

use super::{
    plan::{Plan, PlannedTransformation, Table},
    prompting::{Slot, TablePrompts},
};
use crate::profile::Axis;

/// Seed of every draw: the run's first.
fn first_seed(plan: &Plan) -> u64 {
    plan.suite.seeds.first().copied().unwrap_or_default()
}

/// The prompt under which texts, rewrites and changed copies are encoded: that of the texts that
/// are transformed.
fn slot(table: &Table, encoder: usize) -> Slot {
    table.prompts.get(encoder).map_or(0, TablePrompts::varied)
}

/// Whether the transformation keeps the meaning: all except the controls and augmentations do.
fn rewrites(planned: &PlannedTransformation) -> bool {
    planned.axis.in_total()
}

/// Whether the transformation's rewrites count in the separation of an encoder as a whole: those in
/// the text's own language. A translation also tests whether the encoder supports the other
/// language, so it is reported separately.
pub(super) fn counts(planned: &PlannedTransformation) -> bool {
    matches!(planned.axis, Axis::Lexical | Axis::Length)
}
