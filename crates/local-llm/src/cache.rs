//! Keys and values of sequences, and a store of prompt prefixes for later requests.
//!
//! Prompts with the same instructions also share the keys and values of these: one block in memory,
//! which every sequence with that prefix reads. The keys and values of a position depend only on
//! the tokens up to it, bit for bit, so sharing does not change a result.

use std::{ops::Range, sync::Arc};

/// Keys and values of one sequence in every layer: a prefix that may be shared, then its own rows.
#[derive(Debug, Default)]
pub(crate) struct KvCache {
    shared: Option<Prefix>,
    own: Vec<LayerKv>,
    len: usize,
}

/// Rows of `kv_heads · head_dim`, position after position.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayerKv {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

/// Rows of keys and values in the layout of the attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) keys: &'a [f32],
    pub(crate) values: &'a [f32],
}

/// A prefix: the first `len` positions of a block.
#[derive(Debug, Clone)]
pub(crate) struct Prefix {
    block: Arc<Block>,
    len: usize,
}

/// Read-only keys and values.
#[derive(Debug)]
struct Block {
    layers: Vec<LayerKv>,
    len: usize,
}

impl Prefix {
    /// A shorter prefix of the same block.
    fn first(&self, len: usize) -> Self {
        Self {
            block: Arc::clone(&self.block),
            len: len.min(self.block.len),
        }
    }
}

impl KvCache {
    pub(crate) fn new(layers: usize) -> Self {
        Self {
            shared: None,
            own: vec![LayerKv::default(); layers],
            len: 0,
        }
    }

    /// A new sequence that begins with this prefix.
    pub(crate) fn after(beginning: Prefix) -> Self {
        Self {
            own: vec![LayerKv::default(); beginning.block.layers.len()],
            len: beginning.len,
            shared: Some(beginning),
        }
    }

    /// Number of positions in every layer.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn shared_len(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.len)
    }

    /// The rows of a range of positions, `width` wide: first the shared beginning, then its own
    /// rows.
    pub(crate) fn rows(&self, layer: usize, positions: Range<usize>, width: usize) -> [Rows<'_>; 2] {
        let border = self.shared_len();
        let before = positions.start.min(border)..positions.end.min(border);
        let after = positions.start.max(border) - border..positions.end.max(border) - border;
        let shared = match &self.shared {
            Some(shared) => slice(&shared.block.layers[layer], before, width),
            None => Rows { keys: &[], values: &[] },
        };
        [shared, slice(&self.own[layer], after, width)]
    }

    /// The layer to which the rows of the next positions are appended.
    pub(crate) fn layer_mut(&mut self, layer: usize) -> &mut LayerKv {
        &mut self.own[layer]
    }

    /// Records that all layers have `count` more positions.
    pub(crate) fn advance(&mut self, count: usize) {
        self.len += count;
    }

    /// Drops all but the first `len` positions. None of the dropped positions may be shared.
    pub(crate) fn truncate(&mut self, len: usize) {
        let (kept, own) = (len - self.shared_len(), self.len - self.shared_len());
        if kept == own {
            return;
        }
        for LayerKv { keys, values } in &mut self.own {
            for rows in [keys, values] {
                rows.truncate(rows.len() / own * kept);
            }
        }
        self.len = len;
    }

    /// The first `len` positions, as a prefix for other sequences. Positions that are not in a
    /// block yet are moved into one, up to `more`, so that later requests for a slightly longer
    /// prefix find it there.
    pub(crate) fn beginning(&mut self, len: usize, more: usize) -> Prefix {
        let old = self.shared_len();
        if let Some(shared) = self.shared.as_ref().filter(|shared| len <= shared.len) {
            return shared.first(len);
        }
        let end = more.max(len).min(self.len);
        let own_len = self.len - old;
        let shared = self.shared.as_ref().map(|shared| &shared.block.layers);
        let mut layers = Vec::with_capacity(self.own.len());
        for (index, own) in self.own.iter_mut().enumerate() {
            let width = own.keys.len() / own_len;
            let join = |shared: Option<&Vec<f32>>, own: &mut Vec<f32>| {
                let mut rows = Vec::with_capacity(end * width);
                rows.extend_from_slice(shared.map_or(&[], |rows| &rows[..old * width]));
                rows.extend(own.drain(..(end - old) * width));
                rows
            };
            let before = shared.map(|layers| &layers[index]);
            layers.push(LayerKv {
                keys: join(before.map(|kv| &kv.keys), &mut own.keys),
                values: join(before.map(|kv| &kv.values), &mut own.values),
            });
        }
        let block = Arc::new(Block { layers, len: end });
        let whole = Prefix { block, len: end };
        let part = whole.first(len);
        self.shared = Some(whole);
        part
    }
}

