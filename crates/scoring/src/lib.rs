//! From vectors and labels to the scores of a task, and the parts of these scores.
//!
//! * [`task`]: task types, and the one place where vectors of a task become its scores.
//! * [`metric`]: task metrics, each as the named reference library defines it.
//! * [`evidence`]: the parts of a main score, item by item.
//! * [`chance`]: whether a score is above chance.
//!
//! Everything is pure: no async, no network, no clock, no global random numbers. Nothing here knows
//! data sets, encoders or runs.

pub mod chance;
pub mod evidence;
pub mod metric;
pub mod task;

/// Statistics: the crate `isomer-stats`.
use isomer_stats as stats;
