//! How many files, connections included, this process may have open.

/// Limit to set if the hard limit allows it; no server here needs more.
const WANTED: u64 = 1 << 16;
/// Limit assumed if the system does not report one.
const UNKNOWN: u64 = 1024;

/// Raises the soft limit on open files towards the hard limit, and returns the limit then in force.
/// The soft limit is often 1024 for the sake of `select`, which nothing here uses.
#[cfg(unix)]
pub(crate) fn raise_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let now = limit.current.unwrap_or(UNKNOWN);
    let wanted = WANTED.min(most);
    if now >= wanted {
        return now;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(%error, now, wanted, "cannot raise the limit on open files");
            now
        }
    }
}

/// On other systems, other limits are reached first.
#[cfg(not(unix))]
pub(crate) fn raise_limit() -> u64 {
    WANTED
}
