//! Approximate search through a graph, with its recall against the exact search.
//!
//! The index is a graph of [`hnsw`]: the same vectors and seed give the same graph, whatever the
//! number of threads. The found documents are scored again as in [`super::search`]. So a document
//! found by both searches has the same score, to the bit, and ties are broken in the same way.

use std::collections::BTreeMap;

use ndarray::{ArrayView2, Axis};
use rayon::prelude::*;

use super::{
    hnsw::{self, Graph, HnswOptions},
    matrix::Rows,
    search::{self, Hit, Ties},
    similarity::Similarity,
};

/// Maximum number of queries whose answers are compared with the exact ones.
const MOST_COMPARED: usize = 1000;
/// The depths for which recall is reported, up to the requested number of documents.
const RECALL_DEPTHS: [usize; 3] = [10, 100, 1000];

/// The recall of an approximate search against the exact answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ApproximateReport {
    /// The index with its settings, for people.
    pub index: String,
    /// By k: the fraction of the k best documents that are among the first k found, averaged over
    /// the compared queries. A document that ties with the exact k-th counts as found.
    pub recall: BTreeMap<usize, f64>,
    /// Number of queries compared with the exact search: all, or 1,000 at equal intervals.
    pub compared: usize,
}

impl ApproximateReport {
    /// A summary in one sentence, for people.
    pub fn sentence(&self) -> String {
        let recall: Vec<String> = self
            .recall
            .iter()
            .map(|(k, share)| format!("{share:.4} at {k}"))
            .collect();
        format!(
            "the search was approximate ({}): recall of the exact search's documents {}, over {} queries",
            self.index,
            recall.join(", "),
            self.compared
        )
    }
}

/// Like [`search::top_k`], through a graph: the documents found may not be the best, and may be
/// fewer than `k` if a similarity is not a number. Also returns the recall against the exact
/// search.
///
/// # Panics
/// For 2³¹ documents or more.
pub fn top_k(
    queries: ArrayView2<'_, f32>,
    documents: ArrayView2<'_, f32>,
    id_order: &[u32],
    similarity: Similarity,
    k: usize,
    ties: Ties,
    options: HnswOptions,
) -> (Vec<Vec<Hit>>, ApproximateReport) {
    let ef_search = options.ef_search.max(k);
    let graph = Graph::build(documents, similarity, options);
    let (query_rows, document_rows) = (Rows::new(queries), Rows::new(documents));
    let find = |query: usize| -> Vec<Hit> {
        let row = query_rows.row(query);
        let found = graph.search(row, ef_search);
        let mut rows = Vec::with_capacity(found.len() * document_rows.width());
        for document in &found {
            rows.extend_from_slice(document_rows.row(*document));
        }
        search::ranked(row, &rows, &found, id_order, similarity, k, ties)
    };
    let hits: Vec<Vec<Hit>> = (0..queries.nrows()).into_par_iter().map(find).collect();

    let step = queries.nrows().div_ceil(MOST_COMPARED).max(1);
    let compared: Vec<usize> = (0..queries.nrows()).step_by(step).collect();
    let sample = queries.select(Axis(0), &compared);
    let exact = search::top_k(sample.view(), documents, id_order, similarity, k, ties);
    let pairs: Vec<(&[Hit], &[Hit])> = exact
        .iter()
        .zip(&compared)
        .map(|(exact, query)| (exact.as_slice(), hits[*query].as_slice()))
        .collect();
    let depths = RECALL_DEPTHS.into_iter().filter(|depth| *depth <= k);
    let report = ApproximateReport {
        index: format!(
            "hnsw, {} links, ef_construction {}, ef_search {ef_search}, seed {}",
            hnsw::LINKS,
            options.ef_construction,
            options.seed
        ),
        recall: depths.map(|depth| (depth, recall(&pairs, depth))).collect(),
        compared: compared.len(),
    };
    (hits, report)
}

