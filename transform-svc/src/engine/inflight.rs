//! Single-flight: equal generations in flight, from one request or several, run once.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use isomer_proto::common::v1::Usage;
use isomer_retention::{Digest, Hold, Holder};
use isomer_service_kit::priority::{Priority, Urgency};
use parking_lot::Mutex;

use super::{
    cache_access::{CacheAccess, Caller},
    task::in_own_task,
};
use crate::{
    cache::{Cache, CacheError, Entry, GeneratorLocation, Key, SharedCache},
    generator::GeneratorError,
};

#[derive(Debug, Clone)]
pub(super) struct GenerationResult {
    pub(super) entry: Entry,
    /// The calls to the generator that are counted for this request, and their tokens.
    pub(super) usage: Usage,
    /// Whether the text was generated now and is counted for this request.
    pub(super) fresh: bool,
    pub(super) waited: Duration,
}

/// The usage of the calls that generated an entry.
pub(super) fn entry_usage(entry: &Entry, calls: u32) -> Usage {
    Usage {
        tokens: entry.prompt_tokens,
        generated_tokens: entry.generated_tokens,
        tokens_estimated: entry.tokens_estimated,
        ..generator_calls(calls)
    }
}

/// The usage of calls without tokens.
pub(super) fn generator_calls(calls: u32) -> Usage {
    Usage {
        generator_calls: calls.into(),
        ..Usage::default()
    }
}

/// The reason why a generation returned no text.
#[derive(Debug, Clone)]
pub(super) enum ProduceError {
    Generator {
        error: GeneratorError,
        waited: Duration,
        /// Whether this request counts its calls.
        fresh: bool,
    },
    Cache(Arc<CacheError>),
}

pub(super) type GenerationFuture = BoxFuture<'static, Result<GenerationResult, ProduceError>>;
type Map = HashMap<Key, InflightCall>;

/// A generation in flight.
#[derive(Clone)]
struct InflightCall {
    number: u64,
    work: WeakShared<GenerationFuture>,
    /// Set by the first waiter that receives the result.
    counted: Arc<AtomicBool>,
    /// Rises when a caller with a higher priority joins.
    urgency: Urgency,
}

/// The generator, the cache access and the caller of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallContext<'a> {
    pub(super) location: GeneratorLocation,
    pub(super) access: CacheAccess,
    pub(super) caller: &'a Caller,
    pub(super) priority: Priority,
}

/// The single-flight table. It holds only weak references: a task without waiters is dropped.
#[derive(Debug, Default)]
pub(super) struct Inflight {
    inner: Arc<Mutex<Table>>,
    /// The cache shared by several machines, if any.
    shared: Option<SharedCache>,
}

#[derive(Default)]
struct Table {
    works: Map,
    next: u64,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("works", &self.works.len()).finish()
    }
}

/// Removes a task from the table when the task ends or is dropped.
struct TableEntry {
    table: Arc<Mutex<Table>>,
    key: Key,
    number: u64,
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if table
            .works
            .get(&self.key)
            .is_some_and(|call| call.number == self.number)
        {
            table.works.remove(&self.key);
        }
    }
}

impl Inflight {
    /// Adds a shared cache.
    pub(super) fn with_shared(self, shared: SharedCache) -> Self {
        Self {
            shared: Some(shared),
            ..self
        }
    }

    /// The references of a holder, if there is a shared cache.
    pub(super) fn hold(&self, holder: &Holder) -> Option<Hold> {
        self.shared.as_ref().map(|shared| shared.hold(holder))
    }

    /// Records that the caller relies on an entry of the shared cache, before the entry is looked
    /// up. An entry in this machine's own cache is not read from the shared one, so in that case no
    /// caller waits for the record.
    async fn rely(&self, key: &Key, cache: &Cache, caller: &Caller) -> Result<(), ProduceError> {
        match (&self.shared, &caller.hold) {
            (Some(_), Some(hold)) if cache.contains(key) => hold.hold_soon(vec![Digest::from(*key)]),
            (Some(shared), Some(hold)) => shared.rely(hold, key).await.map_err(cache_error)?,
            _ => {}
        }
        Ok(())
    }

