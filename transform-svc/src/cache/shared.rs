//! The second cache level: entries in a store that several machines share.
//!
//! An entry is created before its text is used, and never overwritten. If two machines generate the
//! same text, the first write wins and both use its text. So every caller gets the same text, even
//! from a generator whose responses vary. Entries of an in-process model are separated by class of
//! arithmetic: results of two classes may differ in the last bit, and consequently in a word.

use std::{io, path::Path, sync::Arc};

use isomer_blobs::{BlobStore, Put};
use isomer_retention::{Digest, Hold, Holder, Holds, Kind};

use super::{CacheError, Entry, Key, record::Record};

/// Folder of entries that do not depend on the machine.
const ANYWHERE: &str = "any";

/// The place where a generator runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeneratorLocation {
    /// On a separate server.
    Remote,
    InProcess,
}

/// Entries in a shared store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedCache {
    blobs: BlobStore,
    holds: Holds,
    class: Arc<str>,
}

impl SharedCache {
    /// Uses the entries in the store of `holds`; `class` names the arithmetic of this process.
    pub fn new(holds: Holds, class: &str) -> Self {
        Self {
            blobs: holds.blobs().clone(),
            holds,
            class: class.into(),
        }
    }

    /// The references of a holder.
    pub(crate) fn hold(&self, holder: &Holder) -> Hold {
        self.holds.of(holder)
    }

    /// Records that a holder relies on the entry of a key, before the entry is read or written.
    ///
    /// # Errors
    /// If the store still fails after all retries.
    pub(crate) async fn rely(&self, hold: &Hold, key: &Key) -> Result<(), CacheError> {
        let held = hold.hold(vec![Digest::from(*key)]).await;
        held.map_err(|error| self.failed("cannot use the shared cache at", error))
    }

    fn name(&self, location: GeneratorLocation, key: &Key) -> String {
        let class = match location {
            GeneratorLocation::Remote => ANYWHERE,
            GeneratorLocation::InProcess => &self.class,
        };
        let digest = Digest::from(*key);
        format!("{}/{digest}", Kind::Texts.place(class, &digest))
    }