/// Mean over queries of the fraction of the `k` best (first of a pair) that are among the first `k`
/// of the other list.
fn recall(pairs: &[(&[Hit], &[Hit])], k: usize) -> f64 {
    let share = |(exact, found): &(&[Hit], &[Hit])| {
        let wanted = exact.len().min(k);
        let Some(worst) = wanted.checked_sub(1).map(|last| exact[last].score) else {
            return 1.0;
        };
        let good = found.iter().take(k).filter(|hit| hit.score >= worst).count();
        good as f64 / wanted as f64
    };
    pairs.iter().map(share).sum::<f64>() / pairs.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::{Array2, array};

    use super::*;
    use crate::metric::vector_matrix;

    /// Documents around a few centres, from a linear congruential generator.
    fn crowd(rows: usize, cols: usize, seed: u64) -> Array2<f32> {
        let mut state = seed;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let centres: Vec<f32> = (0..20 * cols).map(|_| next()).collect();
        let data = (0..rows * cols).map(|i| centres[(i / cols % 20) * cols + i % cols] + 0.6 * next());
        let data = data.collect();
        vector_matrix(rows, cols, data).unwrap()
    }

    #[test]
    fn a_wide_search_finds_the_exact_documents_with_the_exact_scores() {
        let (queries, documents) = (crowd(10, 24, 1), crowd(400, 24, 2));
        let ids: Vec<String> = (0..400).map(|i| format!("d{i}")).collect();
        let order = search::id_order(&ids);
        let wide = HnswOptions {
            ef_search: 300,
            ..HnswOptions::default()
        };
        for similarity in [Similarity::Cosine, Similarity::Euclidean, Similarity::Manhattan] {
            let (queries, documents) = (queries.view(), documents.view());
            let exact = search::top_k(queries, documents, &order, similarity, 100, Ties::IdDescending);
            let (found, report) = top_k(queries, documents, &order, similarity, 100, Ties::IdDescending, wide);
            assert_eq!(report.recall[&10], 1.0, "{similarity:?}");
            assert!(report.recall[&100] > 0.999, "{similarity:?}: {report:?}");
            assert_eq!(report.compared, 10);
            for (exact, found) in exact.iter().zip(&found) {
                assert_eq!(exact[..10], found[..10], "{similarity:?}");
            }
        }
    }

    #[test]
    fn a_narrow_search_says_what_it_missed_and_is_the_same_every_time() {
        let (queries, documents) = (crowd(50, 32, 3), crowd(1500, 32, 4));
        let order: Vec<u32> = (0..1500).collect();
        let narrow = HnswOptions {
            ef_construction: 4,
            ef_search: 1,
            seed: 7,
        };
        let ask = || {
            let (queries, documents) = (queries.view(), documents.view());
            top_k(
                queries,
                documents,
                &order,
                Similarity::Dot,
                10,
                Ties::CorpusOrder,
                narrow,
            )
        };
        let (found, report) = ask();
        let exact = search::top_k(
            queries.view(),
            documents.view(),
            &order,
            Similarity::Dot,
            10,
            Ties::CorpusOrder,
        );
        // The vectors are continuous, so nothing ties and recall is the fraction of equal
        // documents.
        let common = |(exact, found): (&Vec<Hit>, &Vec<Hit>)| {
            exact
                .iter()
                .filter(|hit| found.iter().any(|f| f.document == hit.document))
                .count()
        };
        let share = exact.iter().zip(&found).map(common).sum::<usize>() as f64 / 500.0;
        assert!((report.recall[&10] - share).abs() < 1e-12, "{share} {report:?}");
        assert!(report.recall[&10] < 1.0 && report.recall[&10] > 0.01, "{report:?}");
        assert!(report.sentence().contains("recall") && report.sentence().contains("seed 7"));
        assert_eq!(ask(), (found, report));
    }

    #[test]
    fn a_similarity_that_overflows_is_treated_as_in_the_exact_search() {
        let mut documents = crowd(30, 4, 1);
        let largest = array![f32::MAX, -f32::MAX, f32::MAX, -f32::MAX];
        documents.row_mut(2).assign(&largest);
        let query = vector_matrix(1, 4, vec![f32::MAX; 4]).unwrap();
        let (order, options): (Vec<u32>, _) = ((0..30).collect(), HnswOptions::default());
        let (query, documents) = (query.view(), documents.view());
        let exact = search::top_k(query, documents, &order, Similarity::Dot, 30, Ties::CorpusOrder);
        let (found, _) = top_k(
            query,
            documents,
            &order,
            Similarity::Dot,
            30,
            Ties::CorpusOrder,
            options,
        );
        assert!(exact[0].iter().all(|hit| !hit.score.is_nan()));
        assert_eq!(found, exact);
    }

    #[test]
    fn documents_that_tie_with_the_last_count_as_found() {
        let hits = |documents: &[(usize, f32)]| -> Vec<Hit> {
            documents
                .iter()
                .map(|(document, score)| Hit {
                    document: *document,
                    score: *score,
                })
                .collect()
        };
        let (exact, found) = (hits(&[(0, 0.9), (1, 0.5)]), hits(&[(0, 0.9), (7, 0.5)]));
        assert_eq!(recall(&[(&exact, &found)], 2), 1.0);
        let worse = hits(&[(0, 0.9), (7, 0.4)]);
        assert_eq!(recall(&[(&exact, &worse)], 2), 0.5);
    }
}
