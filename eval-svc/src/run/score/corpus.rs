//! Large corpora: a retrieval data set whose documents are encoded and searched in shards, so that
//! not all vectors are in memory at once.
//!
//! All queries that a round adds are searched together, as far as the memory for their hits
//! permits: each shard is encoded once for all of them, by this process or by a worker
//! ([`crate::work::WorkEngine::search`]), and the best documents of the shards are merged. The
//! scores are bit for bit those of a search in the whole corpus.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use futures::{StreamExt, stream};
use ndarray::Array2;

use super::text_set::TextSet;
use crate::{
    encoding::EncodingError,
    metric::search::{self, Hit, Merge},
    run::{
        RunError,
        encode::{
            EncoderVectors, excerpt,
            inputs::Inputs,
            vectors::{Encodings, StoredVectors},
        },
        plan::{
            Layout,
            table::{Key, Table},
        },
    },
    task::SearchTerms,
    work::{DocumentFacts, Queries, ScoreRecord, Shard, ShardSearch},
};

/// Maximum hits of a search per document of a shard: memory for hits grows with the memory for
/// vectors. During merging, twice as many are in memory, 8 bytes each.
const HITS_A_DOCUMENT: usize = 1024;

/// The scores of some sets of a table, with facts about its documents.
pub(crate) struct CorpusScores {
    /// One per set, in order.
    pub scores: Vec<ScoreRecord>,
    /// One per document.
    pub facts: Vec<DocumentFacts>,
}

/// The first sets of one table: as many as are searched together in shards of this many documents,
/// and at least one.
pub(crate) fn first_group<'s, 'a>(
    layout: &Layout,
    sets: &'s [&'a TextSet],
    encoder: usize,
    shard: usize,
) -> &'s [&'a TextSet] {
    let most = shard.saturating_mul(HITS_A_DOCUMENT);
    let mut queries: HashSet<Key> = HashSet::new();
    for (number, set) in sets.iter().enumerate() {
        let labels = layout.tables[set.table].dataset.retrieval();
        let k = labels.map_or(1, |labels| {
            labels.terms(layout.suite.profile).k.min(labels.document_ids.len())
        });
        queries.extend(queries_of(layout, set, encoder));
        if number > 0 && queries.len() * k > most {
            return &sets[..number];
        }
    }
    sets
}

/// The vectors of a set's queries, in their order.
fn queries_of(layout: &Layout, set: &TextSet, encoder: usize) -> Vec<Key> {
    let labels = layout.tables[set.table].dataset.retrieval();
    let queries = labels.map_or(0, |labels| labels.query_ids.len());
    let mut keys = set.keys(layout, encoder);
    keys.truncate(queries);
    keys
}

/// Scores sets of one table, which must belong to one group.
pub(crate) async fn score(encoder: &mut EncoderVectors<'_>, sets: &[&TextSet]) -> Result<CorpusScores, RunError> {
    let Inputs { context, layout, .. } = encoder.inputs;
    let Some((number, table)) = sets.first().map(|set| (set.table, &layout.tables[set.table])) else {
        return Err(RunError::Internal("a corpus is searched for no queries".to_owned()));
    };
    let queries = |set: &&TextSet| queries_of(layout, set, encoder.position);
    let queries: Vec<Vec<Key>> = sets.iter().map(queries).collect();
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut distinct: Vec<Key> = Vec::new();
    for key in queries.iter().flatten() {
        places.entry(*key).or_insert_with(|| {
            distinct.push(*key);
            distinct.len() - 1
        });
    }
    encoder.fill(number, &distinct).await?;
    let matrix = encoder.stored(number).matrix(&distinct)?;
    let (mut hits, facts) = search(encoder, table, matrix).await?;
    let mut scores = Vec::with_capacity(sets.len());
    let mut left: HashMap<Key, usize> = HashMap::new();
    for key in queries.iter().flatten() {
        *left.entry(*key).or_default() += 1;
    }
    for (set, keys) in sets.iter().zip(&queries) {
        let mut own: Vec<Vec<Hit>> = Vec::with_capacity(keys.len());
        for key in keys {
            let left = left.entry(*key).or_default();
            *left = left.saturating_sub(1);
            // The last set with a query takes ownership of its hits.
            let found = places.get(key).and_then(|place| hits.get_mut(*place));
            let found = found.map(|hits| if *left == 0 { std::mem::take(hits) } else { hits.clone() });
            own.push(found.unwrap_or_default());
        }
        let (dataset, profile) = (Arc::clone(&table.dataset), layout.suite.profile);
        let scored = context.compute.batch(move || dataset.score_found(own, profile)).await?;
        scores.push(ScoreRecord::from(scored.map_err(|source| RunError::Score {
            encoder: encoder.planned().encoder.id.clone(),
            dataset: table.dataset.name().to_owned(),
            variant: layout.describe(set.variant),
            source,
        })?));
    }
    Ok(CorpusScores { scores, facts })
}

