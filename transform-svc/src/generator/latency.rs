//! Response latencies, and the time after which a slow call is hedged with a second one (Dean &
//! Barroso 2013).

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;

use crate::config::Hedge;

/// Number of responses that are remembered.
const WINDOW: usize = 200;
/// Number of responses needed before their 95th percentile is used.
const ENOUGH: usize = 20;

/// Latencies of the last responses.
#[derive(Debug, Default)]
pub(super) struct Latency {
    last: Mutex<VecDeque<Duration>>,
}

impl Latency {
    /// Records one latency.
    pub(super) fn add(&self, took: Duration) {
        let mut last = self.last.lock();
        if last.len() == WINDOW {
            last.pop_front();
        }
        last.push_back(took);
    }

    /// The time to wait for a response before a second call; `None`: no second call.
    pub(super) fn hedge_after(&self, hedge: Hedge) -> Option<Duration> {
        match hedge {
            Hedge::Off => None,
            Hedge::Seconds(seconds) => Some(Duration::from_secs_f64(seconds)),
            Hedge::P95 => {
                let last = self.last.lock();
                if last.len() < ENOUGH {
                    return None;
                }
                let mut sorted: Vec<_> = last.iter().copied().collect();
                sorted.sort_unstable();
                sorted.get(sorted.len() * 95 / 100).copied()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_fixed_or_the_95th_percentile_of_what_is_known() {
        let latency = Latency::default();
        assert_eq!(latency.hedge_after(Hedge::Off), None);
        assert_eq!(
            latency.hedge_after(Hedge::Seconds(0.5)),
            Some(Duration::from_millis(500))
        );
        (1..ENOUGH as u64).for_each(|n| latency.add(Duration::from_millis(n)));
        assert_eq!(latency.hedge_after(Hedge::P95), None, "too few to tell");
        (0..1000).for_each(|n| latency.add(Duration::from_millis(n)));
        // The last 200 latencies: 800 to 999.
        assert_eq!(latency.hedge_after(Hedge::P95), Some(Duration::from_millis(990)));
    }
}
