//! The retention of entries.

use std::{
    fmt::Display,
    io,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, SystemTime},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Interval between checks for expired entries.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// The maximum age of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MaxAge(Option<Duration>);

impl MaxAge {
    /// An age of this many days; 0: unlimited.
    pub fn days(days: u32) -> Self {
        Self((days > 0).then(|| DAY * days))
    }

    /// Whether an entry of this time is expired.
    pub fn is_over(self, made: SystemTime) -> bool {
        self.cutoff().is_some_and(|cutoff| made <= cutoff)
    }

    /// The time at or before which an expired entry was written; `None` if nothing expires.
    pub(crate) fn cutoff(self) -> Option<SystemTime> {
        SystemTime::now().checked_sub(self.0?)
    }
}

/// The removed entries, and the freed bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removal {
    pub entries: u64,
    pub bytes: u64,
}

/// Removes expired entries every hour, on a separate thread, until it is dropped.
#[derive(Debug)]
pub struct Hourly {
    _stop: mpsc::Sender<()>,
}

impl Hourly {
    /// Calls `remove` on a cache every hour while the cache is in use; `None` if nothing expires by
    /// age.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start<T, E>(cache: &Arc<T>, age: MaxAge, remove: fn(&T) -> Result<Removal, E>) -> io::Result<Option<Self>>
    where
        T: Send + Sync + 'static,
        E: Display + 'static,
    {
        if age.0.is_none() {
            return Ok(None);
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let weak = Arc::downgrade(cache);
        let look = move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let Some(cache) = weak.upgrade() else { break };
                if let Err(error) = remove(&cache) {
                    tracing::warn!(%error, "what is too old for a cache cannot be removed");
                }
            }
        };
        thread::Builder::new().name("cache-age".into()).spawn(look)?;
        Ok(Some(Self { _stop: stop }))
    }
}
