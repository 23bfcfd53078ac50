//! Generations under way, so that equal ones, of one request or of several, run once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};

use crate::{
    cache::{Cache, CacheError, Entry, Key},
    generator::GeneratorError,
};

/// What an attempt brought.
#[derive(Debug, Clone)]
pub(super) struct Produced {
    pub(super) entry: Entry,
    /// Calls to the generator; 0 where it came from the cache or from another request's work.
    pub(super) calls: u32,
    /// Whether this request had it made.
    pub(super) fresh: bool,
    pub(super) waited: Duration,
}

/// Why it brought nothing.
#[derive(Debug, Clone)]
pub(super) enum ProduceError {
    Generator(GeneratorError, Duration),
    Cache(Arc<CacheError>),
}

type Work = BoxFuture<'static, Result<Produced, ProduceError>>;
type Map = HashMap<Key, (u64, WeakShared<Work>)>;

/// The map of what is under way. It holds nothing alive: when all who wait have gone, the work is dropped.
#[derive(Debug, Default)]
pub(super) struct Inflight {
    inner: Arc<Mutex<Table>>,
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

/// Takes a work out of the map when it ends or is dropped.
struct Leave {
    table: Arc<Mutex<Table>>,
    key: Key,
    number: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        if table
            .works
            .get(&self.key)
            .is_some_and(|(number, _)| *number == self.number)
        {
            table.works.remove(&self.key);
        }
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inflight {
    /// Finds a generation in the cache or under way, or has it made and written to the cache.
    pub(super) async fn produce(
        &self,
        key: Key,
        cache: &Arc<Cache>,
        make: impl FnOnce() -> Work,
    ) -> Result<Produced, ProduceError> {
        let (work, own) = match self.find(key, cache, make)? {
            Found::Cached(entry) => {
                return Ok(Produced {
                    entry,
                    calls: 0,
                    fresh: false,
                    waited: Duration::ZERO,
                });
            }
            Found::Work { work, own } => (work, own),
        };
        let produced = work.await;
        if own {
            return produced;
        }
        // Someone else's work: it is counted there.
        produced.map(|produced| Produced {
            calls: 0,
            fresh: false,
            waited: Duration::ZERO,
            ..produced
        })
    }

    fn find(&self, key: Key, cache: &Arc<Cache>, make: impl FnOnce() -> Work) -> Result<Found, ProduceError> {
        let mut table = lock(&self.inner);
        if let Some(work) = table.works.get(&key).and_then(|(_, weak)| weak.upgrade()) {
            return Ok(Found::Work { work, own: false });
        }
        // Under the lock: works leave the map only after their entry is written, so that nothing falls between.
        if let Some(entry) = cache.get(&key).map_err(|error| ProduceError::Cache(Arc::new(error)))? {
            return Ok(Found::Cached(entry));
        }
        table.next += 1;
        let number = table.next;
        let leave = Leave {
            table: Arc::clone(&self.inner),
            key,
            number,
        };
        let (make, cache) = (make(), Arc::clone(cache));
        let work: Work = Box::pin(async move {
            let _leave = leave;
            let produced = make.await?;
            cache
                .put(key, &produced.entry)
                .map_err(|error| ProduceError::Cache(Arc::new(error)))?;
            Ok(produced)
        });
        let work = work.shared();
        if let Some(weak) = work.downgrade() {
            table.works.insert(key, (number, weak));
        }
        Ok(Found::Work { work, own: true })
    }
}

enum Found {
    Cached(Entry),
    Work { work: Shared<Work>, own: bool },
}
