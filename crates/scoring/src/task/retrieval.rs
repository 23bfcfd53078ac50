//! Retrieval: vectors of queries and documents, and judgements.

use std::collections::HashMap;

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::{Profile, ResultLists, ScoreError, Scores, TaskType, ranked};
use crate::chance::Chance;
use crate::metric::{
    HnswOptions, Similarity, approximate,
    ranking::{self, CUTOFFS, Judgements, QueryMetrics, RetrievedDocument},
    search::{self, Hit, Ties},
};

/// Cut-offs of HTEB, which keeps the ten best documents.
const HTEB_CUTOFFS: [usize; 4] = [1, 3, 5, 10];

/// Depth of the lists in the comparison with chance.
const CHANCE_DEPTH: usize = 100;

/// The input of retrieval scores. Ids are unique; the caller checks that.
#[derive(Debug, Clone, Copy)]
pub struct RetrievalInput<'a> {
    /// One vector per query.
    pub queries: ArrayView2<'a, f32>,
    pub query_ids: &'a [String],
    /// One vector per document.
    pub documents: ArrayView2<'a, f32>,
    pub document_ids: &'a [String],
    /// Judgements of each query, by document row.
    pub judgements: &'a [Vec<(usize, i32)>],
    /// Exclude a retrieved document whose id is the query's own (mteb's `ignore_identical_ids`).
    pub ignore_identical_ids: bool,
    /// The search method.
    pub search: SearchMode,
}

/// The method of finding the documents of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchMode {
    /// Exact: every document is scored.
    #[default]
    Exact,
    /// Uses an approximate index, whose recall is measured.
    Hnsw(HnswOptions),
}

/// The labels against which retrieval is scored. Ids are unique; the caller checks that.
#[derive(Debug, Clone, Copy)]
pub struct RetrievalLabels<'a> {
    pub query_ids: &'a [String],
    pub document_ids: &'a [String],
    /// Judgements of each query, by document row. A row beyond the corpus is a document that is
    /// never found.
    pub judgements: &'a [Vec<(usize, i32)>],
    /// Like the field in [`RetrievalInput`].
    pub ignore_identical_ids: bool,
}

/// The requirements on a search whose result is scored. Every score depends only on the found
/// documents and the judgements: a judged document beyond the `k` best counts as not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchTerms {
    /// Documents per query: the deepest cut-off, 1000 under mteb's profiles and 10 under `hteb`,
    /// plus one if `hteb` excludes a query's own document.
    pub k: usize,
    /// The rule for ties.
    pub ties: Ties,
}

impl RetrievalLabels<'_> {
    /// The requirements on a search under a profile.
    pub fn terms(&self, profile: Profile) -> SearchTerms {
        let (cutoffs, ties): (&[usize], _) = cutoffs(profile);
        // HTEB drops a query's own document before the cut, mteb after it. So in mteb such a query
        // keeps one document fewer.
        let spare = usize::from(self.ignore_identical_ids && profile == Profile::Hteb);
        SearchTerms {
            k: cutoffs.last().copied().unwrap_or(1) + spare,
            ties,
        }
    }
}

fn cutoffs(profile: Profile) -> (&'static [usize], Ties) {
    match profile {
        Profile::MtebV2 | Profile::MtebV1 => (&CUTOFFS, Ties::IdDescending),
        Profile::Hteb => (&HTEB_CUTOFFS, Ties::CorpusOrder),
    }
}

pub(super) fn main_key(profile: Profile) -> Result<&'static str, ScoreError> {
    let task = TaskType::Retrieval;
    task.main_score(profile).ok_or(ScoreError::NotServed { task, profile })
}

/// Scores retrieval: search (exact, or through an index whose recall is in [`Scores::approximate`])
/// by the encoder's own similarity, then [`score_found`].
///
/// # Errors
/// If vectors and ids do not match, there are no queries or no documents, a similarity is not a
/// number, or an index cannot be built.
pub fn score_retrieval(
    input: &RetrievalInput<'_>,
    similarity: Similarity,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    check(input, main_key(profile)?)?;
    let labels = RetrievalLabels {
        query_ids: input.query_ids,
        document_ids: input.document_ids,
        judgements: input.judgements,
        ignore_identical_ids: input.ignore_identical_ids,
    };
    let SearchTerms { k, ties } = labels.terms(profile);
    let id_order = search::id_order(input.document_ids);
    let (queries, documents) = (input.queries, input.documents);
    match input.search {
        SearchMode::Exact => {
            let hits = search::top_k(queries, documents, &id_order, similarity, k, ties);
            score_found(&labels, hits, profile)
        }
        SearchMode::Hnsw(options) => {
            let (hits, report) = approximate::top_k(queries, documents, &id_order, similarity, k, ties, options);
            let mut scores = score_hits(&labels, hits, profile)?;
            scores.notes.push(report.sentence());
            scores.approximate = Some(report);
            Ok(scores)
        }
    }
}

/// Scores the documents that an exact search under [`RetrievalLabels::terms`] found for each query,
/// best first. The scores are nDCG, MAP, recall, precision, hit rate (means over queries, rounded
/// to 5 decimals like mteb), MRR, `accuracy` (recall at 1) and the normalised areas under the
/// abstention curve. Under the profile `hteb` only the best ten documents count, with ties in
/// corpus order, and abstention is not scored.
///
/// # Errors
/// If lists and ids do not match, there are no queries or no documents, or a list is too short
/// because a similarity was not a number.
pub fn score_found(labels: &RetrievalLabels<'_>, hits: Vec<Vec<Hit>>, profile: Profile) -> Result<Scores, ScoreError> {
    check_depth(labels, &hits, labels.terms(profile).k, main_key(profile)?)?;
    score_hits(labels, hits, profile)
}

