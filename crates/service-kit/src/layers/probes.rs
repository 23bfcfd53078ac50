//! Permits for health and reflection. These need no key and are answered however busy the server
//! is. So each connection may have only a few of them in flight, and the server bounds the number
//! of those that stay open.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Fault, limits::LimitsConfig};

/// Health watches and reflection streams that one connection may have open.
const WATCHES: usize = 4;
/// Other probes that one connection may have in flight.
const CALLS: usize = 64;

/// The probes of one connection; in the extensions of each of its requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct OnConnection(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    watches: AtomicUsize,
    calls: AtomicUsize,
}

impl Counts {
    fn of(&self, watches: bool) -> (&AtomicUsize, usize) {
        if watches {
            (&self.watches, WATCHES)
        } else {
            (&self.calls, CALLS)
        }
    }
}

/// The permits of a server.
#[derive(Debug, Clone)]
pub(crate) struct Probes {
    watches: Arc<Semaphore>,
    bound: usize,
}

impl Probes {
    pub(crate) fn new(limits: &LimitsConfig) -> Self {
        let bound = limits.max_watches.min(Semaphore::MAX_PERMITS);
        Self {
            watches: Arc::new(Semaphore::new(bound)),
            bound,
        }
    }

    /// Returns a permit or the refusal. A channel in memory has no connection, and is trusted.
    pub(super) fn enter(&self, watches: bool, connection: Option<&OnConnection>) -> Result<Permit, Fault> {
        let Some(OnConnection(counts)) = connection else {
            return Ok(Permit {
                counted: None,
                _watch: None,
            });
        };
        let refuse = |bound: usize, of: &str| {
            let message = format!("{bound} health and reflection calls are in flight {of}, which is the limit");
            Fault::overloaded(message, Duration::from_secs(1))
        };
        let (count, bound) = counts.of(watches);
        let counted = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < bound).then_some(n + 1));
        if counted.is_err() {
            return Err(refuse(bound, "on this connection"));
        }
        let mut place = Permit {
            counted: Some((Arc::clone(counts), watches)),
            _watch: None,
        };
        if watches {
            let permit = Arc::clone(&self.watches).try_acquire_owned();
            place._watch = Some(permit.map_err(|_| refuse(self.bound, "on this server"))?);
        }
        Ok(place)
    }
}

/// A probe's permit, released when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    counted: Option<(Arc<Counts>, bool)>,
    _watch: Option<OwnedSemaphorePermit>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((counts, watches)) = &self.counted {
            counts.of(*watches).0.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_connection_has_few_watches_and_a_server_has_a_bound() {
        let probes = Probes::new(&LimitsConfig {
            max_watches: 6,
            ..LimitsConfig::default()
        });
        let (one, other) = (OnConnection::default(), OnConnection::default());
        let mut places: Vec<Permit> = (0..4).map(|_| probes.enter(true, Some(&one)).unwrap()).collect();
        assert!(
            probes
                .enter(true, Some(&one))
                .unwrap_err()
                .message
                .contains("on this connection")
        );
        places.extend((0..2).map(|_| probes.enter(true, Some(&other)).unwrap()));
        assert!(
            probes
                .enter(true, Some(&other))
                .unwrap_err()
                .message
                .contains("on this server")
        );
        probes.enter(false, Some(&one)).unwrap();
        drop(places);
        assert!(probes.enter(true, Some(&one)).is_ok() && probes.enter(true, Some(&other)).is_ok());
    }
}
