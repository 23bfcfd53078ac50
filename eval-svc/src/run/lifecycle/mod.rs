//! The life of a run: its queue, execution, watchers, takeover by another replica, storage and
//! deletion.

mod cancel;
mod drive;
pub(super) mod execute;
pub(super) mod expiry;
pub(super) mod forget;
pub(super) mod live;
mod live_runs;
pub(super) mod manager;
pub(super) mod portions;
mod queue;
pub(super) mod redaction;
pub(super) mod report_file;
mod request_locks;
pub(super) mod stages;
pub(super) mod store;
pub(super) mod takeover;
pub(super) mod watch;
