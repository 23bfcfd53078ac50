//! Two collections on the same queries, searched as their indexes answer.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_scoring::metric::{
    overlap::{PERSISTENCE, overlap_at, rank_biased_overlap},
    ranking::{Judgements, QueryMetrics, Retrieved, query_metrics},
};
use isomer_stats::{Bootstrap, IntervalMethod, Statistic, mean, statistic_interval};

use crate::{
    chunk::Chunking,
    encode::Encoder,
    error::{IndexError, Result},
    mark::Mark,
    store::{Hit, VectorStore},
};

/// Queries that are encoded in one request.
const BATCH: usize = 64;
/// Most rows that are asked for to find documents that are divided into chunks.
const MOST_ROWS: usize = 4_096;

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Names it in the judgements.
    pub id: String,
    /// Its text.
    pub text: String,
}

/// Relevance of documents by query.
pub type Qrels = HashMap<String, HashMap<String, i32>>;

/// A collection, and the encoder of its queries.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The collection.
    pub store: &'a dyn VectorStore,
    /// The encoder with the prompt and augmentation of queries.
    pub encoder: &'a Encoder,
}

/// How collections are compared.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Documents of a list.
    pub k: usize,
    /// Searches at once.
    pub in_flight: usize,
    /// Samples of the bootstrap, its level and seed.
    pub bootstrap: Bootstrap,
}

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its interval.
    pub interval: (f64, f64),
}

/// A measure of both collections.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Its name, e.g. `ndcg_at_10`.
    pub name: String,
    /// Means of the first and the second collection.
    pub means: [f64; 2],
    /// The second less the first, paired by query.
    pub difference: Estimate,
}

/// One of the two collections.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// Its name.
    pub name: String,
    /// Its mark.
    pub mark: Mark,
    /// Whether its search compares all vectors.
    pub exact: bool,
    /// Median and 99th percentile of the time of a search, without encoding.
    pub times: [Duration; 2],
    /// Queries to which it gave fewer documents than asked for.
    pub short: usize,
}

/// The comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The collections.
    pub sides: [Searched; 2],
    /// Queries searched for.
    pub queries: usize,
    /// Queries with a relevant document, over which the measures are means; 0 without judgements.
    pub judged: usize,
    /// nDCG, recall and MRR; empty without judgements.
    pub measures: Vec<Measure>,
    /// Share of documents that the two lists have in common, over all queries.
    pub overlap: Estimate,
    /// Rank-biased overlap of the lists, over all queries.
    pub rank_biased_overlap: Estimate,
}

struct Lists {
    searched: Searched,
    hits: Vec<Vec<Hit>>,
}

/// Compares two collections.
///
/// # Errors
/// If there are no queries, judgements and queries have no id in common, a collection is not there,
/// or its vectors cannot be compared with those of the queries.
pub async fn compare(
    first: Side<'_>,
    second: Side<'_>,
    queries: &[Query],
    qrels: Option<&Qrels>,
    settings: Settings,
) -> Result<Compared> {
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
    let relevant = |query: &Query| -> Option<&HashMap<String, i32>> {
        qrels?
            .get(&query.id)
            .filter(|grades| grades.values().any(|grade| *grade > 0))
    };
    let judged = queries.iter().filter(|query| relevant(query).is_some()).count();
    if qrels.is_some() && judged == 0 {
        return Err(setting(
            "qrels",
            "no query has a relevant document",
            "check that ids of queries are the same in both files",
        ));
    }
    let one = lists(first, queries, settings).await?;
    let other = lists(second, queries, settings).await?;
    let documents = |hits: &[Hit]| hits.iter().map(|hit| hit.document.clone()).collect::<Vec<String>>();
    let (mut shared, mut biased) = (Vec::new(), Vec::new());
    let mut scored: [Vec<QueryMetrics>; 2] = Default::default();
    for ((query, a), b) in queries.iter().zip(&one.hits).zip(&other.hits) {
        let (a_documents, b_documents) = (documents(a), documents(b));
        shared.push(overlap_at(&a_documents, &b_documents, settings.k));
        biased.push(rank_biased_overlap(&a_documents, &b_documents, PERSISTENCE));
        if let Some(grades) = relevant(query) {
            let judgements: Judgements<'_> = grades
                .iter()
                .map(|(document, grade)| (document.as_str(), *grade))
                .collect();
            for (scored, hits) in scored.iter_mut().zip([a, b]) {
                scored.push(query_metrics(&judgements, &retrieved(hits), &[settings.k]));
            }
        }
    }
    let mut measures = Vec::new();
    if judged > 0 {
        for (name, of) in [
            (
                "ndcg",
                (|metrics: &QueryMetrics| metrics.ndcg[0]) as fn(&QueryMetrics) -> f64,
            ),
            ("recall", |metrics| metrics.recall[0]),
            ("mrr", |metrics| metrics.mrr[0]),
        ] {
            let [a, b] = &scored;
            let values = |metrics: &[QueryMetrics]| metrics.iter().map(of).collect::<Vec<f64>>();
            let (a, b) = (values(a), values(b));
            let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
            measures.push(Measure {
                name: format!("{name}_at_{}", settings.k),
                means: [mean(&a).unwrap_or_default(), mean(&b).unwrap_or_default()],
                difference: estimate(&differences, &settings.bootstrap)?,
            });
        }
    }
    Ok(Compared {
        sides: [one.searched, other.searched],
        queries: queries.len(),
        judged,
        measures,
        overlap: estimate(&shared, &settings.bootstrap)?,
        rank_biased_overlap: estimate(&biased, &settings.bootstrap)?,
    })
}