    /// Finds a generation in the cache or in flight, or generates it and writes it to the cache. A
    /// caller that bypasses the cache shares no generation with others.
    pub(super) async fn produce(
        &self,
        key: Key,
        cache: &Arc<Cache>,
        context: CallContext<'_>,
        make: impl FnOnce(Urgency) -> GenerationFuture,
    ) -> Result<GenerationResult, ProduceError> {
        match context.access {
            CacheAccess::Bypass => return detached(make(Urgency::new(context.priority))).await,
            CacheAccess::ReadOnly => return self.cached(key, cache, context.location).await,
            CacheAccess::ReadWrite => {}
        }
        self.rely(&key, cache, context.caller).await?;
        let dispatch = context.caller.dispatch.as_ref();
        let (work, counted) = match self.find(key, cache, context, make)? {
            Lookup::Cached(entry) => {
                let owed = dispatch.is_some_and(|dispatch| dispatch.owes(key, &entry));
                return Ok(if owed { dispatched(*entry) } else { from_cache(*entry) });
            }
            Lookup::Work { work, counted } => (work, counted),
        };
        let first = dispatch.is_some_and(|dispatch| dispatch.count(key));
        let mut produced = work.await;
        if let (Ok(found), Some(dispatch)) = (&mut produced, dispatch)
            && (first && !found.fresh && dispatch.generated(&found.entry))
        {
            // The entry was in the shared cache.
            *found = dispatched(found.entry.clone());
        }
        // The first waiter that receives the result counts it. The caller that started the task may
        // have left by now.
        if counted.swap(true, Ordering::Relaxed) {
            without_usage(produced)
        } else {
            produced
        }
    }

    /// The cached entry, if any. It is not copied from the shared cache into this machine's cache.
    async fn cached(
        &self,
        key: Key,
        cache: &Arc<Cache>,
        location: GeneratorLocation,
    ) -> Result<GenerationResult, ProduceError> {
        let mut found = cache.get(&key).map_err(cache_error)?;
        if let (None, Some(shared)) = (&found, &self.shared) {
            found = shared.get(location, &key).await.map_err(cache_error)?;
        }
        match found {
            Some(entry) => Ok(from_cache(entry)),
            None => Err(ProduceError::Generator {
                error: GeneratorError::NotCached,
                waited: Duration::ZERO,
                fresh: false,
            }),
        }
    }

    fn find(
        &self,
        key: Key,
        cache: &Arc<Cache>,
        context: CallContext<'_>,
        make: impl FnOnce(Urgency) -> GenerationFuture,
    ) -> Result<Lookup, ProduceError> {
        // A cached entry does not need the lock of the table.
        if let Some(entry) = cache.peek(&key) {
            return Ok(Lookup::Cached(Box::new(entry)));
        }
        let mut table = self.inner.lock();
        let current = table
            .works
            .get(&key)
            .and_then(|call| Some((call.work.upgrade()?, call.clone())));
        if let Some((work, InflightCall { counted, urgency, .. })) = current {
            urgency.join(context.priority);
            return Ok(Lookup::Work { work, counted });
        }
        // This is checked under the lock. A task leaves the table only after its entry is written,
        // so the text is found either in the cache or in the table.
        if let Some(entry) = cache.get(&key).map_err(|error| ProduceError::Cache(Arc::new(error)))? {
            return Ok(Lookup::Cached(Box::new(entry)));
        }
        table.next += 1;
        let number = table.next;
        let entry = TableEntry {
            table: Arc::clone(&self.inner),
            key,
            number,
        };
        let urgency = Urgency::new(context.priority);
        let (make, cache) = (make(urgency.clone()), Arc::clone(cache));
        let is_shared = self.shared.is_some();
        let make = match &self.shared {
            Some(shared) => shared_or_generated(shared.clone(), context.location, key, make),
            None => make,
        };
        let work = detached(Box::pin(async move {
            let _entry = entry;
            let produced = make.await?;
            match cache.put(key, &produced.entry) {
                // The shared cache has the text.
                Err(error) if is_shared && error.is_disk_full() => {
                    tracing::warn!(%error, "a text is kept in the shared store alone");
                }
                kept => kept.map_err(cache_error)?,
            }
            Ok(produced)
        }))
        .shared();
        let counted = Arc::<AtomicBool>::default();
        if let Some(weak) = work.downgrade() {
            let call = InflightCall {
                number,
                work: weak,
                counted: Arc::clone(&counted),
                urgency,
            };
            table.works.insert(key, call);
        }
        Ok(Lookup::Work { work, counted })
    }
}

