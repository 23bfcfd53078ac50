//! Exact search: the best documents for each query.
//!
//! Documents are processed in slabs, each packed into blocks for the matrix kernel; groups of
//! queries run against a slab in parallel. Memory in addition to the vectors: one normalised and
//! packed slab (`SLAB` × `BLOCK` rows), one normalised copy of the queries, a tile of `GROUP` ×
//! `BLOCK` scores per thread and at most 2·k candidates per query, whatever the size of the corpus.
//! For 1 M × 768 documents, 1,000 queries and k = 1,000 that is 50 MB + 3 MB + 16 MB. A score
//! depends only on its query and document, so equal documents tie exactly.
//!
//! A corpus whose vectors are never all in memory is searched shard by shard, and [`Merge`] joins
//! the hits.

use std::borrow::Cow;

use isomer_kernels::{Epilogue, PackedMatrix, gemm_serial};
use ndarray::ArrayView2;
use rayon::prelude::*;

use super::{
    matrix::Rows,
    similarity::{self, Similarity},
};

/// Number of documents in a block: a tile of scores stays in the second-level cache.
const BLOCK: usize = 1024;
/// Blocks of a slab.
const SLAB: usize = 16;
/// Number of queries scored together by one thread.
const GROUP: usize = 32;
/// Number of scores compared at a time with a query's worst.
const LANES: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The document whose id sorts last by bytes wins, as in trec_eval and mteb 2.
    IdDescending,
    /// The document that comes first in the corpus wins, as in a stable sort.
    CorpusOrder,
}

/// A document found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Row of the document in the corpus.
    pub document: usize,
    /// Similarity, higher is better.
    pub score: f32,
}

/// The `k` best documents of each query, best first. `id_order[d]` is the position of document `d`
/// when ids are sorted ascending by bytes (see [`id_order`]). It is not used with
/// [`Ties::CorpusOrder`].
///
/// Vectors of queries and documents must have equal widths, at least 1; fewer than `k` documents
/// give fewer hits. A document whose similarity is not a number (the sum overflowed) is not found.
pub fn top_k(
    queries: ArrayView2<'_, f32>,
    documents: ArrayView2<'_, f32>,
    id_order: &[u32],
    similarity: Similarity,
    k: usize,
    ties: Ties,
) -> Vec<Vec<Hit>> {
    let (queries, documents) = (Rows::new(queries), Rows::new(documents));
    let width = queries.width();
    let order = TieOrder::new(id_order.into(), ties);
    let queries = prepared(queries.values(), width, similarity);
    let mut best: Vec<Best> = (0..queries.len() / width).map(|_| Best::new(k)).collect();
    for (number, slab) in documents.values().chunks(SLAB * BLOCK * width).enumerate() {
        let blocks: Vec<Block> = slab
            .par_chunks(BLOCK * width)
            .map(|rows| Block::new(rows, width, similarity))
            .collect();
        best.par_chunks_mut(GROUP)
            .zip(queries.par_chunks(GROUP * width))
            .for_each_init(Vec::new, |tile, (best, group)| {
                for (position, block) in blocks.iter().enumerate() {
                    let first = (number * SLAB + position) * BLOCK;
                    block.scores(group, width, similarity, tile);
                    for (best, row) in best.iter_mut().zip(tile.chunks_exact(block.rows)) {
                        best.offer(row, |offset| order.rank(first + offset));
                    }
                }
            });
    }
    order.hits(best)
}

/// The best documents of each query over all shards of a corpus, from the best of each shard.
///
/// A shard is a run of consecutive documents, searched by [`top_k`] with the order of its own ids.
/// The result equals that of [`top_k`] over the whole corpus, to the bit, in whatever order the
/// shards are added:
///
/// * A score depends only on its query and document.
/// * Ties are broken by the same rule within a shard and over shards: by id or by position in the
///   corpus. Both orders of a shard are those of the whole corpus restricted to it. So no document
///   among the `k` best of the corpus is missing from the `k` best of its shard.
///
/// Holds at most 2·k candidates per query.
#[derive(Debug)]
pub struct Merge {
    order: TieOrder<'static>,
    best: Vec<Best>,
}

