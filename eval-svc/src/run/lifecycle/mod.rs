//! The life of a run: its queue, execution, watchers, takeover by another replica, storage and
//! deletion.

pub(super) mod execute;
pub(super) mod expiry;
pub(super) mod forget;
pub(super) mod forgotten;
pub(super) mod live;
pub(super) mod manager;
pub(super) mod portions;
pub(super) mod stages;
pub(super) mod store;
pub(super) mod takeover;
pub(super) mod waiting;
pub(super) mod watch;
