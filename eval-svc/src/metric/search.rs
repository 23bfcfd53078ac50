//! Exact search: the best documents of each query.
//!
//! Documents are taken in blocks, queries in groups that run in parallel; what is held at a time is one block of
//! normalised documents, one tile of scores per thread and a bounded heap per query, whatever the size of the corpus.
//! A score depends on its own query and document alone, so equal documents tie exactly.

use std::{cmp::Reverse, collections::BinaryHeap};

use ndarray::{Array2, ArrayView2, Axis};
use rayon::prelude::*;

use super::{
    matrix::VectorView,
    similarity::{self, Similarity},
};

/// Documents scored at a time.
const BLOCK: usize = 2048;
/// Queries scored together by one thread.
const GROUP: usize = 32;

/// Who wins a tie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The document whose id sorts last by bytes, as trec_eval and mteb 2 decide.
    IdDescending,
    /// The document that comes first in the corpus, as a stable sort decides.
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

/// The `k` best documents of each query, best first. `id_order[d]` is the position of document `d` when ids are sorted
/// ascending by bytes (see [`id_order`]).
///
/// Vectors of queries and documents must have equal widths; fewer than `k` documents give fewer hits.
pub fn top_k(
    queries: VectorView<'_>,
    documents: VectorView<'_>,
    id_order: &[u32],
    similarity: Similarity,
    k: usize,
    ties: Ties,
) -> Vec<Vec<Hit>> {
    let width = queries.cols();
    // A hit is one integer: the score's bits, made to sort as numbers do, above the tie-break. Comparing hits is then
    // comparing integers. The tie-break of document d is its place in id order, or its place from the end.
    let tie_break = |document: usize| match ties {
        Ties::IdDescending => id_order[document],
        Ties::CorpusOrder => u32::MAX - document as u32,
    };
    let document_of: Vec<u32> = match ties {
        Ties::IdDescending => inverse(id_order),
        Ties::CorpusOrder => Vec::new(),
    };
    let queries = prepared(queries.data(), width, similarity);
    let mut heaps: Vec<BinaryHeap<Reverse<u64>>> = vec![BinaryHeap::new(); queries.nrows()];
    for (number, block) in documents.data().chunks(BLOCK * width).enumerate() {
        let first = number * BLOCK;
        let block = prepared(block, width, similarity);
        heaps
            .par_chunks_mut(GROUP)
            .zip(queries.axis_chunks_iter(Axis(0), GROUP).into_par_iter())
            .for_each(|(heaps, group)| {
                let scores = scores(group, block.view(), similarity);
                for (heap, row) in heaps.iter_mut().zip(scores.outer_iter()) {
                    for (offset, score) in row.iter().enumerate() {
                        push(heap, k, key(*score, tie_break(first + offset)));
                    }
                }
            });
    }
    heaps
        .into_par_iter()
        .map(|heap| {
            // Ascending order of `Reverse` is descending order of keys: best first.
            let hits = heap.into_sorted_vec().into_iter().map(|Reverse(key)| {
                let tie = key as u32;
                let document = match ties {
                    Ties::IdDescending => document_of[tie as usize] as usize,
                    Ties::CorpusOrder => (u32::MAX - tie) as usize,
                };
                Hit {
                    document,
                    score: score_of(key),
                }
            });
            hits.collect()
        })
        .collect()
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

/// A copy of the vectors, scaled to unit length where the similarity is cosine (torch `normalize`).
fn prepared(data: &[f32], width: usize, similarity: Similarity) -> Array2<f32> {
    let mut matrix = Array2::zeros((data.len() / width, width));
    for (mut row, source) in matrix.outer_iter_mut().zip(data.chunks_exact(width)) {
        let divisor = match similarity {
            Similarity::Cosine => similarity::norm(source).max(1e-12),
            _ => 1.0,
        };
        for (slot, v) in row.iter_mut().zip(source) {
            *slot = v / divisor;
        }
    }
    matrix
}

/// Scores of a group of queries (rows) against a block of documents (columns).
fn scores(queries: ArrayView2<'_, f32>, documents: ArrayView2<'_, f32>, similarity: Similarity) -> Array2<f32> {
    match similarity {
        Similarity::Cosine | Similarity::Dot => queries.dot(&documents.t()),
        Similarity::Euclidean | Similarity::Manhattan => {
            let rows = |matrix: ArrayView2<'_, f32>| matrix.outer_iter().map(|r| r.to_vec()).collect::<Vec<_>>();
            let (left, right) = (rows(queries), rows(documents));
            Array2::from_shape_fn((left.len(), right.len()), |(q, d)| similarity.of(&left[q], &right[d]))
        }
    }
}

fn push(heap: &mut BinaryHeap<Reverse<u64>>, k: usize, key: u64) {
    if heap.len() < k {
        heap.push(Reverse(key));
    } else if let Some(mut worst) = heap.peek_mut()
        && worst.0 < key
    {
        *worst = Reverse(key);
    }
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
    use proptest::prelude::*;

    use super::*;
    use crate::metric::VectorMatrix;

    fn matrix(rows: usize, cols: usize, mut value: impl FnMut(usize, usize) -> f32) -> VectorMatrix {
        let data = (0..rows * cols).map(|i| value(i / cols, i % cols)).collect();
        VectorMatrix::new(rows, cols, data).unwrap()
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
        let corpus = 2 * BLOCK + 5;
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
            for similarity in [Similarity::Dot, Similarity::Euclidean, Similarity::Manhattan] {
                let found = top_k(queries.view(), documents.view(), &order, similarity, k, Ties::IdDescending);
                for (q, hits) in found.iter().enumerate() {
                    let mut all: Vec<(f32, &String, usize)> =
                        (0..60).map(|d| (similarity.of(queries.row(q), documents.row(d)) + 0.0, &ids[d], d)).collect();
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
