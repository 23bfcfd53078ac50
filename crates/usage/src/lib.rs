//! What a call has used.
//!
//! * [`sum`]: the one sum of [`Usage`](isomer_proto::common::v1::Usage), over all of its fields,
//!   and what of it is charged.
//! * [`count`]: the count of one call, kept while the call goes on. Work that is cut off in the
//!   middle is counted by its bound.
//! * [`report`]: how a server reports that count in its answer, so that the caller knows it also
//!   where the call fails, reaches its deadline or is given up.
//!
//! This crate knows nothing of keys, prices or budgets: the gateway decides who pays.

pub mod count;
pub mod report;
pub mod sum;

pub use count::{Count, Open, begin, current, scoped};
