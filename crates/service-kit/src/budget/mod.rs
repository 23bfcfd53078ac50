//! Limits the memory of all requests in flight, and of their answers until they are written.
//!
//! Each request reserves memory as its bytes arrive, and memory for its answer before the answer is
//! sent. Both are given back when the last byte of the answer is written. If too little memory is
//! left, the request is refused with a retry hint. No request waits for memory, so requests cannot
//! deadlock on it.
//!
//! One caller may reserve only a share of the memory, so one caller cannot cause refusals for all
//! others.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{Fault, limits::LimitsConfig, metric_names};

/// Memory that a request of `n` bytes may take at its peak, as a multiple of `n`: the body, its
/// decompressed messages, the decoded request and the handler's intermediate values.
pub(crate) const PEAK_FACTOR: usize = 4;
/// Reservations are multiples of this size.
const UNIT: usize = 1024;
/// Size up to which an answer is sent even if no memory is left for it.
const SMALL: usize = 16 << 10;
/// Memory assumed for a machine that does not report its size.
const UNKNOWN_MEMORY: u64 = 4 << 30;

/// The owner of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Reserver {
    /// An account that the authenticator names.
    Account(Arc<str>),
    /// A network address, for callers without an account.
    Address(IpAddr),
}

impl Reserver {
    /// An IPv6 client owns the lower half of its address, so only the upper half counts.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(own) => match own.to_ipv4_mapped() {
                Some(mapped) => mapped.into(),
                None => std::net::Ipv6Addr::from_bits(own.to_bits() >> 64 << 64).into(),
            },
        })
    }
}

/// The budget of a server.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    /// Limit on the reservations of one caller.
    share: usize,
    percent: u8,
    reserved: Mutex<Totals>,
}

#[derive(Debug, Default)]
struct Totals {
    all: usize,
    by_caller: HashMap<Reserver, usize>,
}

impl Budget {
    /// The configured budget; at least enough for one request of the largest size.
    pub(crate) fn new(limits: &LimitsConfig) -> Self {
        let wanted = match limits.max_bytes_in_flight {
            0 => usize::try_from(memory() / 4).unwrap_or(usize::MAX),
            wanted => wanted,
        };
        let least = limits
            .max_message_bytes
            .saturating_mul(PEAK_FACTOR)
            .next_multiple_of(UNIT);
        let total = wanted.max(least);
        let percent = limits.max_caller_percent;
        Self(Arc::new(Shared {
            total,
            share: (total as u128 * u128::from(percent) / 100).clamp(least as u128, total as u128) as usize,
            percent,
            reserved: Mutex::default(),
        }))
    }

    /// An empty reservation.
    pub(crate) fn reserve(&self, reserver: Option<Reserver>) -> Reservation {
        Reservation(Arc::new(Mutex::new(ReservationState {
            budget: Arc::clone(&self.0),
            reserver,
            parts: Parts::default(),
        })))
    }

    /// Bytes that are reserved.
    #[cfg(test)]
    pub(crate) fn reserved(&self) -> usize {
        self.0.reserved.lock().all
    }
}

impl Shared {
    fn take(&self, reserver: Option<&Reserver>, more: usize) -> Result<(), Fault> {
        let mut reserved = self.reserved.lock();
        if more > self.total - reserved.all {
            return Err(self.refusal(more));
        }
        if let Some(reserver) = reserver {
            let own = reserved.by_caller.entry(reserver.clone()).or_default();
            if more > self.share - (*own).min(self.share) {
                if *own == 0 {
                    reserved.by_caller.remove(reserver);
                }
                return Err(self.refusal_of_share(more));
            }
            *own += more;
        }
        reserved.all += more;
        drop(reserved);
        metrics::gauge!(metric_names::RESERVED).increment(more as f64);
        Ok(())
    }

    fn give_back(&self, reserver: Option<&Reserver>, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut reserved = self.reserved.lock();
        reserved.all -= bytes;
        if let Some(reserver) = reserver
            && let Entry::Occupied(mut own) = reserved.by_caller.entry(reserver.clone())
        {
            *own.get_mut() -= bytes;
            if *own.get() == 0 {
                own.remove();
            }
        }
        drop(reserved);
        metrics::gauge!(metric_names::RESERVED).decrement(bytes as f64);
    }

    fn refusal(&self, more: usize) -> Fault {
        let message = format!(
            "requests in flight have reserved nearly all of the {} MiB they may take, and this one needs {} KiB more",
            self.total >> 20,
            more >> 10
        );
        Fault::overloaded(message, std::time::Duration::from_millis(500))
            .hint("try again, send smaller requests, or raise server.limits.max_bytes_in_flight")
            .with("limit", "server.limits.max_bytes_in_flight")
    }

    fn refusal_of_share(&self, more: usize) -> Fault {
        let message = format!(
            "the requests of this caller in flight have reserved nearly all of the {} MiB that one caller may take, and this one needs {} KiB more",
            self.share >> 20,
            more >> 10
        );
        let hint = format!(
            "read earlier answers to their end, send fewer requests at once, or raise server.limits.max_caller_percent, which is {}",
            self.percent
        );
        Fault::overloaded(message, std::time::Duration::from_millis(500))
            .hint(hint)
            .with("limit", "server.limits.max_caller_percent")
    }
}

