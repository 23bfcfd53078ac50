//! The retention of records: whole segments are removed, by the time at which they were started.

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
/// A segment is written for this fraction of the retention time. So removing it as a whole removes
/// no record much too early.
const PARTS: u32 = 8;
/// Interval between checks for expired segments.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// The maximum age of a record.
///
/// A segment is removed when it was started longer ago than this. A new segment is started after an
/// eighth of that time. So a record is removed after 7/8 of the time at the earliest, and at its
/// end at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MaxAge(Option<Duration>);

impl MaxAge {
    /// An age of this many days; 0: unlimited.
    pub fn days(days: u32) -> Self {
        Self((days > 0).then(|| DAY * days))
    }

    /// Whether records expire by age at all.
    pub fn is_set(self) -> bool {
        self.0.is_some()
    }

    /// Whether a segment started at this time is expired, so that it is removed and no longer read.
    pub fn is_over(self, begun: SystemTime) -> bool {
        self.0.is_some_and(|most| age(begun) >= most)
    }

    /// Whether writes to a segment that started at this time have ended.
    pub fn is_full(self, begun: SystemTime) -> bool {
        self.0.is_some_and(|most| age(begun) >= most / PARTS)
    }
}

/// A time in the future (the clock was set back) counts as now.
fn age(begun: SystemTime) -> Duration {
    begun.elapsed().unwrap_or_default()
}

/// When a segment was started, according to its name. If a file's name does not contain the time,
/// its last change counts.
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

/// The result of a removal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removal {
    pub segments: usize,
    /// Their size on disk.
    pub bytes: u64,
}

/// Removes the expired segments of a folder, including those that a process holds: all of their
/// records are older than 7/8 of the age, and the process starts another segment before it writes
/// again. A missing folder has no segments.
///
/// # Errors
/// If the folder cannot be listed. A segment that cannot be removed is logged and kept.
pub fn remove_over(folder: &Path, format: &Format, age: MaxAge) -> io::Result<Removal> {
    let mut removed = Removal::default();
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

/// Checks for expired segments every hour, on a separate thread, until it is dropped.
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