fn slice(kv: &LayerKv, positions: Range<usize>, width: usize) -> Rows<'_> {
    let range = positions.start * width..positions.end * width;
    Rows {
        keys: &kv.keys[range.clone()],
        values: &kv.values[range],
    }
}

/// Length of the common beginning.
pub(crate) fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Prompts that are kept after their sequences have ended; the least recently used is evicted
/// first.
#[derive(Debug, Default)]
pub(crate) struct PrefixStore {
    /// Ordered by last use, the most recent last.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    tokens: Vec<u32>,
    beginning: Prefix,
}

impl PrefixStore {
    /// Maximum number of kept prompts: the instructions of a handful of transformations.
    const ENTRIES: usize = 8;
    /// Maximum number of positions of all entries together.
    const POSITIONS: usize = 4096;

    /// The kept prompt that shares the longest beginning with `prompt`, and the length of that
    /// beginning.
    pub(crate) fn longest(&self, prompt: &[u32]) -> Option<(usize, usize)> {
        self.entries
            .iter()
            .enumerate()
            .map(|(index, entry)| (index, common_prefix(&entry.tokens, prompt)))
            .filter(|(_, len)| *len > 0)
            .max_by_key(|(_, len)| *len)
    }

    /// The prefix of a kept prompt, which is marked as recently used.
    pub(crate) fn reuse(&mut self, index: usize, len: usize) -> Prefix {
        let entry = self.entries.remove(index);
        let part = entry.beginning.first(len);
        self.entries.push(entry);
        part
    }

    /// Keeps a prompt, unless the larger part of it is already kept.
    pub(crate) fn keep(&mut self, tokens: Vec<u32>, mut cache: KvCache) {
        let known = self.longest(&tokens).map_or(0, |(_, len)| len);
        if 2 * known >= tokens.len() || tokens.len() > Self::POSITIONS || cache.len() < tokens.len() {
            return;
        }
        let beginning = cache.beginning(tokens.len(), tokens.len());
        self.entries.push(Entry { tokens, beginning });
        let mut positions: usize = self.entries.iter().map(|entry| entry.tokens.len()).sum();
        while self.entries.len() > Self::ENTRIES || positions > Self::POSITIONS {
            positions -= self.entries.remove(0).tokens.len();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_precision_loss)]
    use super::*;

    fn extend(cache: &mut KvCache, tokens: &[u32]) {
        for layer in 0..2 {
            let rows = tokens.iter().flat_map(|t| [*t as f32, layer as f32]);
            cache.layer_mut(layer).keys.extend(rows.clone());
            cache.layer_mut(layer).values.extend(rows);
        }
        cache.advance(tokens.len());
    }

    fn cache(tokens: &[u32]) -> KvCache {
        let mut cache = KvCache::new(2);
        extend(&mut cache, tokens);
        cache
    }