    fn failed(&self, what: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CacheError {
        CacheError {
            shared: true,
            ..CacheError::new(what, Path::new(self.blobs.url()), io::Error::other(source))
        }
    }

    /// The entry of a key.
    ///
    /// # Errors
    /// If the store still fails after all retries.
    pub async fn get(&self, location: GeneratorLocation, key: &Key) -> Result<Option<Entry>, CacheError> {
        let name = self.name(location, key);
        let failed = |error| self.failed("cannot read the shared cache at", error);
        let Some(bytes) = self.blobs.get(&name).await.map_err(failed)? else {
            return Ok(None);
        };
        let record = serde_json::from_slice::<Record>(&bytes).map_err(|error| error.to_string());
        match record.and_then(Record::verified) {
            Ok((found, entry)) if found == *key => Ok(Some(entry)),
            other => {
                let why = other.err().unwrap_or_else(|| "it is another key's".to_owned());
                tracing::warn!(
                    name,
                    why,
                    "an entry of the shared cache is not what its name says; it is removed"
                );
                self.blobs.remove(&name).await.map_err(failed)?;
                Ok(None)
            }
        }
    }

    /// Writes an entry. If the key already has an entry, returns that one.
    ///
    /// # Errors
    /// If the store still fails after all retries.
    pub async fn put_new(
        &self,
        location: GeneratorLocation,
        key: &Key,
        entry: &Entry,
    ) -> Result<Option<Entry>, CacheError> {
        let Some(record) = Record::of(key, entry.clone()) else {
            return Err(self.failed("cannot write to the shared cache at", "an entry does not make its key"));
        };
        let record = Record {
            dispatch: entry.dispatch.clone(),
            ..record
        };
        let failed = |error| self.failed("cannot write to the shared cache at", error);
        let bytes = serde_json::to_vec(&record).map_err(|error| self.failed("cannot write an entry to", error))?;
        loop {
            match self
                .blobs
                .put_new(&self.name(location, key), &bytes)
                .await
                .map_err(failed)?
            {
                Put::Created => return Ok(None),
                // A damaged entry is removed when it is read.
                Put::Exists => match self.get(location, key).await? {
                    Some(theirs) => return Ok(Some(theirs)),
                    None => continue,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_blobs::StoreConfig;

    use super::*;
    use crate::cache::{Cache, exchange::tests::filled};

    fn shared(folder: &Path, class: &str) -> SharedCache {
        let config = StoreConfig {
            url: folder.display().to_string(),
            ..StoreConfig::default()
        };
        SharedCache::new(Holds::new(BlobStore::open(&config).unwrap().unwrap()), class)
    }

    fn entries(cache: &Cache) -> Vec<(Key, Entry)> {
        let all = cache
            .keys()
            .into_iter()
            .map(|key| (key, cache.get(&key).unwrap().unwrap()));
        all.filter(|(key, entry)| entry.key().as_ref() == Some(key)).collect()
    }

    #[tokio::test]
    async fn the_first_entry_of_a_key_is_everybodys() {
        let folder = tempfile::tempdir().unwrap();
        let shared = shared(&folder.path().join("s"), "avx2");
        let all = entries(&filled(&folder.path().join("c")));
        let (key, entry) = &all[0];
        assert_eq!(shared.get(GeneratorLocation::Remote, key).await.unwrap(), None);
        assert_eq!(
            shared.put_new(GeneratorLocation::Remote, key, entry).await.unwrap(),
            None
        );
        let other = Entry {
            output: "another answer to the same question".into(),
            ..entry.clone()
        };
        assert_eq!(
            shared
                .put_new(GeneratorLocation::Remote, key, &other)
                .await
                .unwrap()
                .as_ref(),
            Some(entry)
        );
        assert_eq!(
            shared.get(GeneratorLocation::Remote, key).await.unwrap().as_ref(),
            Some(entry)
        );
        assert_eq!(shared.get(GeneratorLocation::Remote, &all[1].0).await.unwrap(), None);
    }

    #[tokio::test]
    async fn texts_of_a_model_in_the_process_are_not_those_of_another_class() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (shared(folder.path(), "avx2"), shared(folder.path(), "avx512"));
        let (key, entry) = entries(&filled(&folder.path().join("c"))).remove(0);
        one.put_new(GeneratorLocation::InProcess, &key, &entry).await.unwrap();
        assert_eq!(
            one.get(GeneratorLocation::InProcess, &key).await.unwrap().as_ref(),
            Some(&entry)
        );
        assert_eq!(other.get(GeneratorLocation::InProcess, &key).await.unwrap(), None);
        assert_eq!(one.get(GeneratorLocation::Remote, &key).await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_is_not_the_entry_that_its_name_says_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("s");
        let shared = shared(&store, "avx2");
        let all = entries(&filled(&folder.path().join("c")));
        // The entry of one key stored under another key's name, and bytes that are not an entry.
        let foreign = serde_json::to_vec(&Record::of(&all[1].0, all[1].1.clone()).unwrap()).unwrap();
        for wrong in [foreign.as_slice(), b"{}", b"\xff"] {
            let name = shared.name(GeneratorLocation::Remote, &all[0].0);
            shared.blobs.put_new(&name, wrong).await.unwrap();
            assert_eq!(shared.get(GeneratorLocation::Remote, &all[0].0).await.unwrap(), None);
            shared.blobs.put_new(&name, wrong).await.unwrap();
            assert_eq!(
                shared
                    .put_new(GeneratorLocation::Remote, &all[0].0, &all[0].1)
                    .await
                    .unwrap(),
                None
            );
            shared.blobs.remove(&name).await.unwrap();
        }
    }
}
