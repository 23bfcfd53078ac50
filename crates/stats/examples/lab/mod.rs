//! Simulations of gates: error rates at the limit, savings of sequential checks.
//!
//! * [`simulate`]: sequential checks.
//! * [`laws`]: skewed, collapsed and clustered drops. [`boundary`]: how often bounds err under
//!   them. [`layouts`]: the data sets of the shipped suites.
#![allow(dead_code, reason = "each example uses a part, and the tests another")]

pub(crate) mod boundary;
pub(crate) mod laws;
pub(crate) mod layouts;
pub(crate) mod simulate;
