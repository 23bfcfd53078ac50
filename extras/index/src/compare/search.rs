//! Encodes queries with the encoder of a collection, and searches their documents.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};

use super::{CollectionResult, Settings, Side};
use crate::{
    chunk::Chunking,
    error::{IndexError, Result},
    mark::Mark,
    store::{Hit, VectorStore},
};

/// Number of queries encoded in one request.
const BATCH: usize = 64;
/// Maximum number of rows that are requested to find documents that are divided into chunks.
const MOST_ROWS: usize = 4_096;

/// The search results for each query.
#[derive(Debug, Clone, PartialEq)]
pub struct Lists {
    pub(super) searched: CollectionResult,
    /// Results of the index, best first.
    pub(super) hits: Vec<Vec<Hit>>,
    /// Results of an exact search; `None` if the store does not support it, or none was requested.
    pub(super) exact: Option<Vec<Vec<Hit>>>,
}

impl Lists {
    /// The documents of each query, best first.
    pub fn documents(&self) -> Vec<Vec<String>> {
        self.hits.iter().map(|hits| documents(hits)).collect()
    }
}

pub(super) fn documents(hits: &[Hit]) -> Vec<String> {
    hits.iter().map(|hit| hit.document.clone()).collect()
}

/// Searches a collection for texts.
///
/// # Errors
/// If the collection is missing, or its vectors cannot be compared with those of the texts.
pub async fn lists(side: Side<'_>, texts: &[&str], settings: Settings) -> Result<Lists> {
    let store = side.store;
    let mark = store.mark().await?.ok_or_else(|| IndexError::NoCollection {
        collection: store.name().to_owned(),
    })?;
    mark.check_query(store.name(), &side.encoder.mark(Chunking::Whole, false))?;
    let chunked = mark.chunking()? != Chunking::Whole;
    let mut vectors = Vec::with_capacity(texts.len());
    for batch in texts.chunks(BATCH) {
        vectors.extend(side.encoder.encode(batch).await?.complete()?.vectors);
    }
    let (store_mark, in_flight) = (&mark, settings.in_flight.max(1));
    let found: Vec<(Vec<Hit>, Duration)> = stream::iter(&vectors)
        .map(|vector| async move {
            let begun = Instant::now();
            let near = async |most| store.search(store_mark, vector, most).await.map(Some);
            let hits = best(near, settings.k, chunked).await?.unwrap_or_default();
            Ok::<_, IndexError>((hits, begun.elapsed()))
        })
        .buffered(in_flight)
        .try_collect()
        .await?;
    let (hits, mut times): (Vec<Vec<Hit>>, Vec<Duration>) = found.into_iter().unzip();
    let exact = match settings.exact {
        false => None,
        true => exact(store, &mark, &vectors, settings, chunked).await?,
    };
    times.sort_unstable();
    let at = |share: usize| {
        times
            .get((times.len() * share / 100).min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    };
    Ok(Lists {
        searched: CollectionResult {
            name: store.name().to_owned(),
            exact: store.is_exact(),
            times: [at(50), at(99)],
            short: hits.iter().filter(|hits| hits.len() < settings.k).count(),
            depth: store.search_depth(settings.k).await?,
            index_recall: None,
            mark,
        },
        hits,
        exact,
    })
}

async fn exact(
    store: &dyn VectorStore,
    mark: &Mark,
    vectors: &[Vec<f32>],
    settings: Settings,
    chunked: bool,
) -> Result<Option<Vec<Vec<Hit>>>> {
    stream::iter(vectors)
        .map(|vector| async move {
            let near = async |most| store.search_exactly(mark, vector, most).await;
            best(near, settings.k, chunked).await
        })
        .buffered(settings.in_flight.max(1))
        .try_collect::<Vec<Option<Vec<Hit>>>>()
        .await
        .map(|all| all.into_iter().collect())
}

/// The best documents for a query. A document counts by its best chunk, so more rows than documents
/// are requested.
async fn best(
    near: impl AsyncFn(usize) -> Result<Option<Vec<Hit>>>,
    k: usize,
    chunked: bool,
) -> Result<Option<Vec<Hit>>> {
    let mut most = if chunked { k.saturating_mul(4) } else { k };
    loop {
        let Some(rows) = near(most).await? else { return Ok(None) };
        let all = rows.len() < most;
        let mut seen = HashSet::new();
        let hits: Vec<Hit> = rows
            .into_iter()
            .filter(|hit| seen.insert(hit.document.clone()))
            .take(k)
            .collect();
        if hits.len() == k || all || !chunked || most >= MOST_ROWS {
            return Ok(Some(hits));
        }
        most = most.saturating_mul(4).min(MOST_ROWS);
    }
}

/// The share of the exact search's documents that the index found. A document that is as near as
/// the last of them counts as found, because the order of ties is arbitrary.
pub(super) fn recall(found: &[Hit], exact: &[Hit]) -> f64 {
    let Some(last) = exact.last() else { return 1.0 };
    let wanted: HashSet<&str> = exact.iter().map(|hit| hit.document.as_str()).collect();
    let counted = found
        .iter()
        .filter(|hit| wanted.contains(hit.document.as_str()) || hit.score >= last.score)
        .count();
    counted.min(exact.len()) as f64 / exact.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(all: &[(&str, f64)]) -> Vec<Hit> {
        let hit = |(document, score): &(&str, f64)| Hit {
            document: (*document).to_owned(),
            score: *score,
        };
        all.iter().map(hit).collect()
    }

    #[test]
    fn recall_counts_documents_of_the_exact_search_and_those_that_tie_with_its_last() {
        let exact = hits(&[("a", 0.9), ("b", 0.8), ("c", 0.5), ("d", 0.5)]);
        assert_eq!(recall(&exact, &exact), 1.0);
        assert_eq!(recall(&hits(&[("a", 0.9), ("c", 0.5)]), &exact), 0.5);
        // `e` is as near as the last; `f` is not.
        assert_eq!(recall(&hits(&[("a", 0.9), ("e", 0.5), ("f", 0.4)]), &exact), 0.5);
        assert_eq!(recall(&[], &exact), 0.0);
        assert_eq!(recall(&[], &[]), 1.0);
    }
}