/// A text that another worker generated for the current dispatch. The number of its calls is
/// unknown: at least one.
fn dispatched(entry: Entry) -> GenerationResult {
    GenerationResult {
        usage: entry_usage(&entry, 1),
        fresh: true,
        ..from_cache(entry)
    }
}

/// A text that required no call now.
fn from_cache(entry: Entry) -> GenerationResult {
    GenerationResult {
        entry,
        usage: Usage::default(),
        fresh: false,
        waited: Duration::ZERO,
    }
}

fn cache_error(error: CacheError) -> ProduceError {
    ProduceError::Cache(Arc::new(error))
}

/// The text from the shared cache, or a generated one that has been written to it.
fn shared_or_generated(
    shared: SharedCache,
    location: GeneratorLocation,
    key: Key,
    make: GenerationFuture,
) -> GenerationFuture {
    Box::pin(async move {
        if let Some(entry) = shared.get(location, &key).await.map_err(cache_error)? {
            return Ok(from_cache(entry));
        }
        let produced = make.await?;
        let theirs = shared
            .put_new(location, &key, &produced.entry)
            .await
            .map_err(cache_error)?;
        Ok(match theirs {
            Some(theirs) => GenerationResult {
                entry: with_usage_of(theirs, produced.entry),
                ..produced
            },
            None => produced,
        })
    })
}

/// The entry of another process with the usage of this one, which also paid for a text.
fn with_usage_of(theirs: Entry, own: Entry) -> Entry {
    Entry {
        dispatch: own.dispatch,
        prompt_tokens: own.prompt_tokens,
        generated_tokens: own.generated_tokens,
        tokens_estimated: own.tokens_estimated,
        ..theirs
    }
}

/// Runs the work as a separate task, so that it continues and releases its permit even while none
/// of its waiters is polled.
fn detached(work: GenerationFuture) -> GenerationFuture {
    Box::pin(async move {
        in_own_task(work).await.unwrap_or_else(|| {
            Err(ProduceError::Generator {
                error: GeneratorError::Failed {
                    message: "the generation was broken off".into(),
                    calls: 0,
                },
                waited: Duration::ZERO,
                fresh: true,
            })
        })
    })
}

/// The same result without usage to count.
fn without_usage(produced: Result<GenerationResult, ProduceError>) -> Result<GenerationResult, ProduceError> {
    let waited = Duration::ZERO;
    match produced {
        Ok(GenerationResult { entry, .. }) => Ok(from_cache(entry)),
        Err(ProduceError::Generator { error, .. }) => Err(ProduceError::Generator {
            error,
            waited,
            fresh: false,
        }),
        Err(error @ ProduceError::Cache(_)) => Err(error),
    }
}

enum Lookup {
    Cached(Box<Entry>),
    Work {
        work: Shared<GenerationFuture>,
        /// Set by the first waiter that receives the result.
        counted: Arc<AtomicBool>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(output: &str, prompt_tokens: u64, cut: bool) -> Entry {
        Entry {
            output: output.into(),
            seed: 1,
            prompt_tokens,
            generated_tokens: 1,
            tokens_estimated: false,
            cut,
            fingerprint: String::new(),
            source: String::new(),
            transformation: "paraphrase".into(),
            generator: "g".into(),
            prompt: "paraphrase@1".into(),
            language: String::new(),
            made: None,
            dispatch: None,
        }
    }

    #[test]
    fn a_text_of_another_process_is_cut_if_that_one_is() {
        for cut in [true, false] {
            let adopted = with_usage_of(entry("theirs", 3, cut), entry("own", 5, !cut));
            assert_eq!((adopted.output.as_str(), adopted.cut), ("theirs", cut));
            assert_eq!(adopted.prompt_tokens, 5);
        }
    }
}
