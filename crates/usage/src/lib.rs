//! The usage of a call.
//!
//! * [`Claimant`]: whose usage a piece of work counts for, where several processes request it.
//! * [`sum`]: the one sum of [`Usage`](isomer_proto::common::v1::Usage), over all of its fields,
//!   and the part of it that is charged.
//! * [`count`]: the count of one call, kept while the call runs. Work that is cut off is counted by
//!   its bound.
//! * [`report`]: how a server reports that count in its answer, so that the caller knows the usage
//!   even if the call fails, reaches its deadline or is cancelled.
//!
//! This crate knows nothing of keys, prices or budgets; the gateway decides which key pays.

mod claimant;
pub mod count;
pub mod report;
pub mod sum;

pub use claimant::Claimant;
pub use count::{Count, Open, begin, current, scoped};
