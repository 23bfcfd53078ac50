//! Compares two collections on the same queries, or one collection on rephrased queries, with the
//! results of their indexes.
//!
//! * `search`: encodes queries and collects search results, with the recall of the index against an
//!   exact search. `estimate`: means with intervals.
//! * [`rules`]: the gate. [`interleave`]: lists for people to click on, and the evaluation of the
//!   clicks.
//! * [`rated`]: ratings by a language model.

mod estimate;
pub mod interleave;
pub mod rated;
pub mod rules;
mod search;

use std::{collections::HashMap, time::Duration};

use isomer_scoring::metric::{
    overlap::{PERSISTENCE, overlap_at, rank_biased_overlap},
    ranking::{Judgements, QueryMetrics, RetrievedDocument, query_metrics},
};
use isomer_stats::mean;

use crate::{
    encode::Encoder,
    error::{IndexError, Result},
    mark::Mark,
    store::{Hit, VectorStore},
};
pub use estimate::{Estimate, Resampling};
pub use search::{Lists, lists};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Its id in the judgements.
    pub id: String,
    pub text: String,
}

/// Relevance of documents by query.
pub type Qrels = HashMap<String, HashMap<String, i32>>;

/// A collection, with the encoder of its queries.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The collection.
    pub store: &'a dyn VectorStore,
    /// The encoder with the prompt and augmentation of queries.
    pub encoder: &'a Encoder,
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Number of documents in a list.
    pub k: usize,
    /// Number of concurrent searches.
    pub in_flight: usize,
    /// Whether each collection is also searched exactly, if its store supports that.
    pub exact: bool,
    /// The resampling for intervals.
    pub resampling: Resampling,
}

/// A measure of both collections.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Its name, e.g. `ndcg_at_10`.
    pub name: String,
    /// Means of the first and the second collection.
    pub means: [f64; 2],
    /// The second minus the first, paired by query.
    pub difference: Estimate,
}

/// One of the two collections.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionResult {
    pub name: String,
    pub mark: Mark,
    /// Whether its search compares all vectors.
    pub exact: bool,
    /// Median and 99th percentile of the time of a search, without encoding.
    pub times: [Duration; 2],
    /// Number of queries with fewer documents than requested.
    pub short: usize,
    /// The store's settings for searches of this depth, in words; `None`: no setting.
    pub depth: Option<String>,
    /// Share of an exact search's documents that the index finds; `None` if the store does not
    /// support exact search, or none was requested.
    pub index_recall: Option<Estimate>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PerQuery {
    pub id: String,
    /// Number of the cluster; queries of equal text share one.
    pub cluster: u32,
    /// nDCG, recall and MRR of both lists; `None` without a relevant document.
    pub relevance: Option<[[f64; 3]; 2]>,
    /// Share of documents that the lists have in common.
    pub overlap: f64,
    pub rank_biased_overlap: f64,
    pub index_recall: [Option<f64>; 2],
}

#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The collections.
    pub sides: [CollectionResult; 2],
    /// Number of documents in a list.
    pub k: usize,
    pub queries: usize,
    /// Number of queries with a relevant document, over which the measures are averaged; 0 without
    /// judgements.
    pub judged: usize,
    /// nDCG, recall and MRR; empty without judgements.
    pub measures: Vec<Measure>,
    /// Share of documents that the two lists have in common, over all queries.
    pub overlap: Estimate,
    /// Rank-biased overlap of the lists, over all queries.
    pub rank_biased_overlap: Estimate,
    /// The queries, in their order.
    pub per_query: Vec<PerQuery>,
}

/// Checks queries and judgements before the first search.
///
/// # Errors
/// If there are no queries, or judgements and queries have no id in common.
pub fn check(queries: &[Query], qrels: Option<&Qrels>) -> Result<()> {
    let setting = |field, message: &str, hint| IndexError::Setting {
        field,
        message: message.to_owned(),
        hint,
    };
    if queries.is_empty() {
        return Err(setting(
            "queries",
            "there are none",
            "give lines of JSON with `id` and `text`",
        ));
    }
    if let Some(qrels) = qrels
        && !queries.iter().any(|query| relevant(qrels, query).is_some())
    {
        return Err(setting(
            "qrels",
            "no query has a relevant document",
            "check that ids of queries are the same in both files",
        ));
    }
    Ok(())
}