/// Refuses lists of a search by vectors for `k` documents that are too short: a similarity was not
/// a number.
pub(super) fn check_depth(
    labels: &RetrievalLabels<'_>,
    hits: &[Vec<Hit>],
    k: usize,
    metric: &'static str,
) -> Result<(), ScoreError> {
    let whole = k.min(labels.document_ids.len());
    match hits.iter().position(|hits| hits.len() < whole) {
        None => Ok(()),
        Some(query) => Err(ScoreError::Undefined {
            metric,
            reason: format!(
                "the similarity of query `{}` and a document is not a number",
                labels.query_ids.get(query).map_or("", String::as_str)
            ),
        }),
    }
}

/// Scores the documents of a search that may find fewer than [`RetrievalLabels::terms`] asks for.
/// Documents that are not found count as in [`score_found`].
///
/// # Errors
/// If lists and ids do not match, or there are no queries or no documents.
pub(super) fn score_hits(
    labels: &RetrievalLabels<'_>,
    mut hits: Vec<Vec<Hit>>,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    let main_key = main_key(profile)?;
    counted("queries", hits.len(), labels.query_ids.len(), main_key)?;
    counted(
        "judged queries",
        labels.judgements.len(),
        labels.query_ids.len(),
        main_key,
    )?;
    let (cutoffs, _) = cutoffs(profile);
    let depth = cutoffs.last().copied().unwrap_or(1);
    if labels.ignore_identical_ids {
        for (hits, query) in hits.iter_mut().zip(labels.query_ids) {
            hits.retain(|h| labels.document_ids[h.document] != *query);
            hits.truncate(depth);
        }
    }
    let metrics: Vec<QueryMetrics> = hits
        .par_iter()
        .zip(labels.judgements)
        .map(|(hits, judgements)| query_metrics(labels.document_ids, hits, judgements, cutoffs))
        .collect();
    let series = ranking::series(&metrics, cutoffs);
    let mut all = ranked::means(&series);
    if profile != Profile::Hteb {
        let retrieved: Vec<Vec<f64>> = hits
            .iter()
            .map(|hits| hits.iter().map(|h| f64::from(h.score)).collect())
            .collect();
        all.extend(ranked::abstention_areas(&retrieved, &series));
    }
    let mut scores = Scores::new(main_key, all, labels.query_ids.len())?
        .with_items(series)
        .with_mean_of_column(ranked::decimals(main_key), Some(chance(&hits, labels.judgements)));
    scores.lists = Some(ResultLists::new(
        &hits,
        labels.judgements,
        depth,
        labels.document_ids.len(),
    ));
    Ok(scores)
}

/// Compares reciprocal ranks with those of judgements permuted over queries.
fn chance(hits: &[Vec<Hit>], judgements: &[Vec<(usize, i32)>]) -> Chance {
    let mut wanted: HashMap<usize, Vec<usize>> = HashMap::new();
    for (query, judged) in judgements.iter().enumerate() {
        for (document, _) in judged.iter().filter(|(_, grade)| *grade > 0) {
            wanted.entry(*document).or_default().push(query);
        }
    }
    // For each list, the queries for which it has a relevant document, and the reciprocal rank of
    // each.
    let of_list = |hits: &Vec<Hit>| -> HashMap<usize, f64> {
        let mut ranks = HashMap::new();
        for (rank, hit) in hits.iter().take(CHANCE_DEPTH).enumerate() {
            for query in wanted.get(&hit.document).into_iter().flatten() {
                ranks.entry(*query).or_insert(1.0 / (rank + 1) as f64);
            }
        }
        ranks
    };
    let lists: Vec<HashMap<usize, f64>> = hits.par_iter().map(of_list).collect();
    let sum = |queries: &[usize]| {
        lists
            .iter()
            .zip(queries)
            .filter_map(|(list, query)| list.get(query))
            .sum()
    };
    let queries: Vec<usize> = (0..lists.len()).collect();
    Chance::of_labels(&queries, sum)
}

fn check(input: &RetrievalInput<'_>, main_key: &'static str) -> Result<(), ScoreError> {
    let sides = [
        ("queries", input.queries.nrows(), input.query_ids.len()),
        ("documents", input.documents.nrows(), input.document_ids.len()),
        ("judged queries", input.judgements.len(), input.query_ids.len()),
    ];
    for (what, found, expected) in sides {
        counted(what, found, expected, main_key)?;
    }
    ScoreError::widths("documents", input.queries, input.documents)
}

pub(super) fn counted(
    what: &'static str,
    found: usize,
    expected: usize,
    main_key: &'static str,
) -> Result<(), ScoreError> {
    ScoreError::rows(what, expected, found)?;
    if expected == 0 {
        return Err(ScoreError::none(main_key, what));
    }
    Ok(())
}

fn query_metrics(ids: &[String], hits: &[Hit], judgements: &[(usize, i32)], cutoffs: &[usize]) -> QueryMetrics {
    // Only whether an id was found matters, so any name that no document has will do.
    let outside: Vec<(String, i32)> = judgements
        .iter()
        .filter(|(document, _)| *document >= ids.len())
        .map(|(document, grade)| (format!("\0{document}"), *grade))
        .collect();
    let inside = judgements
        .iter()
        .filter_map(|(d, grade)| Some((ids.get(*d)?.as_str(), *grade)));
    let judgements: Judgements<'_> = inside
        .chain(outside.iter().map(|(name, grade)| (name.as_str(), *grade)))
        .collect();
    let retrieved: Vec<RetrievedDocument<'_>> = hits
        .iter()
        .map(|h| RetrievedDocument {
            id: &ids[h.document],
            score: f64::from(h.score),
        })
        .collect();
    ranking::query_metrics(&judgements, &retrieved, cutoffs)
}
