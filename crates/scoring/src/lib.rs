//! Computes the scores of a task, and the parts of these scores, from vectors and labels.
//!
//! * [`task`]: task types, and the one place where vectors of a task become its scores.
//! * [`metric`]: task metrics, each as defined by the named reference library.
//! * [`lexical`]: terms of texts, and BM25.
//! * [`evidence`]: the parts of a main score, item by item.
//! * [`chance`]: tests whether a score is above chance.
//!
//! Everything is pure: no async, no network, no clock, no global random numbers. This crate does
//! not know data sets, encoders or runs.

pub mod chance;
pub mod evidence;
pub mod lexical;
pub mod metric;
pub mod task;

/// Statistics: the crate `isomer-stats`.
use isomer_stats as stats;
