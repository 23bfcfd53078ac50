//! Audits refused attempts at administrators' calls, up to a rate.
//!
//! Without a bound, a caller could fill the table with attempts. Attempts beyond the bound are
//! counted, and the next event reports their number.

use std::time::{Duration, Instant};

use http::request::Parts;
use isomer_proto::gateway::v1::AccessScope;
use isomer_service_kit::Fault;
use parking_lot::Mutex;

use crate::{Access, Scopes, caller::signature};

/// Maximum number of events in one window.
const MOST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum recorded length of a path.
const LONGEST_PATH: usize = 200;

/// The number of attempts that were recorded recently.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    begun: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Attempts {
    /// Returns whether this attempt may be recorded, and the number of unrecorded attempts before
    /// it.
    fn take(&self, now: Instant) -> Option<u64> {
        let mut window = self.0.lock();
        if window.begun.is_none_or(|begun| now.duration_since(begun) >= WINDOW) {
            window.begun = Some(now);
            window.written = 0;
        }
        if window.written >= MOST {
            window.left_out += 1;
            return None;
        }
        window.written += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

impl Access {
    /// Audits a refusal for a missing scope, if only administrators have that scope.
    pub(crate) async fn note_attempt(&self, parts: &Parts, needed: Scopes, who: (&str, &str), fault: &Fault) {
        if Scopes::NONE.lacks(needed) != Some(AccessScope::Admin) {
            return;
        }
        let Some(left_out) = self.0.attempts.take(Instant::now()) else {
            return;
        };
        let path: String = parts.uri.path().chars().take(LONGEST_PATH).collect();
        let target = match left_out {
            0 => path,
            more => format!("{path}, after {more} more that were not recorded"),
        };
        let (name, principal) = who;
        // The request is refused even if the attempt cannot be recorded.
        if let Err(error) = self
            .keys()
            .audit(&signature(name, principal), "attempt", &target, Err(fault))
            .await
        {
            tracing::warn!(%error, target, "a refused attempt is missing from the audit log");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_written_down_up_to_a_rate_and_the_rest_is_counted() {
        let attempts = Attempts::default();
        let begun = Instant::now();
        for _ in 0..MOST {
            assert_eq!(attempts.take(begun), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(attempts.take(begun), None);
        }
        assert_eq!(attempts.take(begun + WINDOW), Some(5));
        assert_eq!(attempts.take(begun + WINDOW), Some(0));
    }
}
