//! How a request uses the caches, and for whom.

use std::{collections::HashSet, sync::Arc};

use isomer_retention::Hold;
use isomer_service_kit::Tenant;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::cache::{Entry, Key};

/// How a request uses the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheAccess {
    /// What they hold is taken; what is missing is generated and kept.
    ReadWrite,
    /// Neither read nor written.
    Bypass,
    /// What they hold is taken; what is missing ends the text with [`GeneratorError::NotCached`].
    ///
    /// [`GeneratorError::NotCached`]: crate::generator::GeneratorError::NotCached
    ReadOnly,
}

impl CacheAccess {
    /// The access of a request, which may bypass the caches.
    pub(crate) fn bypassing(bypass: bool) -> Self {
        if bypass { Self::Bypass } else { Self::ReadWrite }
    }
}

/// For whom a request is, as its metadata say.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The dispatch that it belongs to.
    pub(crate) dispatch: Option<Dispatch>,
    /// What relies on the entries that the request finds or makes, in the cache that machines
    /// share.
    pub(crate) hold: Option<Hold>,
    /// Whose texts they are: its part in the keys of the caches, which hold them for this tenant
    /// alone.
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

    /// The part of the tenant in the keys of the caches.
    pub(crate) fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }
}

/// A dispatch whose worker may be another one than the worker that began it.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    id: Uuid,
    /// What the request in hand has counted.
    counted: Arc<Mutex<HashSet<Key>>>,
}

impl Dispatch {
    /// For one request.
    pub(crate) fn new(id: Uuid) -> Self {
        Self {
            id,
            counted: Arc::default(),
        }
    }

    /// Its id.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Whether an entry was generated for this dispatch.
    pub(super) fn generated(&self, entry: &Entry) -> bool {
        let parsed = entry.dispatch.as_deref().map(Uuid::try_parse);
        parsed == Some(Ok(self.id))
    }

    /// Whether an entry was generated for this dispatch and not yet counted for it. Then a worker
    /// generated it that did not come to answer.
    pub(super) fn owes(&self, key: Key, entry: &Entry) -> bool {
        self.generated(entry) && self.count(key)
    }

    /// Notes a key as counted by the request in hand; false if it was.
    pub(super) fn count(&self, key: Key) -> bool {
        self.counted.lock().insert(key)
    }
}
