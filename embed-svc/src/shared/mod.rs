//! The second level of the vector cache: vectors in a store that machines share.
//!
//! The store contains segments of up to a thousand vectors: an index of keys, and the floats in the
//! same order. Segments have random names and are never changed. A vector may be in several
//! segments, with the same bits. A process reads all indexes of a space once, and later only new
//! ones. It fetches a segment when it needs one of its vectors.
//!
//! **For what.** Only requests of priority BATCH, which come from runs, use it: encoding a short
//! text is faster than the store. **Off the hot path.** Vectors are gathered and written in the
//! background. **A store that fails** costs time, not answers ([`SpareStore`]).
//!
//! **Bit for bit.** The name of a space's folder contains the class of arithmetic and everything in
//! the name of the disk cache's space. Vectors of a GPU are not shared: their bits differ between
//! kinds of GPU, which have no class.

mod index;
mod segment;
mod writer;

use std::{sync::Arc, time::Duration};

use isomer_blobs::{BlobStore, SpareStore};
use isomer_retention::{Digest, Kind};

use crate::cache::Key;
use index::Index;
use writer::Writer;

/// Maximum wait for one request to the store.
const PATIENCE: Duration = Duration::from_secs(10);

/// Vectors in a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedVectors {
    store: SpareStore,
    class: Arc<str>,
    writer: Writer,
}

/// The vectors of one space.
#[derive(Debug)]
pub(crate) struct SharedSpace {
    store: SpareStore,
    folder: Arc<str>,
    width: usize,
    index: tokio::sync::Mutex<Index>,
    writer: Writer,
}

impl SharedVectors {
    /// Vectors in `blobs`; `class` names the arithmetic of this process. Needs a tokio runtime for
    /// writing.
    pub fn new(blobs: BlobStore, class: &str) -> Self {
        let store = SpareStore::new(blobs, PATIENCE, crate::metric_names::STORE_FAILURES);
        Self {
            writer: Writer::start(store.clone()),
            store,
            class: class.into(),
        }
    }

    /// The vectors of a space, with the digest of the weights that compute them; `None` if the
    /// weights have none.
    pub(crate) fn space(&self, weights: &str, space: &str, width: usize) -> Option<SharedSpace> {
        let digest = Digest::parse(weights)?;
        let folder = format!("{}/{digest}/{space}", Kind::Vectors.place(&self.class, &digest));
        Some(SharedSpace {
            store: self.store.clone(),
            folder: folder.into(),
            width,
            index: tokio::sync::Mutex::default(),
            writer: self.writer.clone(),
        })
    }

    /// Writes the gathered vectors, for at most some seconds. Call it before the process ends.
    pub async fn flush(&self) {
        self.writer.flush().await;
    }
}

impl SharedSpace {
    /// The vectors found in the store, by index in `keys`.
    pub(crate) async fn get(&self, keys: &[Key]) -> Vec<Option<Vec<f32>>> {
        let found = self
            .index
            .lock()
            .await
            .get(&self.store, &self.folder, self.width, keys)
            .await;
        let count = found.iter().flatten().count();
        metrics::counter!(crate::metric_names::STORE_FOUND).increment(count as u64);
        found
    }

    /// Queues vectors for writing, except those that are not finite.
    pub(crate) fn put(&self, vectors: Vec<(Key, Vec<f32>)>) {
        let sound = |vector: &[f32]| vector.len() == self.width && vector.iter().all(|value| value.is_finite());
        let vectors = vectors.into_iter().filter(|(_, vector)| sound(vector)).collect();
        self.writer.put(&self.folder, vectors);
    }
}

#[cfg(test)]
mod tests;
