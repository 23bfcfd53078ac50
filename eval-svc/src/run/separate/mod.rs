//! Stage: compares rewrites with changes of meaning under each encoder. [`crate::separation`]
//! defines the terms.
//!
//! * `sets`: the pairs of rewrites and changed copies to compare.
//! * `measure`: the cosines under an encoder. Copies are encoded after the texts of the encoder are
//!   scored, while the vectors of originals and rewrites are in memory. Measurements are stored
//!   like drift, so that a second run encodes nothing.
//! * `summary`: the results for the gate and the report.

pub(super) mod measure;
pub(super) mod sets;
pub(super) mod summary;

pub(crate) use measure::{SeparationEntry, measure};
pub(crate) use sets::sets;
pub(crate) use summary::{of_rules, report};
