//! Retrieval: vectors of queries and documents, and judgements.

use rayon::prelude::*;

use super::ranked;
use super::{Profile, ScoreError, Scores, TaskType};
use crate::metric::{
    ApproximateReport, HnswOptions, Similarity, approximate,
    matrix::VectorView,
    ranking::{self, CUTOFFS, Judgements, QueryMetrics, Retrieved},
    search::{self, Hit, Ties},
};

/// HTEB keeps the ten best documents.
const HTEB_CUTOFFS: [usize; 4] = [1, 3, 5, 10];

/// The input of retrieval scores. Ids are unique; the caller checks that.
#[derive(Debug, Clone, Copy)]
pub struct RetrievalInput<'a> {
    /// One vector per query.
    pub queries: VectorView<'a>,
    /// Query ids.
    pub query_ids: &'a [String],
    /// One vector per document.
    pub documents: VectorView<'a>,
    /// Document ids.
    pub document_ids: &'a [String],
    /// Judgements of each query, by document row.
    pub judgements: &'a [Vec<(usize, i32)>],
    /// Leave out a retrieved document whose id is the query's own (mteb's `ignore_identical_ids`).
    pub ignore_identical_ids: bool,
    /// The search method.
    pub search: SearchMode,
}

/// How the documents of a query are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchMode {
    /// Every document is scored.
    #[default]
    Exact,
    /// Through an approximate index, whose recall is measured.
    Hnsw(HnswOptions),
}

/// Scores retrieval: search (exact, or through an index whose recall is in [`Scores::approximate`])
/// by the encoder's own similarity, then nDCG, MAP, recall, precision, hit rate (means over
/// queries, rounded to 5 decimals as mteb does), MRR, `accuracy` (recall at 1) and the normalised
/// areas under the abstention curve. Under the profile `hteb` only the best ten documents count,
/// chosen in corpus order where they tie, and there is no abstention.
///
/// # Errors
/// If vectors and ids do not match, there are no queries or no documents, or an index cannot be
/// built.
pub fn score_retrieval(
    input: &RetrievalInput<'_>,
    similarity: Similarity,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    let task = TaskType::Retrieval;
    let main_key = task
        .main_score(profile)
        .ok_or(ScoreError::NotServed { task, profile })?;
    check(input, main_key)?;
    let (cutoffs, ties): (&[usize], _) = match profile {
        Profile::MtebV2 | Profile::MtebV1 => (&CUTOFFS, Ties::IdDescending),
        Profile::Hteb => (&HTEB_CUTOFFS, Ties::CorpusOrder),
    };
    let depth = cutoffs.last().copied().unwrap_or(1);
    // HTEB drops a query's own document before the cut, mteb after it, so in mteb such a query
    // keeps one document fewer.
    let spare = usize::from(input.ignore_identical_ids && profile == Profile::Hteb);
    let id_order = search::id_order(input.document_ids);
    let (queries, documents, wanted) = (input.queries, input.documents, depth + spare);
    let (mut hits, approximate) = match input.search {
        SearchMode::Exact => (
            search::top_k(queries, documents, &id_order, similarity, wanted, ties),
            None,
        ),
        SearchMode::Hnsw(options) => {
            let (hits, report) = approximate::top_k(queries, documents, &id_order, similarity, wanted, ties, options)?;
            (hits, Some(report))
        }
    };
    if input.ignore_identical_ids {
        for (hits, query) in hits.iter_mut().zip(input.query_ids) {
            hits.retain(|h| input.document_ids[h.document] != *query);
            hits.truncate(depth);
        }
    }
    let metrics: Vec<QueryMetrics> = hits
        .par_iter()
        .zip(input.judgements)
        .map(|(hits, judgements)| query_metrics(input.document_ids, hits, judgements, cutoffs))
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
    let mut scores = Scores::new(main_key, all, input.query_ids.len())?
        .with_items(series)
        .with_mean_of_column(ranked::decimals(main_key));
    scores
        .notes
        .extend(approximate.as_ref().map(ApproximateReport::sentence));
    scores.approximate = approximate;
    Ok(scores)
}

fn check(input: &RetrievalInput<'_>, main_key: &'static str) -> Result<(), ScoreError> {
    let sides = [
        ("queries", input.queries.rows(), input.query_ids.len()),
        ("documents", input.documents.rows(), input.document_ids.len()),
        ("judged queries", input.judgements.len(), input.query_ids.len()),
    ];
    for (what, found, expected) in sides {
        if found != expected {
            return Err(ScoreError::Rows { what, expected, found });
        }
        if expected == 0 {
            return Err(ScoreError::Undefined {
                metric: main_key,
                reason: format!("there are no {what}"),
            });
        }
    }
    ScoreError::widths("documents", input.queries, input.documents)
}

fn query_metrics(ids: &[String], hits: &[Hit], judgements: &[(usize, i32)], cutoffs: &[usize]) -> QueryMetrics {
    let judgements: Judgements<'_> = judgements.iter().map(|(d, grade)| (ids[*d].as_str(), *grade)).collect();
    let retrieved: Vec<Retrieved<'_>> = hits
        .iter()
        .map(|h| Retrieved {
            id: &ids[h.document],
            score: f64::from(h.score),
        })
        .collect();
    ranking::query_metrics(&judgements, &retrieved, cutoffs)
}
