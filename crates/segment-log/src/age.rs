//! How long records are kept: whole segments go, by when they were begun.

use std::{
    fmt::Display,
    fs, io,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, SystemTime},
};

use uuid::Uuid;

use crate::{Format, list};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A segment is written to for this part of the time that its records are kept, so that removing it
/// whole removes no record much earlier than its own time.
const PARTS: u32 = 8;
/// How often what is too old is looked for.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// The longest time that a record is kept.
///
/// A segment is removed when it was begun longer ago, and another one is begun when an eighth of
/// that time has passed: a record goes after 7/8 of the time at the earliest, and at its end at the
/// latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MaxAge(Option<Duration>);

impl MaxAge {
    /// So many days; 0: any time.
    pub fn days(days: u32) -> Self {
        Self((days > 0).then(|| DAY * days))
    }

    /// Whether records go by their age at all.
    pub fn is_set(self) -> bool {
        self.0.is_some()
    }

    /// Whether what was begun then is to be removed, and not read any more.
    pub fn is_over(self, begun: SystemTime) -> bool {
        self.0.is_some_and(|most| age(begun) >= most)
    }

    /// Whether a segment that was begun then is written to no longer.
    pub fn is_full(self, begun: SystemTime) -> bool {
        self.0.is_some_and(|most| age(begun) >= most / PARTS)
    }
}

/// A time that is still to come (the clock was set back) is now.
fn age(begun: SystemTime) -> Duration {
    begun.elapsed().unwrap_or_default()
}

/// When a segment was begun: its name says so. A file whose name does not is taken to be as old as
/// its last change.
pub(crate) fn begun(path: &Path, format: &Format, changed: SystemTime) -> SystemTime {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let middle = name
        .strip_prefix(format.prefix)
        .and_then(|rest| rest.strip_suffix(format.suffix));
    let stamp = middle
        .and_then(|id| Uuid::parse_str(id).ok())
        .and_then(|id| id.get_timestamp());
    stamp.map_or(changed, |stamp| {
        let (seconds, nanoseconds) = stamp.to_unix();
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
    })
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Segments.
    pub segments: usize,
    /// What they took on disk.
    pub bytes: u64,
}

/// Removes the segments of a folder that are over the age, also those that a process holds: none
/// of its records is younger than 7/8 of the age, and the process begins another one before it
/// writes again. A folder that is not there has none.
///
/// # Errors
/// The folder cannot be listed. A segment that cannot be removed is logged and stays.
pub fn remove_over(folder: &Path, format: &Format, age: MaxAge) -> io::Result<Removed> {
    let mut removed = Removed::default();
    if !age.is_set() {
        return Ok(removed);
    }
    let segments = match list(folder, format) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(removed),
        segments => segments?,
    };
    for segment in segments.into_iter().filter(|segment| age.is_over(segment.begun)) {
        match fs::remove_file(&segment.path) {
            Ok(()) => {
                removed.segments += 1;
                removed.bytes += segment.bytes;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(segment = %segment.path.display(), %error, "a cache segment is too old and cannot be removed");
            }
        }
    }
    Ok(removed)
}

/// Looks every hour for what is too old, on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Hourly {
    _stop: mpsc::Sender<()>,
}

impl Hourly {
    /// Calls `remove` of a cache every hour while the cache is in use; `None` if nothing goes by
    /// its age.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start<T, E>(cache: &Arc<T>, age: MaxAge, remove: fn(&T) -> Result<Removed, E>) -> io::Result<Option<Self>>
    where
        T: Send + Sync + 'static,
        E: Display + 'static,
    {
        if !age.is_set() {
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
