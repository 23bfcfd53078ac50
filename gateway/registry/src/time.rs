//! Times in the format of the records: microseconds since 1970; 0 means no time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost_types::Timestamp;

/// Microseconds since 1970.
pub(crate) type Micros = i64;

pub(crate) fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    micros(since)
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> Micros {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A time as a protobuf timestamp; `None` for 0.
pub(crate) fn timestamp(at: Micros) -> Option<Timestamp> {
    (at != 0).then(|| Timestamp {
        seconds: at.div_euclid(1_000_000),
        nanos: i32::try_from(at.rem_euclid(1_000_000) * 1000).unwrap_or_default(),
    })
}

/// The time left until `at`.
pub(crate) fn until(at: Micros, now: Micros) -> Duration {
    Duration::from_micros(u64::try_from(at.saturating_sub(now)).unwrap_or_default())
}

/// A duration from protobuf; `None` if it is negative or not in the canonical form (nanoseconds
/// under a second).
pub(crate) fn length(duration: &prost_types::Duration) -> Option<Duration> {
    let nanos = u32::try_from(duration.nanos)
        .ok()
        .filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(duration.seconds).ok()?, nanos))
}
