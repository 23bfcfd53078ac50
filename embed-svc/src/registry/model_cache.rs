//! A cache of values created on demand, each only once, within a bound on their bytes. The least
//! recently used value is evicted; a value in use never is.

use std::{collections::HashMap, future::Future, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::error::EmbedError;

type Cell<T> = Arc<OnceCell<Arc<T>>>;

struct Slot<T> {
    cell: Cell<T>,
    bytes: u64,
    /// The request counter at its last use.
    asked: u64,
}

struct State<T> {
    slots: HashMap<String, Slot<T>>,
    /// Bytes reserved for values that are being created.
    promised: u64,
    askings: u64,
}

/// The model cache. See the module.
pub(super) struct ModelCache<T> {
    /// Maximum number of bytes; 0: no bound.
    most: u64,
    state: Mutex<State<T>>,
}

/// Bytes reserved for a value. The reservation ends when this is dropped; by then the finished
/// value counts with its own bytes.
pub(super) struct Room<'a, T> {
    model_cache: &'a ModelCache<T>,
    bytes: u64,
}

impl<T> Drop for Room<'_, T> {
    fn drop(&mut self) {
        self.model_cache.state.lock().promised -= self.bytes;
    }
}

impl<T> ModelCache<T> {
    pub(super) fn new(most: u64) -> Self {
        Self {
            most,
            state: Mutex::new(State {
                slots: HashMap::new(),
                promised: 0,
                askings: 0,
            }),
        }
    }

    /// All values now in the cache.
    pub(super) fn all(&self) -> HashMap<String, Arc<T>> {
        let state = self.state.lock();
        let there = |(id, slot): (&String, &Slot<T>)| Some((id.clone(), slot.cell.get()?.clone()));
        state.slots.iter().filter_map(there).collect()
    }

    /// The value of this id, created now if it is missing. `make` reserves [`ModelCache::room`] in
    /// the process. Concurrent callers wait for one `make` (single-flight); after a failure the
    /// next caller tries again.
    pub(super) async fn get<'a, F>(&'a self, id: &str, make: impl FnOnce() -> F) -> Result<Arc<T>, EmbedError>
    where
        T: 'a,
        F: Future<Output = Result<(Arc<T>, Room<'a, T>), EmbedError>>,
    {
        let cell = {
            let mut state = self.state.lock();
            state.askings += 1;
            let asked = state.askings;
            let slot = state.slots.entry(id.to_owned()).or_insert_with(|| Slot {
                cell: Cell::default(),
                bytes: 0,
                asked,
            });
            slot.asked = asked;
            slot.cell.clone()
        };
        let made = async {
            let (thing, room) = make().await?;
            if let Some(slot) = self.state.lock().slots.get_mut(id) {
                slot.bytes = room.bytes;
            }
            Ok(thing)
        };
        let result = cell.get_or_try_init(|| made).await.cloned();
        if result.is_err() {
            // An id whose value could not be created leaves no entry behind.
            let mut state = self.state.lock();
            if state
                .slots
                .get(id)
                .is_some_and(|slot| !slot.cell.initialized() && Arc::strong_count(&slot.cell) <= 2)
            {
                state.slots.remove(id);
            }
        }
        result
    }

    /// Reserves bytes, and evicts values as needed.
    ///
    /// # Errors
    /// If the bytes exceed the bound, or all remaining values are in use.
    pub(super) fn room(&self, id: &str, bytes: u64) -> Result<Room<'_, T>, EmbedError> {
        let mut freed = Vec::new();
        let mut state = self.state.lock();
        if self.most > 0 {
            if bytes > self.most {
                return Err(EmbedError::TooLarge {
                    id: id.to_owned(),
                    bytes,
                    most: self.most,
                });
            }
            loop {
                let held = state.promised + state.slots.values().map(|slot| slot.bytes).sum::<u64>();
                if held + bytes <= self.most {
                    break;
                }
                let idle = |slot: &Slot<T>| {
                    Arc::strong_count(&slot.cell) == 1
                        && slot.cell.get().is_some_and(|thing| Arc::strong_count(thing) == 1)
                };
                let oldest = state
                    .slots
                    .iter()
                    .filter(|(_, slot)| idle(slot))
                    .min_by_key(|(_, slot)| slot.asked)
                    .map(|(id, _)| id.clone());
                let Some(oldest) = oldest else {
                    return Err(EmbedError::NoRoom {
                        id: id.to_owned(),
                        bytes,
                        held,
                        most: self.most,
                    });
                };
                tracing::info!(encoder = oldest, "encoder unloaded to make room");
                metrics::counter!(crate::metric_names::EVICTIONS, "encoder" => oldest.clone()).increment(1);
                freed.extend(state.slots.remove(&oldest));
            }
        }
        state.promised += bytes;
        // Evicted values are dropped after the lock is released.
        drop(state);
        drop(freed);
        Ok(Room {
            model_cache: self,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    async fn ask(model_cache: &ModelCache<u32>, id: &str, bytes: u64) -> Result<Arc<u32>, EmbedError> {
        model_cache
            .get(id, || async { Ok((Arc::new(7), model_cache.room(id, bytes)?)) })
            .await
    }

    fn there(model_cache: &ModelCache<u32>) -> Vec<String> {
        let mut ids: Vec<_> = model_cache.all().into_keys().collect();
        ids.sort();
        ids
    }

    #[tokio::test]
    async fn the_one_asked_for_longest_ago_makes_room() {
        let model_cache = ModelCache::new(100);
        for id in ["a", "b"] {
            ask(&model_cache, id, 40).await.unwrap();
        }
        ask(&model_cache, "a", 40).await.unwrap();
        ask(&model_cache, "c", 40).await.unwrap();
        assert_eq!(there(&model_cache), ["a", "c"]);
        ask(&model_cache, "d", 100).await.unwrap();
        assert_eq!(there(&model_cache), ["d"]);
    }

    #[tokio::test]
    async fn one_that_is_held_never_goes() {
        let model_cache = ModelCache::new(100);
        let held = ask(&model_cache, "a", 60).await.unwrap();
        let error = ask(&model_cache, "b", 60).await.unwrap_err();
        assert!(matches!(error, EmbedError::NoRoom { held: 60, .. }), "{error}");
        assert_eq!(there(&model_cache), ["a"], "a failed making leaves nothing behind");
        drop(held);
        ask(&model_cache, "b", 60).await.unwrap();
        assert_eq!(there(&model_cache), ["b"]);
        let error = ask(&model_cache, "c", 101).await.unwrap_err();
        assert!(matches!(error, EmbedError::TooLarge { .. }), "{error}");
        assert_eq!(there(&model_cache), ["b"], "what could never fit frees nothing");
    }

    #[tokio::test]
    async fn without_a_bound_all_stay() {
        let model_cache = ModelCache::new(0);
        for id in ["a", "b", "c"] {
            ask(&model_cache, id, u64::MAX / 4).await.unwrap();
        }
        assert_eq!(there(&model_cache).len(), 3);
    }
}