impl Merge {
    /// A merge without shards. `id_order` is that of the whole corpus, as in [`top_k`].
    pub fn new(queries: usize, id_order: Vec<u32>, k: usize, ties: Ties) -> Self {
        Self {
            order: TieOrder::new(id_order.into(), ties),
            best: (0..queries).map(|_| Best::new(k)).collect(),
        }
    }

    /// Adds a shard; call it once per shard. `hits` are the hits of each query, in the order of the
    /// queries, by row in the shard. `first` is the row of the shard's first document in the
    /// corpus.
    pub fn add(&mut self, first: usize, hits: &[Vec<Hit>]) {
        let order = &self.order;
        self.best.par_iter_mut().zip(hits).for_each(|(best, hits)| {
            for hit in hits {
                best.push(key(hit.score, order.rank(first + hit.document)));
            }
        });
    }

    /// The best of each query, best first, by row in the corpus.
    pub fn finish(self) -> Vec<Vec<Hit>> {
        self.order.hits(self.best)
    }
}

/// The order of documents that tie. A hit is one integer: the score's bits, transformed to sort
/// like numbers, above the rank of its document in this order. So hits are compared as integers.
#[derive(Debug)]
pub struct TieOrder<'a> {
    id_order: Cow<'a, [u32]>,
    /// The document at each position of the order of ids; empty for [`Ties::CorpusOrder`].
    document_of: Vec<u32>,
    ties: Ties,
}

impl<'a> TieOrder<'a> {
    /// The order under a rule; `id_order` as in [`top_k`].
    pub fn new(id_order: Cow<'a, [u32]>, ties: Ties) -> Self {
        let document_of = match ties {
            Ties::IdDescending => inverse(&id_order),
            Ties::CorpusOrder => Vec::new(),
        };
        Self {
            id_order,
            document_of,
            ties,
        }
    }

    /// The rank of a document: its position in the order of ids, or its position from the end.
    fn rank(&self, document: usize) -> u32 {
        match self.ties {
            Ties::IdDescending => self.id_order[document],
            Ties::CorpusOrder => u32::MAX - document as u32,
        }
    }

    fn document(&self, rank: u32) -> usize {
        match self.ties {
            Ties::IdDescending => self.document_of[rank as usize] as usize,
            Ties::CorpusOrder => (u32::MAX - rank) as usize,
        }
    }

    /// The `k` best of scored documents, best first. Scores are compared in the precision of hits.
    pub fn best(&self, scored: impl Iterator<Item = (usize, f64)>, k: usize) -> Vec<Hit> {
        let mut best = Best::new(k);
        for (document, score) in scored {
            best.push(key(score as f32, self.rank(document)));
        }
        self.hits(vec![best]).pop().unwrap_or_default()
    }

    fn hits(&self, best: Vec<Best>) -> Vec<Vec<Hit>> {
        let hit = |key: u64| Hit {
            document: self.document(key as u32),
            score: score_of(key),
        };
        best.into_par_iter()
            .map(|best| best.sorted().into_iter().map(hit).collect())
            .collect()
    }
}

/// Scores the given documents of one query like [`top_k`]: `rows` contains their vectors one after
/// another, `documents` their numbers. Returns the best `k`, best first, without those whose
/// similarity is not a number.
pub(super) fn ranked(
    query: &[f32],
    rows: &[f32],
    documents: &[usize],
    id_order: &[u32],
    similarity: Similarity,
    k: usize,
    ties: Ties,
) -> Vec<Hit> {
    let width = query.len();
    let query = prepared(query, width, similarity);
    let mut scores = Vec::new();
    Block::new(rows, width, similarity).scores(&query, width, similarity, &mut scores);
    // The documents are identified by their numbers, so the order is not reversed.
    let rank = |document: usize| match ties {
        Ties::IdDescending => id_order[document],
        Ties::CorpusOrder => u32::MAX - document as u32,
    };
    let hit = |(score, document): (&f32, &usize)| (key(*score, rank(*document)), *document);
    let mut found: Vec<(u64, usize)> = (scores.iter().zip(documents))
        .filter(|(score, _)| !score.is_nan())
        .map(hit)
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(k);
    let hit = |(key, document)| Hit {
        document,
        score: score_of(key),
    };
    found.into_iter().map(hit).collect()
}

/// The best keys of one query. At most 2·k are held; then they are reduced to k.
#[derive(Debug)]
struct Best {
    k: usize,
    keys: Vec<u64>,
    /// No score below it can enter. It is a number, so that most scores cost only one comparison.
    threshold: f32,
    /// The worst key kept at the last reduction; 0 before the first.
    worst: u64,
}

