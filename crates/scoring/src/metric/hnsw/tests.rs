#![allow(clippy::unwrap_used)]
use ndarray::{Array2, Axis, array, concatenate};
use proptest::prelude::*;

use super::*;
use crate::metric::{Similarity, matrix::Rows, vector_matrix};

/// Numbers between -1 and 1 from a seed.
fn noise(seed: u64) -> impl Iterator<Item = f32> {
    let bits = (0..).map(move |i| order::mixed(order::mixed(seed).wrapping_add(i)));
    bits.map(|bits| (bits >> 40) as f32 / (1 << 23) as f32 - 1.0)
}

/// Rows around `centres` centres.
fn crowd(rows: usize, cols: usize, centres: usize, seed: u64) -> Array2<f32> {
    let middle: Vec<f32> = noise(99).take(centres * cols).collect();
    let place = |i: usize| middle[i / cols % centres * cols + i % cols];
    let data = noise(seed)
        .take(rows * cols)
        .enumerate()
        .map(|(i, value)| place(i) + 0.6 * value);
    vector_matrix(rows, cols, data.collect()).unwrap()
}

fn options(ef_construction: usize, seed: u64) -> HnswOptions {
    HnswOptions {
        ef_construction,
        seed,
        ..HnswOptions::default()
    }
}

fn built(documents: &Array2<f32>, threads: usize, options: HnswOptions) -> Graph<'_> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| Graph::build(documents.view(), Similarity::Cosine, options))
}

/// Rows that a wide search of any document finds.
fn reached(documents: &Array2<f32>, graph: &Graph<'_>) -> Vec<usize> {
    let mut found = graph.search(&documents.row(0).to_vec(), documents.nrows());
    found.sort_unstable();
    found
}

/// The mean fraction of the ten nearest that a search with this many candidates finds.
fn recall(queries: &Array2<f32>, documents: &Array2<f32>, similarity: Similarity, ef: usize) -> f64 {
    let graph = Graph::build(documents.view(), similarity, options(100, 42));
    let (queries, documents) = (Rows::new(queries.view()), Rows::new(documents.view()));
    let share = |query: &[f32]| {
        let mut exact: Vec<usize> = (0..documents.iter().len()).collect();
        exact.sort_by(|a, b| {
            let of = |row: usize| similarity.of(query, documents.row(row));
            of(*b).total_cmp(&of(*a))
        });
        let found = graph.search(query, ef);
        exact[..10].iter().filter(|row| found[..10].contains(row)).count() as f64 / 10.0
    };
    queries.iter().map(share).sum::<f64>() / queries.iter().len() as f64
}

#[test]
fn any_number_of_threads_gives_the_same_links_and_another_seed_gives_others() {
    let documents = crowd(3000, 20, 30, 1);
    let one = built(&documents, 1, options(40, 7));
    assert!(one.layers.len() > 1, "{}", one.layers.len());
    for threads in [2, 8] {
        let many = built(&documents, threads, options(40, 7));
        assert!(one.layers == many.layers, "{threads} threads");
        for query in Rows::new(documents.view()).iter().step_by(100) {
            assert_eq!(one.search(query, 30), many.search(query, 30));
        }
    }
    assert!(one.layers != built(&documents, 2, options(40, 8)).layers);
}

#[test]
fn a_document_has_links_to_others_and_no_more_than_it_may() {
    let documents = crowd(2000, 12, 20, 3);
    let graph = built(&documents, 2, options(60, 1));
    for (level, layer) in graph.layers.iter().enumerate() {
        let most = if level == 0 { LOWEST_LINKS } else { LINKS };
        for place in 0..layer.len() as u32 {
            let mut links = layer.all().of(place).to_vec();
            links.sort_unstable();
            let count = links.len();
            links.dedup();
            assert!(links.len() == count && count <= most && !links.contains(&place));
            assert!(links.iter().all(|link| (*link as usize) < layer.len()));
        }
    }
}

/// The graph of instant-distance 0.6.1, which this graph replaced, found all of them with the same
/// settings.
#[test]
fn a_search_finds_the_nearest() {
    let all = [
        Similarity::Cosine,
        Similarity::Dot,
        Similarity::Euclidean,
        Similarity::Manhattan,
    ];
    for (centres, ef) in [(4000, 100), (40, 20)] {
        let (queries, documents) = (crowd(100, 32, centres, 5), crowd(4000, 32, centres, 6));
        for similarity in all {
            let found = recall(&queries, &documents, similarity, ef);
            assert_eq!(found, 1.0, "{centres} centres, {similarity:?}");
        }
    }
}

#[test]
fn a_narrow_search_misses_some() {
    let (queries, documents) = (crowd(100, 32, 4000, 5), crowd(4000, 32, 4000, 6));
    let found = recall(&queries, &documents, Similarity::Cosine, 10);
    assert!((0.5..0.99).contains(&found), "{found}");
}

#[test]
fn a_thousand_equal_documents_are_all_found() {
    let equal = Array2::from_elem((1000, 8), 0.5);
    let documents = concatenate![Axis(0), crowd(200, 8, 10, 1), equal];
    let graph = built(&documents, 2, options(50, 3));
    let found = graph.search(&[0.5; 8], 1000);
    assert_eq!(found.len(), 1000);
    assert!(reached(&documents, &graph).into_iter().eq(0..1200));
}

#[test]
fn sums_that_overflow_are_the_farthest() {
    let mut documents = crowd(100, 4, 5, 1);
    let largest = array![f32::MAX, -f32::MAX, f32::MAX, -f32::MAX];
    documents.row_mut(50).assign(&largest);
    for similarity in [Similarity::Cosine, Similarity::Dot, Similarity::Euclidean] {
        let graph = Graph::build(documents.view(), similarity, options(20, 3));
        let found = graph.search(&[f32::MAX; 4], 100);
        assert_eq!(found.len(), 100, "{similarity:?}");
        let mut sorted = graph.search(&documents.row(0).to_vec(), 100);
        assert_eq!(sorted[0], if similarity == Similarity::Dot { sorted[0] } else { 0 });
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100), "{similarity:?}");
    }
}

#[test]
fn no_document_and_one() {
    let none = Array2::zeros((0, 3));
    assert!(built(&none, 1, options(10, 1)).search(&[1.0; 3], 5).is_empty());
    let one = crowd(1, 3, 1, 1);
    assert_eq!(built(&one, 1, options(10, 1)).search(&[1.0; 3], 5), [0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_document_is_found_by_a_wide_search(
        rows in 1_usize..600,
        kinds in 1_usize..40,
        ef in 1_usize..60,
        seed in any::<u64>(),
        noisy in any::<bool>(),
    ) {
        // Without noise, all documents of one kind are equal.
        let centres: Vec<f32> = noise(3).take(kinds * 6).collect();
        let noise = noise(seed).map(|value| if noisy { value } else { 0.0 });
        let data = noise.take(rows * 6).enumerate().map(|(i, value)| centres[i % centres.len()] + value);
        let documents = vector_matrix(rows, 6, data.collect()).unwrap();
        let graph = built(&documents, 2, options(ef, seed));
        prop_assert!(reached(&documents, &graph).into_iter().eq(0..rows));
    }
}
