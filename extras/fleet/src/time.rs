//! Times in the format of the broker's messages and entries.

use std::time::Duration;

/// Milliseconds of a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
