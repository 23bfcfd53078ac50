//! The search of one layer (algorithm 2), and the choice of neighbours (algorithm 4).

use parking_lot::Mutex;

use super::{
    layer::LayerLinks,
    space::{Query, Space, Work, distance_of, place_of},
};

/// Number of chosen neighbours with which a candidate is compared at a time.
const COMPARED: usize = 4;
/// The bit of a key that records that the candidate's links were followed.
const FOLLOWED: u64 = 1;

/// The memory of one search, reused by the next.
#[derive(Debug)]
pub(super) struct Beam {
    /// By place: the number of the last search that visited the document. Numbers restart after 255
    /// searches.
    met: Vec<u8>,
    search: u8,
    /// Keys of the nearest documents found, nearest first, at most as many as the candidates to be
    /// held. The next candidate to follow is the first one not yet followed. A candidate that
    /// dropped out of the pool is too far away to be followed.
    pool: Vec<u64>,
    places: Vec<u32>,
    keys: Vec<u64>,
    work: Work,
    chosen: Vec<u32>,
    passed: Vec<u32>,
}

impl Beam {
    fn new(documents: usize) -> Self {
        Self {
            met: vec![0; documents],
            search: 0,
            pool: Vec::new(),
            places: Vec::new(),
            keys: Vec::new(),
            work: Work::default(),
            chosen: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// The nearest document that a search with one candidate finds.
    pub(super) fn nearest(&mut self, space: &Space<'_>, linked: LayerLinks<'_>, query: Query<'_>, start: u32) -> u32 {
        self.search(space, linked, query, &[start], 1);
        self.found().next().unwrap_or(start)
    }

    /// Searches a layer from the given places with `held` candidates. The result is
    /// [`Self::found`].
    pub(super) fn search(
        &mut self,
        space: &Space<'_>,
        linked: LayerLinks<'_>,
        query: Query<'_>,
        starts: &[u32],
        held: usize,
    ) {
        if self.search == u8::MAX {
            self.met.fill(0);
            self.search = 0;
        }
        self.search += 1;
        self.pool.clear();
        self.take_in(space, query, starts, held);
        let mut next = 0;
        while let Some(candidate) = self.pool.get_mut(next) {
            next += 1;
            if *candidate & FOLLOWED == 0 {
                *candidate |= FOLLOWED;
                let links = linked.of(place_of(*candidate));
                next = next.min(self.take_in(space, query, links, held));
            }
        }
    }

    /// The places found by the last search, nearest first.
    pub(super) fn found(&self) -> impl ExactSizeIterator<Item = u32> {
        self.pool.iter().map(|key| place_of(*key))
    }

    /// Adds those places to the pool that were not visited before and are near enough. Returns the
    /// position of the first added place, or of the end.
    fn take_in(&mut self, space: &Space<'_>, query: Query<'_>, places: &[u32], held: usize) -> usize {
        self.places.clear();
        for place in places {
            let met = &mut self.met[*place as usize];
            if *met != self.search {
                *met = self.search;
                self.places.push(*place);
            }
        }
        space.keys(query, &self.places, &mut self.work, &mut self.keys);
        if self.pool.len() >= held
            && let Some(worst) = self.pool.last()
        {
            self.keys.retain(|key| key < worst);
        }
        self.keys.sort_unstable();
        merge(&mut self.pool, &self.keys, held)
    }

    /// Chooses neighbours among the documents found by the last search, up to the given number.
    pub(super) fn choose_of_found(&mut self, space: &Space<'_>, most: usize) -> &[u32] {
        let pool = std::mem::take(&mut self.pool);
        self.choose(space, &pool, most, most);
        self.pool = pool;
        &self.chosen
    }

    /// Chooses neighbours of a document among others: at most `most`, and at least `filled` if that
    /// many exist.
    pub(super) fn choose_of(
        &mut self,
        space: &Space<'_>,
        place: u32,
        others: &[u32],
        most: usize,
        filled: usize,
    ) -> &[u32] {
        let mut keys = Vec::with_capacity(others.len());
        space.keys(space.at(place), others, &mut self.work, &mut keys);
        keys.sort_unstable();
        self.choose(space, &keys, most, filled);
        &self.chosen
    }

    /// Algorithm 4 without extension. Of the candidates, nearest first, it chooses at most `most`
    /// that are nearer to the document itself than to any candidate chosen before. If these are
    /// fewer than `filled`, the nearest skipped candidates are appended.
    fn choose(&mut self, space: &Space<'_>, candidates: &[u64], most: usize, filled: usize) {
        self.chosen.clear();
        self.passed.clear();
        for candidate in candidates {
            if self.chosen.len() == most {
                break;
            }
            let (place, distance) = (place_of(*candidate), distance_of(*candidate));
            let query = space.at(place);
            let nearer = self.chosen.chunks(COMPARED).any(|chosen| {
                space.keys(query, chosen, &mut self.work, &mut self.keys);
                self.keys.iter().any(|key| distance_of(*key) < distance)
            });
            if nearer {
                self.passed.push(place);
            } else {
                self.chosen.push(place);
            }
        }
        let room = filled.saturating_sub(self.chosen.len());
        self.chosen.extend(self.passed.iter().take(room));
    }
}

/// Merges sorted keys into sorted keys and keeps the smallest, up to the given number. Returns the
/// position of the first inserted key, or of the end.
fn merge(pool: &mut Vec<u64>, new: &[u64], most: usize) -> usize {
    let Some(least) = new.first() else {
        return pool.len();
    };
    let first = pool.partition_point(|key| key < least);
    let (mut old, mut left) = (pool.len(), new.len());
    pool.resize(old + left, 0);
    while left > 0 {
        if old > 0 && pool[old - 1] > new[left - 1] {
            old -= 1;
            pool[old + left] = pool[old];
        } else {
            left -= 1;
            pool[old + left] = new[left];
        }
    }
    pool.truncate(most);
    first
}

/// Beams that are not in use: as many as threads ever searched concurrently.
#[derive(Debug)]
pub(super) struct Beams {
    documents: usize,
    idle: Mutex<Vec<Beam>>,
}

impl Beams {
    pub(super) fn new(documents: usize) -> Self {
        Self {
            documents,
            idle: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Beam) -> T) -> T {
        let idle = self.idle.lock().pop();
        let mut beam = idle.unwrap_or_else(|| Beam::new(self.documents));
        let result = work(&mut beam);
        self.idle.lock().push(beam);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_keeps_the_least_and_says_where_the_first_came_in() {
        let mut pool = vec![2, 5, 7];
        assert_eq!(merge(&mut pool, &[3, 4, 9], 5), 1);
        assert_eq!(pool, [2, 3, 4, 5, 7]);
        assert_eq!(merge(&mut pool, &[1], 5), 0);
        assert_eq!(pool, [1, 2, 3, 4, 5]);
        assert_eq!(merge(&mut pool, &[], 5), 5);
        assert_eq!(merge(&mut Vec::new(), &[8], 1), 0);
    }
}
