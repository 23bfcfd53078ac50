//! Chooses the peer that gets the next request.

use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::time::Instant;

use super::peer::Peer;

/// Minimum latency of a slow provider, in seconds. Below it, differences come from queues.
const SLOW_FLOOR: f64 = 0.25;
/// Smallest significant difference of latencies, in seconds.
const NOTABLE: f64 = 0.005;

/// Draws two peers at random and takes the less busy one ("power of two choices"). If they are
/// equally busy, it takes the first, unless the other is much faster or its speed is unknown. With
/// a `slow_factor` of 0, speed does not matter.
///
/// The two come from the first of these groups that is not empty: healthy and not tried yet;
/// healthy but tried; unhealthy and not tried, if there are several replicas (one may have
/// recovered, and a certain refusal helps no caller).
pub(crate) fn choose<R: AsRef<Arc<Peer>>>(
    replicas: &[Arc<R>],
    tried: &[Arc<R>],
    slow_factor: f64,
    warmup: Duration,
    now: Instant,
    random: &mut impl Rng,
) -> Option<Arc<R>> {
    let is_tried = |one: &Arc<R>| tried.iter().any(|other| Arc::ptr_eq(one, other));
    let well: Vec<&Arc<R>> = replicas.iter().filter(|one| peer(one).available(now)).collect();
    let fresh: Vec<&Arc<R>> = well.iter().copied().filter(|one| !is_tried(one)).collect();
    let pool = if !fresh.is_empty() {
        quick(fresh, slow_factor)
    } else if !well.is_empty() {
        well
    } else {
        // No replica is available. If there are several, a replica that fails health checks or
        // whose breaker is open is still better than none. The best is the one with the fewest
        // failed checks. A single replica with an open breaker gets no requests: that is the
        // breaker's purpose. The failed checks are read once, so that a health check that fails
        // meanwhile cannot empty the list.
        let left = replicas.iter().filter(|one| !is_tried(one) && replicas.len() > 1);
        let left: Vec<(u32, &Arc<R>)> = left.map(|one| (peer(one).failed_checks(), one)).collect();
        let fewest = left.iter().map(|(failed, _)| *failed).min();
        let best = left.into_iter().filter(|(failed, _)| Some(*failed) == fewest);
        best.map(|(_, one)| one).collect()
    };
    match pool.as_slice() {
        [] => None,
        [one] => Some(Arc::clone(one)),
        many => {
            let first = random.random_range(0..many.len());
            let second = (first + random.random_range(1..many.len())) % many.len();
            let (first, second) = (many[first], many[second]);
            let (a, b) = (peer(first).load(now, warmup), peer(second).load(now, warmup));
            let second_wins = b < a || b == a && slow_factor > 0.0 && preferred(peer(second), peer(first));
            Some(Arc::clone(if second_wins { second } else { first }))
        }
    }
}

fn peer<R: AsRef<Arc<Peer>>>(one: &Arc<R>) -> &Peer {
    R::as_ref(one)
}

/// Whether a peer is preferred to another that is equally busy. It is preferred if it answers in
/// less than half of the other's time and is some milliseconds faster (a smaller difference is
/// chance), or if it alone has not answered yet. Without the second rule, a slow peer that is drawn
/// first would get all requests until chance draws another.
fn preferred(one: &Peer, other: &Peer) -> bool {
    match (one.latency(), other.latency()) {
        (Some(one), Some(other)) => one < other / 2.0 && other - one > NOTABLE,
        (None, Some(_)) => true,
        (_, None) => false,
    }
}

/// Leaves out peers that are many times as slow as the fastest, unless no others are left.
fn quick<R: AsRef<Arc<Peer>>>(pool: Vec<&Arc<R>>, slow_factor: f64) -> Vec<&Arc<R>> {
    if slow_factor == 0.0 || pool.len() < 2 {
        return pool;
    }
    let fastest = pool
        .iter()
        .filter_map(|one| peer(one).latency())
        .fold(f64::INFINITY, f64::min);
    let bound = (fastest * slow_factor).max(SLOW_FLOOR);
    pool.into_iter()
        .filter(|one| peer(one).latency().is_none_or(|latency| latency <= bound))
        .collect()
}