impl Best {
    fn new(k: usize) -> Self {
        Self {
            k,
            keys: Vec::new(),
            threshold: f32::NEG_INFINITY,
            worst: 0,
        }
    }

    fn offer(&mut self, scores: &[f32], tie: impl Fn(usize) -> u32) {
        for (number, lanes) in scores.chunks(LANES).enumerate() {
            // Without a branch inside, comparing a whole chunk takes a handful of instructions.
            if !lanes.iter().fold(false, |any, score| any | (*score >= self.threshold)) {
                continue;
            }
            for (lane, score) in lanes.iter().enumerate() {
                if *score >= self.threshold {
                    self.push(key(*score, tie(number * LANES + lane)));
                }
            }
        }
    }

    fn push(&mut self, key: u64) {
        if key > self.worst || self.worst == 0 {
            self.keys.push(key);
            if self.keys.len() >= 2 * self.k.max(1) {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        if self.keys.len() > self.k {
            if let Some(last) = self.k.checked_sub(1) {
                let (_, worst, _) = self.keys.select_nth_unstable_by(last, |a, b| b.cmp(a));
                self.worst = *worst;
                self.threshold = score_of(self.worst);
            }
            self.keys.truncate(self.k);
        }
    }

    /// The best keys, best first.
    fn sorted(mut self) -> Vec<u64> {
        self.cut();
        self.keys.sort_unstable_by(|a, b| b.cmp(a));
        self.keys
    }
}

/// Documents prepared for multiplication with queries.
struct Block {
    rows: usize,
    kind: BlockKind,
}

enum BlockKind {
    /// Cosine and dot product: packed for the matrix kernel.
    Packed(PackedMatrix),
    /// Distances: unmodified rows.
    Plain(Vec<f32>),
}

impl Block {
    fn new(rows: &[f32], width: usize, similarity: Similarity) -> Self {
        let vectors = prepared(rows, width, similarity);
        let count = rows.len() / width;
        let kind = match similarity {
            Similarity::Cosine | Similarity::Dot => BlockKind::Packed(PackedMatrix::pack(&vectors, count, width)),
            Similarity::Euclidean | Similarity::Manhattan => BlockKind::Plain(vectors),
        };
        Self { rows: count, kind }
    }

    /// Scores of queries (rows of `tile`) against the documents (columns).
    fn scores(&self, queries: &[f32], width: usize, similarity: Similarity, tile: &mut Vec<f32>) {
        let rows = queries.len() / width;
        tile.resize(rows * self.rows, 0.0);
        match &self.kind {
            BlockKind::Packed(packed) => gemm_serial(queries, rows, packed, Epilogue::default(), tile),
            BlockKind::Plain(documents) => {
                let pairs = queries
                    .chunks_exact(width)
                    .flat_map(|query| documents.chunks_exact(width).map(move |document| (query, document)));
                for (slot, (query, document)) in tile.iter_mut().zip(pairs) {
                    *slot = similarity.of(query, document);
                }
            }
        }
    }
}

/// Position of each id when ids are sorted ascending by bytes.
pub fn id_order<S: AsRef<str>>(ids: &[S]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    order.sort_by(|&a, &b| {
        ids[a as usize]
            .as_ref()
            .as_bytes()
            .cmp(ids[b as usize].as_ref().as_bytes())
    });
    inverse(&order)
}

fn inverse(permutation: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; permutation.len()];
    for (i, &p) in permutation.iter().enumerate() {
        inverse[p as usize] = i as u32;
    }
    inverse
}

/// A copy of the vectors, scaled to unit length if the similarity is cosine (torch `normalize`).
fn prepared(data: &[f32], width: usize, similarity: Similarity) -> Vec<f32> {
    let mut copy = data.to_vec();
    if similarity == Similarity::Cosine {
        for row in copy.chunks_exact_mut(width) {
            let divisor = similarity::norm(row).max(1e-12);
            for value in row {
                *value /= divisor;
            }
        }
    }
    copy
}

fn key(score: f32, tie: u32) -> u64 {
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(tie)
}

fn score_of(key: u64) -> f32 {
    let ordered = (key >> 32) as u32;
    f32::from_bits(if ordered >> 31 == 1 {
        ordered & !(1 << 31)
    } else {
        !ordered
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::{Array2, s};
    use proptest::prelude::*;

    use super::*;
    use crate::metric::vector_matrix;

    fn matrix(rows: usize, cols: usize, mut value: impl FnMut(usize, usize) -> f32) -> Array2<f32> {
        let data = (0..rows * cols).map(|i| value(i / cols, i % cols)).collect();
        vector_matrix(rows, cols, data).unwrap()
    }

    fn documents_of(hits: &[Hit]) -> Vec<usize> {
        hits.iter().map(|h| h.document).collect()
    }

    #[test]
    fn ties_go_to_the_last_id_or_to_the_first_in_the_corpus() {
        let query = matrix(1, 2, |_, c| [1.0, 0.0][c]);
        // Documents 0, 1 and 3 are equal; 2 is worse.
        let documents = matrix(4, 2, |r, c| if r == 2 { [0.0, 1.0][c] } else { [2.0, 0.0][c] });
        let order = id_order(&["b", "d", "z", "c"]);
        let find =
            |ties, k| documents_of(&top_k(query.view(), documents.view(), &order, Similarity::Cosine, k, ties)[0]);
        assert_eq!(find(Ties::IdDescending, 4), [1, 3, 0, 2]);
        assert_eq!(find(Ties::CorpusOrder, 4), [0, 1, 3, 2]);
        assert_eq!(find(Ties::IdDescending, 2), [1, 3]);
        assert_eq!(find(Ties::CorpusOrder, 2), [0, 1]);
    }

    #[test]
    fn equal_documents_tie_wherever_they_stand_in_the_corpus() {
        let width = 37;
        let query = matrix(3, width, |r, c| ((r * 31 + c * 17) % 23) as f32 / 23.0 - 0.4);
        let corpus = BLOCK + 5;
        let documents = matrix(corpus, width, |_, c| ((c * 29) % 19) as f32 / 19.0 - 0.3);
        let order: Vec<u32> = (0..corpus as u32).collect();
        let hits = top_k(
            query.view(),
            documents.view(),
            &order,
            Similarity::Cosine,
            corpus,
            Ties::CorpusOrder,
        );
        for row in hits {
            assert!(row.windows(2).all(|w| w[0].score == w[1].score));
            assert_eq!(documents_of(&row), (0..corpus).collect::<Vec<_>>());
        }
    }

    /// A corpus with unordered ids, equal documents and tied scores, with the starts of its shards.
    struct ShardedCorpus {
        queries: Array2<f32>,
        documents: Array2<f32>,
        ids: Vec<String>,
        firsts: Vec<usize>,
    }

    fn sharded(seed: u32, rows: usize, cuts: &[usize], coarse: bool) -> ShardedCorpus {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if coarse {
                ((state >> 30) as f32) - 1.0
            } else {
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            }
        };
        let queries = matrix(5, 7, |_, _| next());
        let mut data: Vec<f32> = (0..rows * 7).map(|_| next()).collect();
        // Every third document equals an earlier one.
        for row in (3..rows).step_by(3) {
            let (earlier, own) = data.split_at_mut(row * 7);
            own[..7].copy_from_slice(&earlier[(row / 2) * 7..(row / 2) * 7 + 7]);
        }
        let ids = (0..rows)
            .map(|i| format!("d{}", i * 7919 % rows.max(2) * 31 % 1009 + i * 2000))
            .collect();
        let mut firsts: Vec<usize> = cuts.iter().map(|cut| cut % rows).chain([0]).collect();
        firsts.sort_unstable();
        firsts.dedup();
        ShardedCorpus {
            queries,
            documents: vector_matrix(rows, 7, data).unwrap(),
            ids,
            firsts,
        }
    }

    impl ShardedCorpus {
        /// Row in the corpus of the first document of each shard, with the shard's end.
        fn shards(&self) -> Vec<(usize, usize)> {
            let ends = self.firsts.iter().skip(1).copied().chain([self.ids.len()]);
            self.firsts.iter().copied().zip(ends).collect()
        }

        fn of_shard(
            &self,
            (first, end): (usize, usize),
            similarity: Similarity,
            k: usize,
            ties: Ties,
        ) -> Vec<Vec<Hit>> {
            let own = self.documents.slice(s![first..end, ..]);
            top_k(
                self.queries.view(),
                own,
                &id_order(&self.ids[first..end]),
                similarity,
                k,
                ties,
            )
        }

        fn whole(&self, similarity: Similarity, k: usize, ties: Ties) -> Vec<Vec<Hit>> {
            top_k(
                self.queries.view(),
                self.documents.view(),
                &id_order(&self.ids),
                similarity,
                k,
                ties,
            )
        }
    }

    fn bits(hits: &[Vec<Hit>]) -> Vec<Vec<(usize, u32)>> {
        let own = |hits: &Vec<Hit>| hits.iter().map(|hit| (hit.document, hit.score.to_bits())).collect();
        hits.iter().map(own).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn merged_shards_equal_the_whole_corpus_to_the_bit(
            seed in 0..u32::MAX, rows in 1..90_usize, cuts in prop::collection::vec(0..90_usize, 0..8),
            k in 0..20_usize, coarse in any::<bool>(), backwards in any::<bool>(),
        ) {
            let corpus = sharded(seed, rows, &cuts, coarse);
            let order = id_order(&corpus.ids);
            for similarity in [Similarity::Cosine, Similarity::Dot, Similarity::Euclidean, Similarity::Manhattan] {
                for ties in [Ties::IdDescending, Ties::CorpusOrder] {
                    let mut merge = Merge::new(5, order.clone(), k, ties);
                    let mut shards = corpus.shards();
                    if backwards {
                        shards.reverse();
                    }
                    for shard in shards {
                        merge.add(shard.0, &corpus.of_shard(shard, similarity, k, ties));
                    }
                    prop_assert_eq!(bits(&merge.finish()), bits(&corpus.whole(similarity, k, ties)));
                }
            }
        }
    }

    #[test]
    fn a_merge_in_the_wrong_order_of_ties_or_without_a_shard_is_seen() {
        // Shows that the property above can fail: every document ties with the others.
        let mut corpus = sharded(1, 40, &[13, 20], false);
        corpus.documents = matrix(40, 7, |_, c| c as f32);
        let shards = corpus.shards();
        assert_eq!(shards.len(), 3);
        let (order, other) = (id_order(&corpus.ids), (0..40).rev().collect::<Vec<u32>>());
        let merged = |order: &[u32], shards: &[(usize, usize)]| {
            let mut merge = Merge::new(5, order.to_vec(), 6, Ties::IdDescending);
            for shard in shards {
                merge.add(
                    shard.0,
                    &corpus.of_shard(*shard, Similarity::Dot, 6, Ties::IdDescending),
                );
            }
            merge.finish()
        };
        let whole = corpus.whole(Similarity::Dot, 6, Ties::IdDescending);
        assert_eq!(merged(&order, &shards), whole);
        assert_ne!(merged(&other, &shards), whole);
        assert_ne!(merged(&order, &shards[..2]), whole);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn blocked_search_equals_sorting_all_scores(seed in 0..u32::MAX, k in 1..12_usize, coarse in any::<bool>()) {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if coarse { ((state >> 30) as f32) - 1.0 } else { (state >> 8) as f32 / (1 << 23) as f32 - 1.0 }
            };
            let queries = matrix(5, 4, |_, _| next());
            let documents = matrix(60, 4, |_, _| next());
            let ids: Vec<String> = (0..60).map(|i| format!("d{i}")).collect();
            let order = id_order(&ids);
            let (query_rows, document_rows) = (Rows::new(queries.view()), Rows::new(documents.view()));
            for similarity in [Similarity::Dot, Similarity::Euclidean, Similarity::Manhattan] {
                let found = top_k(queries.view(), documents.view(), &order, similarity, k, Ties::IdDescending);
                for (q, hits) in found.iter().enumerate() {
                    let mut all: Vec<(f32, &String, usize)> =
                        (0..60).map(|d| (similarity.of(query_rows.row(q), document_rows.row(d)) + 0.0, &ids[d], d)).collect();
                    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(a.1)));
                    for (hit, expected) in hits.iter().zip(&all) {
                        prop_assert!((hit.score - expected.0).abs() < 1e-5);
                        if coarse { prop_assert_eq!(hit.document, expected.2); }
                    }
                    prop_assert_eq!(hits.len(), k);
                }
            }
        }
    }
}