/// Grades of a query, if it has a relevant document.
fn relevant<'a>(qrels: &'a Qrels, query: &Query) -> Option<&'a HashMap<String, i32>> {
    let grades = qrels.get(&query.id)?;
    grades.values().any(|grade| *grade > 0).then_some(grades)
}

/// Compares two collections.
///
/// # Errors
/// If there are no queries, judgements and queries have no id in common, a collection is missing,
/// or its vectors cannot be compared with those of the queries.
pub async fn compare(
    first: Side<'_>,
    second: Side<'_>,
    queries: &[Query],
    qrels: Option<&Qrels>,
    settings: Settings,
) -> Result<Comparison> {
    check(queries, qrels)?;
    let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
    let one = lists(first, &texts, settings).await?;
    let other = lists(second, &texts, settings).await?;
    Ok(held(&one, &other, queries, qrels, settings))
}

/// Compares two results for the same queries; each has a list for each query.
pub fn held(one: &Lists, other: &Lists, queries: &[Query], qrels: Option<&Qrels>, settings: Settings) -> Comparison {
    let clusters = estimate::clusters_of(queries);
    let mut per_query = Vec::with_capacity(queries.len());
    for (at, query) in queries.iter().enumerate() {
        let hits = [&one.hits[at], &other.hits[at]];
        let [a, b] = hits.map(|hits| search::documents(hits));
        let relevance = qrels.and_then(|qrels| relevant(qrels, query)).map(|grades| {
            let judgements: Judgements<'_> = grades
                .iter()
                .map(|(document, grade)| (document.as_str(), *grade))
                .collect();
            hits.map(|hits| {
                let found: QueryMetrics = query_metrics(&judgements, &retrieved(hits), &[settings.k]);
                [found.ndcg[0], found.recall[0], found.mrr[0]]
            })
        });
        let index_recall = [one, other].map(|lists| {
            let exact = lists.exact.as_ref()?;
            Some(search::recall(&lists.hits[at], &exact[at]))
        });
        per_query.push(PerQuery {
            id: query.id.clone(),
            cluster: clusters[at],
            relevance,
            overlap: overlap_at(&a, &b, settings.k),
            rank_biased_overlap: rank_biased_overlap(&a, &b, PERSISTENCE),
            index_recall,
        });
    }
    let over = |of: &dyn Fn(&PerQuery) -> Option<f64>, range| {
        let (values, own): (Vec<f64>, Vec<u32>) = per_query
            .iter()
            .filter_map(|query| Some((of(query)?, query.cluster)))
            .unzip();
        estimate::estimate(&values, &own, range, settings.resampling)
    };
    let judged = per_query.iter().filter(|query| query.relevance.is_some()).count();
    let mut measures = Vec::new();
    if judged > 0 {
        for (at, (name, _)) in rules::RelevanceMeasure::ALL.iter().enumerate() {
            let of_side = |side: usize| {
                let values = per_query
                    .iter()
                    .filter_map(|query| Some(query.relevance.as_ref()?[side][at]));
                mean(&values.collect::<Vec<f64>>()).unwrap_or_default()
            };
            let difference = |query: &PerQuery| query.relevance.as_ref().map(|[a, b]| b[at] - a[at]);
            measures.push(Measure {
                name: format!("{name}_at_{}", settings.k),
                means: [of_side(0), of_side(1)],
                difference: over(&difference, (-1.0, 1.0)),
            });
        }
    }
    let side = |lists: &Lists, at: usize| CollectionResult {
        index_recall: lists
            .exact
            .is_some()
            .then(|| over(&|query: &PerQuery| query.index_recall[at], (0.0, 1.0))),
        ..lists.searched.clone()
    };
    Comparison {
        sides: [side(one, 0), side(other, 1)],
        k: settings.k,
        queries: queries.len(),
        judged,
        measures,
        overlap: over(&|query| Some(query.overlap), (0.0, 1.0)),
        rank_biased_overlap: over(&|query| Some(query.rank_biased_overlap), (0.0, 1.0)),
        per_query,
    }
}

/// Hits in the form that the metrics expect: in the order of the index, whatever its scores.
fn retrieved(hits: &[Hit]) -> Vec<RetrievedDocument<'_>> {
    let count = hits.len();
    #[allow(clippy::cast_precision_loss)]
    let score = |rank: usize| (count - rank) as f64;
    hits.iter()
        .enumerate()
        .map(|(rank, hit)| RetrievedDocument {
            id: &hit.document,
            score: score(rank),
        })
        .collect()
}