/// The memory that one request and its answer have reserved. Its clones share it; the last one
/// gives it back.
#[derive(Debug, Clone)]
pub(crate) struct Reservation(Arc<Mutex<ReservationState>>);

#[derive(Debug)]
struct ReservationState {
    budget: Arc<Shared>,
    reserver: Option<Reserver>,
    parts: Parts,
}

/// Bytes of each part of a reservation.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    request: usize,
    answer: usize,
    /// Reserved by the handler for the duration of some work.
    work: usize,
}

impl Parts {
    fn sum(self) -> usize {
        self.request.saturating_add(self.answer).saturating_add(self.work)
    }
}

impl ReservationState {
    fn change(&mut self, change: impl FnOnce(&mut Parts)) -> Result<(), Fault> {
        let mut wanted = self.parts;
        change(&mut wanted);
        let whole = |bytes: usize| bytes.checked_next_multiple_of(UNIT).unwrap_or(usize::MAX);
        wanted.request = whole(wanted.request);
        // A larger answer is sent if its caller has nothing else in flight. Otherwise it could
        // never be sent.
        wanted.answer = whole(wanted.answer).min(self.budget.share);
        match wanted.sum().checked_sub(self.parts.sum()) {
            Some(0) => {}
            Some(more) => self.budget.take(self.reserver.as_ref(), more)?,
            None => {
                let less = self.parts.sum() - wanted.sum();
                self.budget.give_back(self.reserver.as_ref(), less);
            }
        }
        self.parts = wanted;
        Ok(())
    }
}

impl Drop for ReservationState {
    fn drop(&mut self) {
        self.budget.give_back(self.reserver.as_ref(), self.parts.sum());
    }
}

tokio::task_local! {
    /// The reservation of the request that is being handled.
    static CURRENT: Reservation;
}

impl Reservation {
    /// Grows the request's part to at least `bytes`.
    pub(crate) fn grow_to(&self, bytes: usize) -> Result<(), Fault> {
        self.0.lock().change(|parts| parts.request = parts.request.max(bytes))
    }

    /// Releases the request's part: its handler has ended, or the next message of a stream begins.
    pub(crate) fn clear(&self) {
        // A release is never refused.
        let _ = self.0.lock().change(|parts| parts.request = 0);
    }

    /// Sets the answer's part to `bytes`. A small answer is not refused: it may itself be a
    /// refusal.
    pub(crate) fn answer(&self, bytes: usize) -> Result<(), Fault> {
        let changed = self.0.lock().change(|parts| parts.answer = bytes);
        if bytes <= SMALL { Ok(()) } else { changed }
    }

    /// Grows the answer's part to at least `bytes`.
    pub(crate) fn grow_answer_to(&self, bytes: usize) -> Result<(), Fault> {
        self.0.lock().change(|parts| parts.answer = parts.answer.max(bytes))
    }

    /// Assigns the reservation to this account.
    pub(crate) fn of_account(&self, account: Arc<str>) -> Result<(), Fault> {
        let mut held = self.0.lock();
        let parts = held.parts;
        held.change(|parts| *parts = Parts::default())?;
        held.reserver = Some(Reserver::Account(account));
        held.change(|own| *own = parts)
    }

    /// Runs a handler whose calls of [`reserve_answer`] count in this reservation.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// Polls the body of an answer in the scope of this reservation.
    pub(crate) fn sync_scope<T>(self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, work)
    }
}

/// Reserves at least `bytes` for the answer of the current request, before the answer is made. The
/// finished answer replaces this estimate. Outside a request from the network nothing is reserved.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` with a retry hint if too little memory is left for all requests
/// (`server.limits.max_bytes_in_flight`), or for this caller (`server.limits.max_caller_percent`).
pub fn reserve_answer(bytes: usize) -> Result<(), Fault> {
    CURRENT
        .try_with(|reservation| reservation.grow_answer_to(bytes))
        .unwrap_or(Ok(()))
}

/// Temporary memory of a handler, counted in the reservation of its request. Outside a request from
/// the network nothing is reserved.
#[derive(Debug)]
pub struct WorkMemory {
    reservation: Option<Reservation>,
    bytes: usize,
}

impl WorkMemory {
    /// An empty reservation for the current request.
    pub fn new() -> Self {
        Self {
            reservation: CURRENT.try_with(Clone::clone).ok(),
            bytes: 0,
        }
    }

    /// Grows it to at least `bytes`.
    ///
    /// # Errors
    /// Those of [`reserve_answer`].
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Fault> {
        // Rounded to units, so that the parts add up to the released amount.
        let bytes = bytes.checked_next_multiple_of(UNIT).unwrap_or(usize::MAX);
        let (Some(reservation), Some(more)) = (&self.reservation, bytes.checked_sub(self.bytes)) else {
            return Ok(());
        };
        let grow = |parts: &mut Parts| parts.work = parts.work.saturating_add(more);
        reservation.0.lock().change(grow)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Default for WorkMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for WorkMemory {
    fn drop(&mut self) {
        if let Some(reservation) = &self.reservation {
            let bytes = self.bytes;
            // A release is never refused.
            let give_back = |parts: &mut Parts| parts.work = parts.work.saturating_sub(bytes);
            let _ = reservation.0.lock().change(give_back);
        }
    }
}

/// Memory of this machine, or of this process's control group if that is less.
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
mod tests;