/// Hits as the metrics take them: the order that the index gave, whatever its scores are.
fn retrieved(hits: &[Hit]) -> Vec<Retrieved<'_>> {
    let count = hits.len();
    #[allow(clippy::cast_precision_loss)]
    let score = |rank: usize| (count - rank) as f64;
    hits.iter()
        .enumerate()
        .map(|(rank, hit)| Retrieved {
            id: &hit.document,
            score: score(rank),
        })
        .collect()
}

fn estimate(values: &[f64], bootstrap: &Bootstrap) -> Result<Estimate> {
    let interval = statistic_interval(values, Statistic::Mean, bootstrap)?;
    Ok(Estimate {
        mean: mean(values).unwrap_or_default(),
        interval: (interval.low, interval.high),
    })
}

/// A bootstrap of this level and seed.
pub fn bootstrap(resamples: usize, level: f64, seed: u64) -> Bootstrap {
    Bootstrap {
        resamples,
        level,
        seed,
        method: IntervalMethod::Percentile,
    }
}

async fn lists(side: Side<'_>, queries: &[Query], settings: Settings) -> Result<Lists> {
    let store = side.store;
    let mark = store.mark().await?.ok_or_else(|| IndexError::NoCollection {
        collection: store.name().to_owned(),
    })?;
    mark.check_query(store.name(), &side.encoder.mark(Chunking::Whole, false))?;
    let chunked = mark.chunking()? != Chunking::Whole;
    let mut vectors = Vec::with_capacity(queries.len());
    for batch in queries.chunks(BATCH) {
        let texts: Vec<&str> = batch.iter().map(|query| query.text.as_str()).collect();
        vectors.extend(side.encoder.encode(&texts).await?.vectors);
    }
    let found: Vec<(Vec<Hit>, Duration)> = stream::iter(&vectors)
        .map(|vector| async {
            let begun = Instant::now();
            let hits = search(store, &mark, vector, settings.k, chunked).await?;
            Ok::<_, IndexError>((hits, begun.elapsed()))
        })
        .buffered(settings.in_flight.max(1))
        .try_collect()
        .await?;
    let (hits, mut times): (Vec<Vec<Hit>>, Vec<Duration>) = found.into_iter().unzip();
    times.sort_unstable();
    let at = |share: usize| {
        times
            .get((times.len() * share / 100).min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    };
    Ok(Lists {
        searched: Searched {
            name: store.name().to_owned(),
            exact: store.is_exact(),
            times: [at(50), at(99)],
            short: hits.iter().filter(|hits| hits.len() < settings.k).count(),
            mark,
        },
        hits,
    })
}

/// The best documents of a query. Of a document's chunks the best one counts, so more rows than
/// documents are asked for.
async fn search(store: &dyn VectorStore, mark: &Mark, vector: &[f32], k: usize, chunked: bool) -> Result<Vec<Hit>> {
    let mut most = if chunked { k.saturating_mul(4) } else { k };
    loop {
        let rows = store.search(mark, vector, most).await?;
        let all = rows.len() < most;
        let mut seen = std::collections::HashSet::new();
        let hits: Vec<Hit> = rows
            .into_iter()
            .filter(|hit| seen.insert(hit.document.clone()))
            .take(k)
            .collect();
        if hits.len() == k || all || !chunked || most >= MOST_ROWS {
            return Ok(hits);
        }
        most = most.saturating_mul(4).min(MOST_ROWS);
    }
}
