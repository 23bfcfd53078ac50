//! Generations in flight, so that equal ones, of one request or of several, run once.

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
use parking_lot::Mutex;

use super::task::in_own_task;
use crate::{
    cache::{Cache, CacheError, Entry, Key},
    generator::GeneratorError,
};

/// What an attempt brought.
#[derive(Debug, Clone)]
pub(super) struct Produced {
    pub(super) entry: Entry,
    /// Calls to the generator; 0 where it came from the cache or where another request has counted
    /// them.
    pub(super) calls: u32,
    /// Whether it was made now and is this request's to count.
    pub(super) fresh: bool,
    pub(super) waited: Duration,
}

/// Why it brought nothing.
#[derive(Debug, Clone)]
pub(super) enum ProduceError {
    Generator {
        error: GeneratorError,
        waited: Duration,
        /// Whether its calls are this request's to count.
        fresh: bool,
    },
    Cache(Arc<CacheError>),
}

pub(super) type Work = BoxFuture<'static, Result<Produced, ProduceError>>;
type Map = HashMap<Key, (u64, WeakShared<Work>, Arc<AtomicBool>)>;

/// The map of what is in flight. It holds nothing alive: when all who wait have gone, the work is
/// dropped.
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
        let mut table = self.table.lock();
        if table
            .works
            .get(&self.key)
            .is_some_and(|(number, ..)| *number == self.number)
        {
            table.works.remove(&self.key);
        }
    }
}

impl Inflight {
    /// Finds a generation in the cache or in flight, or has it made and written to the cache. Who
    /// bypasses the cache shares with nobody.
    pub(super) async fn produce(
        &self,
        key: Key,
        cache: &Arc<Cache>,
        bypass_cache: bool,
        make: impl FnOnce() -> Work,
    ) -> Result<Produced, ProduceError> {
        if bypass_cache {
            return alone(make()).await;
        }
        let (work, counted) = match self.find(key, cache, make)? {
            Found::Cached(entry) => {
                return Ok(Produced {
                    entry: *entry,
                    calls: 0,
                    fresh: false,
                    waited: Duration::ZERO,
                });
            }
            Found::Work { work, counted } => (work, counted),
        };
        let produced = work.await;
        // Of all who wait for it the first to have it counts it: whoever began it may be gone by
        // now.
        if counted.swap(true, Ordering::Relaxed) {
            counted_elsewhere(produced)
        } else {
            produced
        }
    }

    fn find(&self, key: Key, cache: &Arc<Cache>, make: impl FnOnce() -> Work) -> Result<Found, ProduceError> {
        // What is there already needs no turn at the table.
        if let Some(entry) = cache.peek(&key) {
            return Ok(Found::Cached(Box::new(entry)));
        }
        let mut table = self.inner.lock();
        let under_way = table
            .works
            .get(&key)
            .and_then(|(_, weak, counted)| Some((weak.upgrade()?, Arc::clone(counted))));
        if let Some((work, counted)) = under_way {
            return Ok(Found::Work { work, counted });
        }
        // Under the lock: works leave the map only after their entry is written, so that nothing
        // falls between.
        if let Some(entry) = cache.get(&key).map_err(|error| ProduceError::Cache(Arc::new(error)))? {
            return Ok(Found::Cached(Box::new(entry)));
        }
        table.next += 1;
        let number = table.next;
        let leave = Leave {
            table: Arc::clone(&self.inner),
            key,
            number,
        };
        let (make, cache) = (make(), Arc::clone(cache));
        let work = alone(Box::pin(async move {
            let _leave = leave;
            let produced = make.await?;
            cache
                .put(key, &produced.entry)
                .map_err(|error| ProduceError::Cache(Arc::new(error)))?;
            Ok(produced)
        }))
        .shared();
        let counted = Arc::<AtomicBool>::default();
        if let Some(weak) = work.downgrade() {
            table.works.insert(key, (number, weak, Arc::clone(&counted)));
        }
        Ok(Found::Work { work, counted })
    }
}

/// The work as a task of its own, so that it goes on, and gives its place back, also while nobody
/// who waits is polled.
fn alone(work: Work) -> Work {
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

/// The same, with nothing left to count.
fn counted_elsewhere(produced: Result<Produced, ProduceError>) -> Result<Produced, ProduceError> {
    let waited = Duration::ZERO;
    match produced {
        Ok(Produced { entry, .. }) => Ok(Produced {
            entry,
            calls: 0,
            fresh: false,
            waited,
        }),
        Err(ProduceError::Generator { error, .. }) => Err(ProduceError::Generator {
            error,
            waited,
            fresh: false,
        }),
        Err(error @ ProduceError::Cache(_)) => Err(error),
    }
}

enum Found {
    Cached(Box<Entry>),
    Work {
        work: Shared<Work>,
        /// Set by the first of those who wait for it to have it.
        counted: Arc<AtomicBool>,
    },
}
