//! Keys and values of sequences, and which beginnings of prompts are kept for the next ones.

/// Keys and values of one sequence in every layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct KvCache {
    layers: Vec<LayerKv>,
    len: usize,
}

/// Rows of `kv_heads · head_dim`, position after position.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayerKv {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

impl KvCache {
    pub(crate) fn new(layers: usize) -> Self {
        Self {
            layers: vec![LayerKv::default(); layers],
            len: 0,
        }
    }

    /// Positions that every layer holds.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn layer(&self, layer: usize) -> &LayerKv {
        &self.layers[layer]
    }

    pub(crate) fn layer_mut(&mut self, layer: usize) -> &mut LayerKv {
        &mut self.layers[layer]
    }

    /// Says that all layers have got `count` more positions.
    pub(crate) fn advance(&mut self, count: usize) {
        self.len += count;
    }

    /// A copy of the first `len` positions, with room for `capacity`.
    pub(crate) fn prefix(&self, len: usize, capacity: usize) -> Self {
        let len = len.min(self.len);
        let copy = |rows: &Vec<f32>| {
            let width = rows.len() / self.len.max(1);
            let mut out = Vec::with_capacity(capacity.max(len) * width);
            out.extend_from_slice(&rows[..len * width]);
            out
        };
        Self {
            layers: self
                .layers
                .iter()
                .map(|layer| LayerKv {
                    keys: copy(&layer.keys),
                    values: copy(&layer.values),
                })
                .collect(),
            len,
        }
    }
}

/// Length of the common beginning.
pub(crate) fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Prompts kept after their sequences have ended, least recently useful first out.
#[derive(Debug, Default)]
pub(crate) struct PrefixStore {
    /// Most useful last.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    tokens: Vec<u32>,
    cache: KvCache,
}

impl PrefixStore {
    /// Prompts kept at once: the instructions of a handful of transformations.
    const ENTRIES: usize = 8;
    /// Positions of all entries together.
    const POSITIONS: usize = 4096;

    /// The kept prompt that shares the longest beginning with `prompt`, and that length.
    pub(crate) fn longest(&self, prompt: &[u32]) -> Option<(usize, usize)> {
        self.entries
            .iter()
            .enumerate()
            .map(|(index, entry)| (index, common_prefix(&entry.tokens, prompt)))
            .filter(|(_, len)| *len > 0)
            .max_by_key(|(_, len)| *len)
    }

    /// Copies from a kept prompt and marks it useful.
    pub(crate) fn reuse(&mut self, index: usize, len: usize, capacity: usize) -> KvCache {
        let entry = self.entries.remove(index);
        let copy = entry.cache.prefix(len, capacity);
        self.entries.push(entry);
        copy
    }

    /// Keeps a prompt, unless most of it is kept already.
    pub(crate) fn keep(&mut self, tokens: Vec<u32>, cache: KvCache) {
        let known = self.longest(&tokens).map_or(0, |(_, len)| len);
        if 2 * known >= tokens.len() || tokens.len() > Self::POSITIONS || cache.len() < tokens.len() {
            return;
        }
        let cache = cache.prefix(tokens.len(), 0);
        self.entries.push(Entry { tokens, cache });
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

    fn cache(tokens: &[u32]) -> KvCache {
        let mut cache = KvCache::new(2);
        for layer in 0..2 {
            let rows = tokens.iter().flat_map(|t| [*t as f32, layer as f32]);
            cache.layer_mut(layer).keys.extend(rows.clone());
            cache.layer_mut(layer).values.extend(rows);
        }
        cache.advance(tokens.len());
        cache
    }

    #[test]
    fn the_longest_kept_beginning_is_copied() {
        let mut store = PrefixStore::default();
        for tokens in [vec![1, 2, 3, 4], vec![1, 9, 9, 9, 9]] {
            store.keep(tokens.clone(), cache(&tokens));
        }
        let (index, len) = store.longest(&[1, 2, 3, 7, 8]).unwrap();
        assert_eq!(len, 3);
        let copy = store.reuse(index, len, 10);
        assert_eq!(copy.len(), 3);
        assert_eq!(copy.layer(1).values, [1.0, 1.0, 2.0, 1.0, 3.0, 1.0]);
        assert!(store.longest(&[5]).is_none());
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
            store.reuse(index, len, 0);
        }
        assert_eq!(store.entries.len(), 8);
        assert!(store.longest(&first).is_some(), "in use all the time");
        assert!(store.longest(&[100]).is_none(), "least recently useful");
    }
}
