//! Limits on the number of connections, and on how long one may be silent.
//!
//! A client that opens connections and sends nothing, or one byte at a time, costs a file
//! descriptor and a little memory for each. So connections are counted, and their bound stays below
//! the limit on open files. A connection is closed if its first request does not arrive in time, if
//! it is idle for too long, or if its client has stopped reading. Beyond the bound, a new
//! connection is closed at once.

mod accepted_connection;
mod counting_service;
#[cfg(test)]
mod unread_tests;
mod watched_socket;

use std::{
    future::{Ready, ready},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum_server::accept::Accept;
use parking_lot::Mutex;
use tokio::{net::TcpStream, time::Instant};

pub(crate) use self::accepted_connection::{ListenerAddress, Newcomers, Port};
use self::{
    accepted_connection::{AcceptedConnection, Newcomer},
    counting_service::CountingService,
    watched_socket::WatchedSocket,
};
use crate::{layers::Client, limits::LimitsConfig, metric_names};

/// Default bound on connections. The configuration may set another; the limit on open files may
/// lower it.
const MOST: usize = 16_384;
/// File descriptors reserved for everything except connections: databases, models, calls to other
/// servers.
const KEPT: std::ops::RangeInclusive<u64> = 64..=1024;
/// Refusals are logged at most once per interval.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// How long a connection may stay in each state without progress.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// From accepting the connection to the head of its first request: handshake, preface, headers.
    first_request: Duration,
    /// Between requests.
    idle: Duration,
    /// Between requests while more than three quarters of the permits are taken.
    idle_when_crowded: Duration,
    /// How long the client may read its answers at less than the minimum rate.
    unread: Duration,
}

impl Patience {
    fn new(limits: &LimitsConfig) -> Self {
        let idle = Duration::from_secs(limits.idle_seconds);
        Self {
            first_request: Duration::from_secs(limits.first_request_seconds),
            idle,
            idle_when_crowded: idle.min(Duration::from_secs(10)),
            unread: Duration::from_secs(60),
        }
    }
}

/// The permits of a server, one for each connection.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    bound: usize,
    open: AtomicUsize,
    patience: Patience,
    begun: Instant,
    /// Refusals since the last log line about refusals, and the time of that line, in milliseconds
    /// since `begun`.
    refused: AtomicU64,
    said: AtomicU64,
}

impl Connections {
    pub(crate) fn new(limits: &LimitsConfig, files: u64) -> Self {
        let room =
            usize::try_from(files - (files / 4).clamp(*KEPT.start(), *KEPT.end()).min(files)).unwrap_or(usize::MAX);
        let wanted = match limits.max_connections {
            0 => MOST,
            wanted => wanted,
        };
        if limits.max_connections > room {
            tracing::warn!(
                wanted,
                room,
                files,
                "fewer connections than configured: the limit on open files is lower"
            );
        }
        Self {
            shared: Arc::new(Shared {
                bound: wanted.min(room).max(1),
                open: AtomicUsize::new(0),
                patience: Patience::new(limits),
                begun: Instant::now(),
                refused: AtomicU64::new(0),
                said: AtomicU64::new(0),
            }),
        }
    }

    fn enter(&self) -> Option<Slot> {
        let shared = &self.shared;
        let taken = shared.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
            (open < shared.bound).then_some(open + 1)
        });
        if taken.is_err() {
            shared.refuse();
            return None;
        }
        metrics::gauge!(metric_names::CONNECTIONS).increment(1.0);
        Some(Slot(Arc::clone(shared)))
    }
}

impl Shared {
    fn is_crowded(&self) -> bool {
        self.open.load(Ordering::Acquire) > self.bound / 4 * 3
    }

