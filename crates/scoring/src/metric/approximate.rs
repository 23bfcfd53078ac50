//! Approximate search through a graph, with its recall against the exact search.
//!
//! The index is a hierarchy of navigable small worlds (Malkov & Yashunin 2016, arXiv 1603.09320)
//! from the crate `instant-distance`, which fixes 32 links per document (64 in the lowest layer).
//! It is built on one thread, so that the same vectors and seed give the same graph; queries run on
//! all cores. Besides the vectors it holds about 350 bytes per document. The documents found are
//! scored again as in [`super::search`], so that a document found by both has the same score, to
//! the bit, and ties are broken the same way.

use std::collections::BTreeMap;

use instant_distance::{Builder, Hnsw, Search as Scratch};
use rayon::prelude::*;

use super::{
    matrix::{VectorMatrix, VectorView},
    search::{self, Hit, Ties},
    similarity::{self, Similarity},
};

/// Links of a document, fixed by the library.
pub const LINKS: usize = 32;
/// Queries whose answers are compared with the exact ones.
const MOST_COMPARED: usize = 1000;
/// The depths for which recall is reported, as far as that many documents are requested.
const RECALL_DEPTHS: [usize; 3] = [10, 100, 1000];
/// Products added side by side.
const LANES: usize = 16;

/// Settings of building and searching a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswOptions {
    /// Candidates considered for each document's links; more build slower and find more. At least
    /// 1.
    pub ef_construction: usize,
    /// Candidates held while a query is answered, never fewer than the documents wanted; more are
    /// slower and find more. At least 1.
    pub ef_search: usize,
    /// Seed of the order in which documents enter the graph, and of their layers.
    pub seed: u64,
}

impl Default for HnswOptions {
    fn default() -> Self {
        Self {
            ef_construction: 100,
            ef_search: 100,
            seed: 42,
        }
    }
}

/// An approximate search, with the part of the exact answer it found.
#[derive(Debug, Clone, PartialEq)]
pub struct ApproximateReport {
    /// The index with its settings, for people.
    pub index: String,
    /// By k: the fraction of the k best documents found among the first k, as the mean over the
    /// queries compared. A document that ties with the exact k-th counts as found.
    pub recall: BTreeMap<usize, f64>,
    /// Queries compared with the exact search: all, or 1,000 at equal intervals.
    pub compared: usize,
}

impl ApproximateReport {
    /// One sentence for people.
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

/// An index could not be built.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// No thread could be started to build it.
    #[error("the index has no thread to be built on: {0}")]
    Thread(#[from] rayon::ThreadPoolBuildError),
}

/// A row of a document or query, and the factor for its products.
#[derive(Clone, Copy)]
struct Point<'a> {
    row: &'a [f32],
    /// 1 / norm for cosine similarity, else 1.
    scale: f32,
    similarity: Similarity,
}

impl<'a> Point<'a> {
    fn new(row: &'a [f32], similarity: Similarity) -> Self {
        let scale = match similarity {
            Similarity::Cosine => 1.0 / similarity::norm(row).max(1e-12),
            _ => 1.0,
        };
        Self { row, scale, similarity }
    }
}

impl instant_distance::Point for Point<'_> {
    /// Falls as the similarity rises; need not be a metric.
    fn distance(&self, other: &Self) -> f32 {
        match self.similarity {
            Similarity::Cosine => 1.0 - added(self.row, other.row, |a, b| a * b) * self.scale * other.scale,
            Similarity::Dot => -added(self.row, other.row, |a, b| a * b),
            Similarity::Euclidean => added(self.row, other.row, |a, b| (a - b) * (a - b)),
            Similarity::Manhattan => added(self.row, other.row, |a, b| (a - b).abs()),
        }
    }
}

/// The sum of a function of two rows' elements, in f32 over lanes.
#[inline(always)]
fn added(x: &[f32], y: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in xs.iter().zip(ys) {
        for i in 0..LANES {
            lanes[i] += term(x[i], y[i]);
        }
    }
    let rest: f32 = x_rest.iter().zip(y_rest).map(|(a, b)| term(*a, *b)).sum();
    lanes.iter().sum::<f32>() + rest
}

