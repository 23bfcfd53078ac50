//! Memory that all requests in flight may take together.
//!
//! Each request reserves memory as its bytes arrive and gives it back when its answer has ended. A
//! request for which too little is left is refused with a retry hint. No request waits for memory,
//! so requests cannot deadlock on it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Fault, limits::LimitsConfig};

/// Memory that a request of `n` bytes may take at its peak, as a multiple of `n`: the body, its
/// decompressed messages, the decoded request and what a handler makes of it.
pub(crate) const PEAK_FACTOR: usize = 4;
/// One permit of the semaphore stands for a kibibyte.
const UNIT: usize = 1024;
/// Memory assumed for a machine that does not tell how much it has.
const UNKNOWN_MEMORY: u64 = 4 << 30;

/// The budget of a server.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    units: Arc<Semaphore>,
    total: usize,
}

impl Budget {
    /// As configured; at least enough for one request of the largest size.
    pub(crate) fn new(limits: &LimitsConfig) -> Self {
        let wanted = match limits.max_bytes_in_flight {
            0 => usize::try_from(memory() / 4).unwrap_or(usize::MAX),
            wanted => wanted,
        };
        let least = limits.max_message_bytes.saturating_mul(PEAK_FACTOR);
        let total = (wanted.max(least) / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            units: Arc::new(Semaphore::new(total)),
            total,
        }
    }

    /// An empty reservation.
    pub(crate) fn reserve(&self) -> Reservation {
        Reservation(Arc::new(Mutex::new(Held {
            budget: self.clone(),
            permit: None,
        })))
    }
}

/// The memory that one request has reserved. Its clones share it; the last one gives it back.
#[derive(Debug, Clone)]
pub(crate) struct Reservation(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    budget: Budget,
    permit: Option<OwnedSemaphorePermit>,
}

impl Reservation {
    /// Makes the reservation at least `bytes` large.
    pub(crate) fn grow_to(&self, bytes: usize) -> Result<(), Fault> {
        let mut held = self.0.lock();
        let wanted = bytes.div_ceil(UNIT);
        let has = held.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Some(more) = wanted.checked_sub(has).filter(|more| *more > 0) else {
            return Ok(());
        };
        let total = held.budget.total;
        let refuse = || {
            let message = format!(
                "requests in flight have reserved nearly all of the {} MiB they may take, and this one needs {} KiB more",
                total / 1024,
                more
            );
            Fault::overloaded(message, std::time::Duration::from_millis(500))
                .hint("try again, send smaller requests, or raise server.limits.max_bytes_in_flight")
        };
        let count = u32::try_from(more).map_err(|_| refuse())?;
        let permit = Arc::clone(&held.budget.units)
            .try_acquire_many_owned(count)
            .map_err(|_| refuse())?;
        match held.permit.as_mut() {
            Some(all) => all.merge(permit),
            None => held.permit = Some(permit),
        }
        Ok(())
    }

    /// Gives everything back, when the next message of a stream begins.
    pub(crate) fn clear(&self) {
        self.0.lock().permit = None;
    }
}

/// Memory of this machine, or of the control group of this process where that is less.
fn memory() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(line.trim().split(' ').next()?.parse::<u64>().ok()? << 10)
    });
    let group = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let group = group
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    [machine, group].into_iter().flatten().min().unwrap_or(UNKNOWN_MEMORY)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn budget(bytes: usize) -> Budget {
        Budget::new(&LimitsConfig {
            max_message_bytes: 4096,
            max_bytes_in_flight: bytes,
            ..LimitsConfig::default()
        })
    }

    #[test]
    fn requests_share_a_budget_and_give_their_part_back() {
        let budget = budget(1 << 20);
        let (one, other) = (budget.reserve(), budget.reserve());
        one.grow_to(600 << 10).unwrap();
        one.grow_to(100 << 10).unwrap();
        other.grow_to(400 << 10).unwrap();
        let refusal = other.grow_to(600 << 10).unwrap_err();
        assert_eq!(
            (refusal.reason.as_str(), refusal.retry_after.is_some()),
            ("OVERLOADED", true)
        );
        let clone = one.clone();
        drop(one);
        assert!(other.grow_to(600 << 10).is_err(), "a clone still holds it");
        drop(clone);
        other.grow_to(600 << 10).unwrap();
        other.clear();
        budget.reserve().grow_to(1 << 20).unwrap();
    }

    #[test]
    fn one_largest_request_always_fits() {
        budget(1).reserve().grow_to(4096 * PEAK_FACTOR).unwrap();
    }
}
