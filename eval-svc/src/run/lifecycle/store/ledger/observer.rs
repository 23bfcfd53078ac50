//! Detects replicas that have stopped. Pure: the time is an argument.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Watches the heartbeat numbers of replicas.
#[derive(Debug)]
pub(in crate::run) struct Observer {
    lease: Duration,
    /// The number of each replica, and the time since which it is unchanged. Replicas that lead
    /// runs but have no number are included.
    seen: HashMap<String, (Option<i64>, Instant)>,
    last: Option<Instant>,
}

impl Observer {
    /// Replicas whose number is unchanged for `lease` have stopped.
    pub(in crate::run) fn new(lease: Duration) -> Self {
        Self {
            lease,
            seen: HashMap::new(),
            last: None,
        }
    }

    /// Takes the current numbers of all replicas and the current leaders of runs.
    pub(in crate::run) fn observe<'a>(
        &mut self,
        beats: &'a HashMap<String, i64>,
        leaders: impl Iterator<Item = &'a str>,
        now: Instant,
    ) {
        // An observer that was itself paused has not observed the others.
        let paused = self.last.is_some_and(|last| now.duration_since(last) > self.lease / 2);
        self.last = Some(now);
        let names: Vec<&str> = beats.keys().map(String::as_str).chain(leaders).collect();
        self.seen.retain(|name, _| names.contains(&name.as_str()));
        for name in names {
            let beat = beats.get(name).copied();
            match self.seen.get_mut(name) {
                Some((known, since)) if *known != beat || paused => (*known, *since) = (beat, now),
                Some(_) => {}
                None => drop(self.seen.insert(name.to_owned(), (beat, now))),
            }
        }
    }

    /// Whether a replica has stopped.
    pub(in crate::run) fn has_stopped(&self, replica: &str, now: Instant) -> bool {
        let since = self.seen.get(replica).map(|(_, since)| *since);
        since.is_some_and(|since| now.duration_since(since) >= self.lease)
    }

    /// The replicas that have stopped.
    pub(in crate::run) fn stopped(&self, now: Instant) -> Vec<String> {
        let names = self.seen.keys().filter(|name| self.has_stopped(name, now));
        names.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    /// Observes one replica every second; `beats` is its number second by second.
    fn stopped_after(beats: &[Option<i64>]) -> Option<usize> {
        let start = Instant::now();
        let mut observer = Observer::new(LEASE);
        for (second, beat) in beats.iter().enumerate() {
            let now = start + Duration::from_secs(second as u64);
            let beats = beat.map(|beat| ("a".to_owned(), beat)).into_iter().collect();
            observer.observe(&beats, ["a"].into_iter(), now);
            if observer.has_stopped("a", now) {
                return Some(second);
            }
        }
        None
    }

    #[test]
    fn a_replica_has_stopped_when_its_number_stood_still_for_a_lease() {
        let mut beats: Vec<Option<i64>> = (0..10).map(Some).collect();
        beats.extend([Some(9); 30]);
        assert_eq!(stopped_after(&beats), Some(9 + 15));
        let living: Vec<Option<i64>> = (0..100).map(|second| Some(second / 5)).collect();
        assert_eq!(stopped_after(&living), None);
    }

    #[test]
    fn a_leader_without_a_number_has_stopped_after_a_lease_too() {
        assert_eq!(stopped_after(&[None; 40]), Some(15));
    }

    #[test]
    fn an_observer_that_stood_still_itself_waits_anew() {
        let start = Instant::now();
        let mut observer = Observer::new(LEASE);
        let beats = HashMap::from([("a".to_owned(), 1)]);
        observer.observe(&beats, std::iter::empty(), start);
        let late = start + Duration::from_secs(60);
        observer.observe(&beats, std::iter::empty(), late);
        assert!(!observer.has_stopped("a", late));
        for second in 1..=15 {
            observer.observe(&beats, std::iter::empty(), late + Duration::from_secs(second));
        }
        assert_eq!(observer.stopped(late + LEASE), ["a"]);
    }
}
