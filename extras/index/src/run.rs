//! Fills a collection from a source, and follows the source.
//!
//! Each batch of documents goes through the same steps, several batches at once. The rows of these
//! documents are read from the store. Rows whose digest differs are encoded and written. Rows that
//! a document no longer has are removed. A run without differences writes nothing.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::TryStreamExt;
use isomer_outbound::rate_limiter::{RateLimiter, Rates};
use isomer_proto::common::v1::Usage;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    chunk::{Chunking, row_key},
    digest,
    encode::{Additional, Encoder},
    error::{IndexError, Result},
    mark::Mark,
    source::{Document, Source},
    store::{Row, StoredRow, VectorStore},
};

/// Maximum wait for a turn under a rate limit.
const LONGEST_TURN: Duration = Duration::from_secs(86_400);

/// Number of batches that are written concurrently, however many are being encoded.
const WRITES: usize = 8;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The division of texts.
    pub chunking: Chunking,
    /// Whether rows contain their texts.
    pub with_text: bool,
    /// Number of documents in a batch.
    pub batch: usize,
    /// Number of concurrent batches.
    pub in_flight: usize,
    /// Number of rows encoded per second; 0: no limit.
    pub rows_per_second: f64,
    /// Whether rows of documents that are gone from the source are removed, and the maximum share
    /// of all rows that may be removed.
    pub delete: Option<f64>,
    /// Whether an index for approximate search is built at the end.
    pub build_index: bool,
}

impl Settings {
    /// # Errors
    /// If the rate is invalid.
    pub(crate) fn limiter(&self) -> Result<RateLimiter> {
        let rates = Rates {
            tokens_per_second: self.rows_per_second,
            ..Rates::default()
        };
        RateLimiter::new(rates, LONGEST_TURN).map_err(|error| IndexError::Setting {
            field: "rows-per-second",
            message: error.to_string(),
            hint: "give a number above 0, or leave it out",
        })
    }
}

#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Documents read.
    pub documents: u64,
    /// Documents without a text.
    pub empty: u64,
    /// Rows that were already up to date.
    pub unchanged: u64,
    /// Rows written.
    pub written: u64,
    /// Written rows that lack variants; the next run computes them again.
    pub partial: u64,
    /// Texts that were truncated at the encoder's maximum length.
    pub truncated: u64,
    /// Texts that are left out of the collection because their vectors have length 0: the encoder
    /// knows none of their words.
    pub unknown: u64,
    /// Documents with a text that the encoder could not encode. They have no rows: older ones are
    /// of another text.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<FailedDocument>,
    /// Removed rows that their documents no longer have.
    pub replaced: u64,
    /// Removed rows whose documents are gone from the source.
    pub deleted: u64,
    /// The usage of encoding.
    pub usage: Usage,
}

/// A document with a text that the encoder could not encode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedDocument {
    pub key: String,
    pub reason: String,
}

/// Number of failed documents that are named.
const NAMED: usize = 10;
/// A run stops at this number of failed documents if they are also this share of all documents.
const MOST_FAILED: u64 = 100;
const MOST_FAILED_SHARE: f64 = 0.05;

impl Counts {
    /// Adds failed documents, with their reasons by key.
    ///
    /// # Errors
    /// [`IndexError::TooManyFailed`].
    fn fail(&mut self, failed: BTreeMap<String, String>) -> Result<()> {
        self.failed += failed.len() as u64;
        let failed = failed.into_iter().map(|(key, reason)| FailedDocument { key, reason });
        let left = NAMED - self.failures.len();
        self.failures.extend(failed.take(left));
        #[allow(clippy::cast_precision_loss)]
        let share = self.failed as f64 / self.documents.max(1) as f64;
        match self.failures.first() {
            Some(first) if self.failed >= MOST_FAILED && share > MOST_FAILED_SHARE => Err(IndexError::TooManyFailed {
                failed: self.failed,
                documents: self.documents,
                key: first.key.clone(),
                reason: first.reason.clone(),
            }),
            _ => Ok(()),
        }
    }
}

