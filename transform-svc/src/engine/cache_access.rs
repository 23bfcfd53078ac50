//! Cache access of a request, and its caller.

use std::{collections::HashSet, sync::Arc};

use isomer_retention::Hold;
use isomer_service_kit::Tenant;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::cache::{Entry, Key};

/// How a request uses the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheAccess {
    /// Cached entries are used; missing ones are generated and stored.
    ReadWrite,
    /// The caches are neither read nor written.
    Bypass,
    /// Cached entries are used; a missing one ends the text with [`GeneratorError::NotCached`].
    ///
    /// [`GeneratorError::NotCached`]: crate::generator::GeneratorError::NotCached
    ReadOnly,
}

impl CacheAccess {
    /// The access mode of a request, which may bypass the caches.
    pub(crate) fn bypassing(bypass: bool) -> Self {
        if bypass { Self::Bypass } else { Self::ReadWrite }
    }
}

/// The caller of a request, taken from its metadata.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The dispatch that the request belongs to.
    pub(crate) dispatch: Option<Dispatch>,
    /// The holder that relies on the entries which the request finds or creates in the shared
    /// cache.
    pub(crate) hold: Option<Hold>,
    /// The tenant's part of the cache keys. Entries with it are visible to this tenant only.
    scope: Option<Arc<str>>,
}

impl Caller {
    pub(crate) fn new(tenant: &Tenant, dispatch: Option<Dispatch>, hold: Option<Hold>) -> Self {
        Self {
            dispatch,
            hold,
            scope: tenant.scope().map(Arc::from),
        }
    }

    /// The tenant's part of the cache keys.
    pub(crate) fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }
}

/// A dispatch that may have been started by another worker.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    id: Uuid,
    /// Keys that the current request has counted.
    counted: Arc<Mutex<HashSet<Key>>>,
}

impl Dispatch {
    pub(crate) fn new(id: Uuid) -> Self {
        Self {
            id,
            counted: Arc::default(),
        }
    }

    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Whether an entry was generated for this dispatch.
    pub(super) fn generated(&self, entry: &Entry) -> bool {
        let parsed = entry.dispatch.as_deref().map(Uuid::try_parse);
        parsed == Some(Ok(self.id))
    }

    /// Whether an entry was generated for this dispatch and not yet counted for it. Then the worker
    /// that generated it stopped before it responded.
    pub(super) fn owes(&self, key: Key, entry: &Entry) -> bool {
        self.generated(entry) && self.count(key)
    }

    /// Records a key as counted by the current request; false if it was counted already.
    pub(super) fn count(&self, key: Key) -> bool {
        self.counted.lock().insert(key)
    }
}