    /// The tokens from which the rows of a layer were computed.
    fn tokens(cache: &KvCache, positions: Range<usize>) -> Vec<u32> {
        let both = cache.rows(1, positions, 2);
        let keys: Vec<f32> = both.iter().flat_map(|rows| rows.keys).copied().collect();
        let values: Vec<f32> = both.iter().flat_map(|rows| rows.values).copied().collect();
        assert_eq!(keys, values);
        assert!(keys.iter().skip(1).step_by(2).all(|layer| *layer == 1.0));
        keys.iter().step_by(2).map(|t| *t as u32).collect()
    }

    #[test]
    fn the_longest_kept_beginning_is_read_by_those_who_begin_so() {
        let mut store = PrefixStore::default();
        for tokens in [vec![1, 2, 3, 4], vec![1, 9, 9, 9, 9]] {
            store.keep(tokens.clone(), cache(&tokens));
        }
        let (index, len) = store.longest(&[1, 2, 3, 7, 8]).unwrap();
        assert_eq!(len, 3);
        let mut next = KvCache::after(store.reuse(index, len));
        assert_eq!((next.len(), tokens(&next, 0..3)), (3, vec![1, 2, 3]));
        extend(&mut next, &[7, 8]);
        assert_eq!(tokens(&next, 0..5), [1, 2, 3, 7, 8]);
        assert_eq!(tokens(&next, 2..4), [3, 7], "a window over the border");
        assert_eq!(tokens(&next, 4..5), [8], "a window behind it");
        assert!(store.longest(&[5]).is_none());
    }

    #[test]
    fn positions_are_forgotten_from_the_end() {
        let mut whole = cache(&[1, 2, 3]);
        let mut cache = KvCache::after(whole.beginning(2, 2));
        extend(&mut cache, &[7, 8, 9]);
        cache.truncate(5);
        assert_eq!(tokens(&cache, 0..5), [1, 2, 7, 8, 9]);
        cache.truncate(3);
        assert_eq!((cache.len(), tokens(&cache, 0..3)), (3, vec![1, 2, 7]));
        extend(&mut cache, &[5]);
        assert_eq!(tokens(&cache, 0..4), [1, 2, 7, 5]);
        cache.truncate(2);
        assert_eq!((cache.len(), tokens(&cache, 0..2)), (2, vec![1, 2]));
    }

    #[test]
    fn a_running_sequence_gives_its_beginning_away_and_goes_on() {
        let mut first = cache(&[1, 2, 3, 4, 5]);
        let second = KvCache::after(first.beginning(2, 4));
        assert_eq!(tokens(&second, 0..2), [1, 2]);
        assert_eq!(tokens(&first, 0..5), [1, 2, 3, 4, 5]);
        extend(&mut first, &[6]);
        // The second request's block is long enough for the third, so nothing is moved again.
        let third = KvCache::after(first.beginning(4, 6));
        assert_eq!(tokens(&third, 0..4), [1, 2, 3, 4]);
        assert_eq!(tokens(&first, 0..6), [1, 2, 3, 4, 5, 6]);
        let fourth = KvCache::after(first.beginning(6, 6));
        assert_eq!(tokens(&fourth, 0..6), [1, 2, 3, 4, 5, 6]);
        assert_eq!(tokens(&first, 0..6), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn prompts_that_are_mostly_known_are_not_kept_and_the_least_useful_leave_first() {
        let mut store = PrefixStore::default();
        let first: Vec<u32> = (0..10).collect();
        store.keep(first.clone(), cache(&first));
        let similar: Vec<u32> = (0..8).chain([50, 51]).collect();
        store.keep(similar.clone(), cache(&similar));
        assert_eq!(store.entries.len(), 1);
        for start in 1..=9u32 {
            let tokens: Vec<u32> = (start * 100..start * 100 + 10).collect();
            store.keep(tokens.clone(), cache(&tokens));
            let (index, len) = store.longest(&first).unwrap();
            store.reuse(index, len);
        }
        assert_eq!(store.entries.len(), 8);
        assert!(store.longest(&first).is_some(), "in use all the time");
        assert!(store.longest(&[100]).is_none(), "least recently useful");
    }
}