/// As [`search::top_k`], through a graph: the documents found may not be the best, and may be fewer
/// than `k` where parts of the graph cannot be reached. Also returns the recall against the exact
/// search.
///
/// # Errors
/// [`IndexError`].
pub fn top_k(
    queries: VectorView<'_>,
    documents: VectorView<'_>,
    id_order: &[u32],
    similarity: Similarity,
    k: usize,
    ties: Ties,
    options: HnswOptions,
) -> Result<(Vec<Vec<Hit>>, ApproximateReport), IndexError> {
    let ef_search = options.ef_search.max(k);
    let points: Vec<Point<'_>> = documents.iter().map(|row| Point::new(row, similarity)).collect();
    let builder = Builder::default()
        .ef_construction(options.ef_construction)
        .ef_search(ef_search)
        .seed(options.seed);
    // Inside a pool with one thread the library inserts documents one after the other.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let (graph, places) = pool.install(|| builder.build_hnsw(points));
    let mut document_of = vec![0; places.len()];
    for (document, place) in places.iter().enumerate() {
        document_of[place.into_inner() as usize] = document;
    }
    let find = |scratch: &mut Scratch, query: usize| -> Vec<Hit> {
        let row = queries.row(query);
        let found = nearest(&graph, scratch, Point::new(row, similarity), &document_of);
        let mut rows = Vec::with_capacity(found.len() * documents.cols());
        for document in &found {
            rows.extend_from_slice(documents.row(*document));
        }
        search::ranked(row, &rows, &found, id_order, similarity, k, ties)
    };
    let hits: Vec<Vec<Hit>> = (0..queries.rows())
        .into_par_iter()
        .map_init(Scratch::default, find)
        .collect();

    let step = queries.rows().div_ceil(MOST_COMPARED).max(1);
    let compared: Vec<usize> = (0..queries.rows()).step_by(step).collect();
    let rows: Vec<f32> = compared.iter().flat_map(|query| queries.row(*query)).copied().collect();
    let sample = VectorMatrix::of_checked(compared.len(), queries.cols(), rows);
    let exact = search::top_k(sample.view(), documents, id_order, similarity, k, ties);
    let pairs: Vec<(&[Hit], &[Hit])> = exact
        .iter()
        .zip(&compared)
        .map(|(exact, query)| (exact.as_slice(), hits[*query].as_slice()))
        .collect();
    let depths = RECALL_DEPTHS.into_iter().filter(|depth| *depth <= k);
    let report = ApproximateReport {
        index: format!(
            "hnsw of instant-distance, {LINKS} links, ef_construction {}, ef_search {ef_search}, seed {}",
            options.ef_construction, options.seed
        ),
        recall: depths.map(|depth| (depth, recall(&pairs, depth))).collect(),
        compared: compared.len(),
    };
    Ok((hits, report))
}

/// The documents that are nearest according to the graph.
fn nearest(graph: &Hnsw<Point<'_>>, scratch: &mut Scratch, query: Point<'_>, document_of: &[usize]) -> Vec<usize> {
    graph
        .search(&query, scratch)
        .map(|item| document_of[item.pid.into_inner() as usize])
        .collect()
}

/// Mean over queries of the share of the `k` best (first of a pair) that the other list has among
/// its first `k`.
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
    use super::*;
    use crate::metric::VectorMatrix;

    /// Documents around so many centres, from a linear congruence.
    fn crowd(rows: usize, cols: usize, seed: u64) -> VectorMatrix {
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
        VectorMatrix::new(rows, cols, data).unwrap()
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
            let (found, report) = top_k(queries, documents, &order, similarity, 100, Ties::IdDescending, wide).unwrap();
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
            .unwrap()
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
        // Continuous vectors: nothing ties, so recall is the share of equal documents.
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