    fn refuse(&self) {
        metrics::counter!(metric_names::REFUSED_CONNECTIONS).increment(1);
        let refused = self.refused.fetch_add(1, Ordering::AcqRel) + 1;
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let said = self.said.load(Ordering::Acquire);
        let due = said == 0 || now.saturating_sub(said) >= SAY_EVERY.as_millis() as u64;
        // If several callers find a log line due, only one of them logs it.
        if due
            && self
                .said
                .compare_exchange(said, now.max(1), Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        {
            self.refused.fetch_sub(refused, Ordering::AcqRel);
            tracing::warn!(
                bound = self.bound,
                refused,
                "connections closed at once: as many are open as the limit allows"
            );
        }
    }
}

/// A connection's permit, released when dropped.
#[derive(Debug)]
struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        metrics::gauge!(metric_names::CONNECTIONS).decrement(1.0);
    }
}

/// The state that a connection's socket shares with its requests.
#[derive(Debug)]
struct Activity {
    client: Client,
    begun: Instant,
    in_flight: AtomicUsize,
    /// Time at which the last request began or ended, in milliseconds since `begun`; 0 before the
    /// first.
    last: AtomicU64,
    /// Counts the connection as new until its first request.
    newcomer: Mutex<Option<Newcomer>>,
}

impl Activity {
    fn new(newcomer: Newcomer, client: Client) -> Self {
        Self {
            client,
            newcomer: Mutex::new(Some(newcomer)),
            begun: Instant::now(),
            in_flight: AtomicUsize::new(0),
            last: AtomicU64::new(0),
        }
    }

    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        if self.last.swap(now.max(1), Ordering::AcqRel) == 0 {
            drop(self.newcomer.lock().take());
        }
    }

    /// When the connection will be closed if nothing happens; `None` while a request is in flight.
    fn closing_time(&self, shared: &Shared) -> Option<Instant> {
        if self.in_flight.load(Ordering::Acquire) > 0 {
            return None;
        }
        let patience = &shared.patience;
        match self.last.load(Ordering::Acquire) {
            0 => Some(self.begun + patience.first_request),
            last => {
                let idle = if shared.is_crowded() {
                    patience.idle_when_crowded
                } else {
                    patience.idle
                };
                Some(self.begun + Duration::from_millis(last) + idle)
            }
        }
    }
}

impl<S> Accept<AcceptedConnection, S> for Connections {
    type Stream = WatchedSocket<TcpStream>;
    type Service = CountingService<S>;
    type Future = Ready<io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, AcceptedConnection { stream, newcomer }: AcceptedConnection, service: S) -> Self::Future {
        let Some(place) = self.enter() else {
            return ready(Err(io::Error::other(
                "as many connections are open as the limit allows",
            )));
        };
        // The peer of a connection that has closed in the meantime is unknown.
        let address = stream.peer_addr().ok().map(|peer| peer.ip());
        let activity = Arc::new(Activity::new(newcomer, Client::new(address)));
        let watched = stream
            .set_nodelay(true)
            .map(|()| WatchedSocket::new(stream, Arc::clone(&activity), place));
        ready(watched.map(|stream| (stream, CountingService::new(service, activity))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(max_connections: usize, files: u64) -> usize {
        let limits = LimitsConfig {
            max_connections,
            ..LimitsConfig::default()
        };
        Connections::new(&limits, files).shared.bound
    }

    #[test]
    fn connections_leave_files_for_everything_else() {
        assert_eq!(bound(0, 1024), 768);
        assert_eq!(bound(0, 65_536), MOST);
        assert_eq!(bound(0, 4096), 3072);
        assert_eq!(bound(50_000, 65_536), 50_000);
        assert_eq!(bound(50_000, 20_000), 18_976);
        assert_eq!(bound(10, 1 << 20), 10);
        assert_eq!(bound(0, 32), 1);
    }

    #[test]
    fn places_come_back_and_a_crowd_is_noticed() {
        let limits = LimitsConfig {
            max_connections: 4,
            ..LimitsConfig::default()
        };
        let connections = Connections::new(&limits, 1024);
        let places: Vec<Slot> = (0..4).filter_map(|_| connections.enter()).collect();
        assert_eq!(places.len(), 4);
        assert!(connections.enter().is_none() && connections.shared.is_crowded());
        drop(places);
        assert!(connections.enter().is_some() && !connections.shared.is_crowded());
    }
}
