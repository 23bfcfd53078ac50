//! The life of a run: its queue, execution, watchers, takeover by another replica, storage and
//! deletion.

pub(super) mod cancel;
pub(super) mod drive;
pub(super) mod execute;
pub(super) mod expiry;
pub(super) mod forget;
pub(super) mod live;
pub(super) mod live_runs;
pub(super) mod manager;
pub(super) mod portions;
pub(super) mod queue;
pub(super) mod redaction;
pub(super) mod report_file;
pub(super) mod request_locks;
pub(super) mod stages;
pub(super) mod store;
pub(super) mod takeover;
pub(super) mod watch;