/// A run that ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub counts: Counts,
    /// The mark of the collection.
    pub mark: Mark,
    /// Time from the first row to the last one written.
    pub load: Duration,
    /// Time for building the index; `None` if none was requested.
    pub index: Option<Duration>,
}

/// The rows of documents, compared with those of the store.
pub(crate) struct Difference {
    /// Rows to write, without vectors.
    pub(crate) rows: Vec<Row>,
    /// Texts of these rows.
    pub(crate) texts: Vec<String>,
    /// Keys of rows to remove.
    pub(crate) gone: Vec<String>,
    /// Rows that are up to date, with their texts.
    pub(crate) unchanged: Vec<(StoredRow, String)>,
    /// Documents without a text.
    pub(crate) empty: u64,
    /// Of the rows to write, the number that the store has without some of their variants.
    pub(crate) partial: u64,
    /// Of the rows to write, the number that the store has with another digest.
    pub(crate) outdated: u64,
}

/// Remembers the keys of a source, each of which may occur only once.
#[derive(Debug, Default)]
pub(crate) struct SourceKeys(HashSet<u128>);

impl SourceKeys {
    /// # Errors
    /// [`IndexError::SameKey`].
    pub(crate) fn add(&mut self, documents: &[Document]) -> Result<()> {
        for document in documents {
            if !self.0.insert(digest::key_hash(&document.key)) {
                return Err(IndexError::SameKey {
                    key: document.key.clone(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.contains(&digest::key_hash(key))
    }
}

/// Fills the collection.
///
/// # Errors
/// If a batch cannot be read, encoded or written after all retries. Written rows stay, and the same
/// run resumes from there.
pub async fn run(
    source: &Source,
    store: &dyn VectorStore,
    encoder: &Encoder,
    settings: &Settings,
    watch: &(dyn Fn(&Counts) + Send + Sync),
) -> Result<Outcome> {
    let mark = encoder.mark(settings.chunking, settings.with_text);
    open(store, &mark).await?;
    let limiter = settings.limiter()?;
    let work = Work::new(store, encoder, &mark, &limiter, watch)?;
    let source_keys = pass(source, settings, |documents| work.batch(documents)).await?;
    work.close(&source_keys, settings).await
}

/// Creates the collection if it does not exist, and requires that its mark equals this one.
async fn open(store: &dyn VectorStore, mark: &Mark) -> Result<()> {
    check_kept(store, mark)?;
    if store.mark().await?.is_none_or(|stored| stored == *mark) {
        store.create(mark).await?;
    }
    let stored = store.mark().await?.ok_or_else(|| IndexError::NoCollection {
        collection: store.name().to_owned(),
    })?;
    stored.check(store.name(), mark)
}

/// Refuses vectors that the store cannot keep.
fn check_kept(store: &dyn VectorStore, mark: &Mark) -> Result<()> {
    let (wanted, kept) = (mark.additional(), store.additional());
    let lacks = [
        (wanted.sparse && !kept.sparse, "sparse vectors"),
        (wanted.tokens && !kept.tokens, "vectors of tokens"),
    ];
    match lacks.iter().find(|(lacks, _)| *lacks) {
        None => Ok(()),
        Some((_, what)) => Err(IndexError::Setting {
            field: "outputs",
            message: format!("{what} are not written to {}", store.name()),
            hint: "Qdrant keeps sparse vectors and vectors of tokens, pgvector sparse vectors",
        }),
    }
}

/// Processes all documents of a source with a step, several batches at once, and returns their
/// keys.
pub(crate) async fn pass<F>(
    source: &Source,
    settings: &Settings,
    step: impl Fn(Vec<Document>) -> F,
) -> Result<SourceKeys>
where
    F: Future<Output = Result<()>>,
{
    let source_keys = Arc::new(Mutex::new(SourceKeys::default()));
    let checked = {
        let source_keys = Arc::clone(&source_keys);
        move |documents: Vec<Document>| {
            let added = source_keys.lock().add(&documents);
            async move { added.map(|()| documents) }
        }
    };
    source
        .batches(settings.batch)
        .and_then(checked)
        .map_ok(step)
        .try_buffer_unordered(settings.in_flight.max(1))
        .try_collect::<Vec<()>>()
        .await?;
    Ok(std::mem::take(&mut *source_keys.lock()))
}

/// One collection that a run writes to.
pub(crate) struct Work<'a> {
    store: &'a dyn VectorStore,
    encoder: &'a Encoder,
    mark: &'a Mark,
    chunking: Chunking,
    limiter: &'a RateLimiter,
    writes: Semaphore,
    counts: Mutex<Counts>,
    watch: &'a (dyn Fn(&Counts) + Send + Sync),
    begun: Instant,
}

impl<'a> Work<'a> {
    /// # Errors
    /// If a newer version wrote the mark.
    pub(crate) fn new(
        store: &'a dyn VectorStore,
        encoder: &'a Encoder,
        mark: &'a Mark,
        limiter: &'a RateLimiter,
        watch: &'a (dyn Fn(&Counts) + Send + Sync),
    ) -> Result<Self> {
        Ok(Self {
            store,
            encoder,
            mark,
            chunking: mark.chunking()?,
            limiter,
            writes: Semaphore::new(WRITES),
            counts: Mutex::default(),
            watch,
            begun: Instant::now(),
        })
    }

    /// Rows written so far.
    pub(crate) fn written(&self) -> u64 {
        self.counts.lock().written
    }

    /// Brings the rows of these documents up to date.
    pub(crate) async fn batch(&self, documents: Vec<Document>) -> Result<()> {
        let count = documents.len() as u64;
        let difference = difference(Some(self.store), self.encoder, self.mark, self.chunking, documents).await?;
        let Difference {
            mut rows,
            texts,
            mut gone,
            ..
        } = difference;
        let replaced = gone.len() as u64;
        let mut failed = BTreeMap::new();
        let (mut partial, mut unknown) = (0, 0);
        let (mut truncated, mut usage) = (0, Usage::default());
        if !rows.is_empty() {
            let turn = self.limiter.turn_of_batch(rows.len() as u64).await;
            turn.map_err(|error| IndexError::Unavailable {
                doing: "waiting for a turn under --rows-per-second".to_owned(),
                message: error.to_string(),
            })?;
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let encoded = self.encoder.encode(&texts).await?;
            let vectors = encoded.vectors.into_iter().zip(encoded.additional);
            for ((row, (vector, additional)), lacks) in rows.iter_mut().zip(vectors).zip(encoded.partial) {
                row.vector = vector;
                row.additional = additional;
                if lacks {
                    row.digest = digest::partial(&row.digest);
                    partial += 1;
                }
            }
            (truncated, usage) = (encoded.truncated, encoded.usage);
            let by_document = encoded.failed.into_iter();
            failed = by_document
                .map(|(row, reason)| (rows[row].document.clone(), reason))
                .collect();
            let fails = |document: &String| failed.contains_key(document);
            gone.extend(
                rows.iter()
                    .filter(|row| fails(&row.document))
                    .map(|row| row.key.clone()),
            );
            let unchanged = difference.unchanged.iter().map(|(row, _)| row);
            gone.extend(unchanged.filter(|row| fails(&row.document)).map(|row| row.key.clone()));
            rows.retain(|row| !fails(&row.document));
            // A vector of length 0 is equally near to every query.
            let (known, zero): (Vec<Row>, Vec<Row>) = rows
                .into_iter()
                .partition(|row| row.vector.iter().any(|value| *value != 0.0));
            unknown = zero.len() as u64;
            rows = known;
            gone.extend(zero.into_iter().map(|row| row.key));
        }
        if !rows.is_empty() || !gone.is_empty() {
            // The semaphore is never closed.
            let _turn = self.writes.acquire().await.ok();
            self.store.write(&rows, &gone).await?;
        }
        let mut counts = self.counts.lock();
        counts.documents += count;
        counts.empty += difference.empty;
        counts.unchanged += difference.unchanged.len() as u64;
        counts.written += rows.len() as u64;
        counts.partial += partial;
        counts.truncated += truncated;
        counts.unknown += unknown;
        counts.replaced += replaced;
        isomer_usage::sum::add(&mut counts.usage, &usage);
        let failed = counts.fail(failed);
        (self.watch)(&counts);
        failed
    }

    /// Work after the last batch: deletions, making rows visible, and the index.
    pub(crate) async fn close(&self, source_keys: &SourceKeys, settings: &Settings) -> Result<Outcome> {
        if let Some(most) = settings.delete {
            self.delete(source_keys, most).await?;
        }
        self.store.settle().await?;
        let load = self.begun.elapsed();
        let mut index = None;
        if settings.build_index {
            let begun = Instant::now();
            index = self.store.build_index(self.mark).await?.then(|| begun.elapsed());
        }
        Ok(Outcome {
            counts: self.counts.lock().clone(),
            mark: self.mark.clone(),
            load,
            index,
        })
    }

    /// Removes the rows of documents that the source no longer has.
    async fn delete(&self, source_keys: &SourceKeys, most: f64) -> Result<()> {
        self.store.settle().await?;
        let (mut rows, mut gone, mut from) = (0, Vec::new(), None);
        loop {
            let page = self.store.scan(from.as_deref()).await?;
            rows += page.rows.len();
            gone.extend(
                page.rows
                    .into_iter()
                    .filter(|row| !source_keys.has(&row.document))
                    .map(|row| row.key),
            );
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let most = (rows as f64 * most).floor() as usize;
        if gone.len() > most {
            return Err(IndexError::TooManyDeletes {
                gone: gone.len(),
                rows,
                most,
            });
        }
        for keys in gone.chunks(1_000) {
            self.store.write(&[], keys).await?;
            self.counts.lock().deleted += keys.len() as u64;
        }
        Ok(())
    }
}

/// The necessary changes for these documents. Without a store, all rows are new.
pub(crate) async fn difference(
    store: Option<&dyn VectorStore>,
    encoder: &Encoder,
    mark: &Mark,
    chunking: Chunking,
    documents: Vec<Document>,
) -> Result<Difference> {
    let keys: Vec<String> = documents.iter().map(|document| document.key.clone()).collect();
    let stored = match store {
        Some(store) => store.rows_of(&keys).await?,
        None => Vec::new(),
    };
    let mut stored: HashMap<String, StoredRow> = stored.into_iter().map(|row| (row.key.clone(), row)).collect();
    let texts: Vec<&str> = documents.iter().map(|document| document.text.as_str()).collect();
    let chunks = encoder.chunks(&texts, chunking).await?;
    let mut difference = Difference {
        rows: Vec::new(),
        texts: Vec::new(),
        gone: Vec::new(),
        unchanged: Vec::new(),
        empty: 0,
        partial: 0,
        outdated: 0,
    };
    for (document, chunks) in documents.into_iter().zip(chunks) {
        difference.empty += u64::from(chunks.is_empty());
        for (number, text) in chunks.into_iter().enumerate() {
            let key = row_key(&document.key, number, chunking);
            let digest = digest::of_row(mark, &text, &document.payload);
            let there = stored.remove(&key);
            if let Some(row) = there
                .as_ref()
                .filter(|row| row.digest == digest && row.document == document.key)
            {
                difference.unchanged.push((row.clone(), text));
                continue;
            }
            match there {
                Some(row) if row.digest == digest::partial(&digest) => difference.partial += 1,
                Some(_) => difference.outdated += 1,
                None => {}
            }
            difference.rows.push(Row {
                key,
                document: document.key.clone(),
                digest,
                text: mark.with_text.then(|| text.clone()),
                payload: document.payload.clone(),
                vector: Vec::new(),
                additional: Additional::default(),
            });
            difference.texts.push(text);
        }
    }
    difference.gone = stored.into_keys().collect();
    difference.gone.sort();
    Ok(difference)
}