/// The hits of each query in the whole corpus, with facts about each document.
async fn search(
    encoder: &mut EncoderVectors<'_>,
    table: &Table,
    queries: Array2<f32>,
) -> Result<(Vec<Vec<Hit>>, Vec<DocumentFacts>), RunError> {
    let Inputs {
        context,
        layout,
        progress,
        ..
    } = encoder.inputs;
    let (planned, size) = (encoder.planned(), context.config.shard_documents);
    let Some((labels, corpus)) = table.dataset.retrieval().zip(table.sharded_documents(size)) else {
        return Err(RunError::Internal(
            "a data set without a large corpus is searched in shards".to_owned(),
        ));
    };
    let SearchTerms { k, ties } = labels.terms(layout.suite.profile);
    let (first, total) = (corpus.start, corpus.len());
    let slot = table.prompts[encoder.position].of_documents();
    let shard_search = Arc::new(ShardSearch {
        encoder: encoder.served().clone(),
        prompt: planned.prompts.sent(slot).cloned(),
        queries: Queries::new(queries),
        terms: SearchTerms { k, ties },
    });
    let failed = |shard: usize, error: EncodingError| {
        RunError::encoding(&planned.encoder.id, error, |row| {
            let text = table.dataset.texts().get(first + shard * size + row);
            format!(
                "the document \"{}\"",
                text.map_or_else(String::new, |text| excerpt(&text.text))
            )
        })
    };
    let meter = &mut *encoder.meter;
    let shards = total.div_ceil(size);
    meter.grow(total as u64);
    let mut searched = stream::iter(0..shards)
        .map(|number| {
            let rows = first + number * size..first + ((number + 1) * size).min(total);
            let dataset = Arc::clone(&table.dataset);
            let shard = Shard::Of { dataset, rows, first };
            let (documents, shard_search) = (shard.len(), Arc::clone(&shard_search));
            let searched = context.work.search(shard, Arc::clone(&shard_search));
            async move {
                let found = searched.await.and_then(|found| {
                    found.check(documents, &shard_search).map_err(EncodingError::Unusable)?;
                    Ok(found)
                });
                (number, found)
            }
        })
        .buffer_unordered(context.work.shards_in_flight().max(1));
    let (dataset, queries) = (Arc::clone(&table.dataset), shard_search.queries.len());
    let merge = context.compute.batch(move || {
        let ids = dataset.retrieval().map(|labels| labels.document_ids);
        Merge::new(queries, search::id_order(ids.unwrap_or_default()), k, ties)
    });
    let mut merge = merge.await?;
    let mut facts: Vec<Option<DocumentFacts>> = vec![None; total];
    while let Some(found) = searched.next().await {
        let (number, found) = found;
        let found = found.map_err(|error| failed(number, error))?;
        let (begin, documents) = (number * size, found.facts.len() as u64);
        for (place, fact) in facts[begin..].iter_mut().zip(found.facts) {
            *place = Some(fact);
        }
        progress.encoded(found.encoded, &found.usage);
        meter.add(documents, documents.saturating_sub(found.encoded), Instant::now());
        progress.report(meter);
        let hits = found.hits;
        let merged = context.compute.batch(move || {
            merge.add(begin, &hits);
            merge
        });
        merge = merged.await?;
    }
    drop(searched);
    let facts: Option<Vec<DocumentFacts>> = facts.into_iter().collect();
    let facts = facts.ok_or_else(|| RunError::Internal("a shard of a corpus was left out".to_owned()))?;
    let hits = context.compute.batch(move || merge.finish()).await;
    Ok((hits?, facts))
}

/// Information about the vectors of a data set's texts: the vectors of its queries, which are
/// available, and the facts of its documents.
pub(crate) struct CorpusEncodings<'a> {
    /// Vectors of the queries.
    pub vectors: StoredVectors<'a>,
    /// Position of the first document among the texts.
    pub first: usize,
    /// One per document.
    pub facts: &'a [DocumentFacts],
}

impl CorpusEncodings<'_> {
    fn document(&self, position: usize) -> Option<&DocumentFacts> {
        self.facts.get(position.checked_sub(self.first)?)
    }
}

impl Encodings for CorpusEncodings<'_> {
    fn cut(&self, position: usize, key: Key) -> Option<Option<bool>> {
        match position < self.first {
            true => Encodings::cut(&self.vectors, position, key),
            false => self.document(position).map(|document| document.cut),
        }
    }

    fn zero(&self, position: usize, key: Key) -> Option<bool> {
        // Documents are not transformed, and no rule counts them.
        self.vectors.zero(position, key)
    }

    fn digest(&self, position: usize, key: Key) -> Option<[u8; blake3::OUT_LEN]> {
        match position < self.first {
            true => self.vectors.digest(position, key),
            false => self.document(position).map(|document| document.vector),
        }
    }
}
