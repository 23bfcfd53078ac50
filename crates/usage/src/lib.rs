//! The usage of a call.
//!
//! * [`Claimant`]: to whom a piece of work's usage is attributed if several processes request it.
//! * [`sum`]: the sum of [`Usage`](isomer_proto::common::v1::Usage) over all of its fields, and its
//!   charged part.
//! * [`count`]: the count of one call, kept while the call runs. Work that is cut off is counted by
//!   its bound.
//! * [`report`]: reports that count in a server's answer, so that the caller knows the usage even
//!   if the call fails, reaches its deadline or is cancelled.
//!
//! This crate does not know keys, prices or budgets; the gateway decides which key pays.

mod claimant;
pub mod count;
pub mod report;
pub mod sum;

pub use claimant::Claimant;
pub use count::{Count, PendingWork, begin, current, scoped};
