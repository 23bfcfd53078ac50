//! Announcements of removals: the sweep writes them, and holders check for them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::TryStreamExt;
use isomer_blobs::{BlobMeta, BlobStore};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{RetentionError, digest::Digest, segment::Segment};

/// Folder of the announcements.
pub(crate) const ANNOUNCED: &str = "gc/announced";
/// Maximum age of an announcement under which a sweep still removes blobs.
pub(crate) const REMOVE_WITHIN: Duration = Duration::from_secs(15 * 60);
/// Age at which an announcement counts as abandoned. The difference covers removals that were sent
/// in time and are executed late.
pub(crate) const ABANDONED_AFTER: Duration = Duration::from_secs(30 * 60);
/// Pause between two checks of an announcement for which a holder waits.
const LOOK_AGAIN: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 500 });

/// Announces the removal of digests, and returns the name of the announcement.
pub(crate) async fn announce(blobs: &BlobStore, digests: Vec<Digest>) -> Result<String, RetentionError> {
    let name = format!("{ANNOUNCED}/{}", Uuid::now_v7());
    let segment = Segment {
        digests,
        ..Segment::default()
    };
    blobs.put_new(&name, &segment.encode()).await?;
    Ok(name)
}

/// Seconds from one time of the store to another.
pub(crate) fn age(written: i64, now: i64) -> Duration {
    Duration::from_secs(u64::try_from(now - written).unwrap_or_default())
}

/// Announcements that this process has read. They do not change.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    read: Mutex<HashMap<String, Arc<HashSet<Digest>>>>,
}

impl Announcements {
    /// Waits until no announcement names one of the digests. `reference` is a blob that the caller
    /// has just written: its time comes from the store's clock.
    pub(crate) async fn wait_for(
        &self,
        blobs: &BlobStore,
        digests: &[Digest],
        reference: &str,
    ) -> Result<(), RetentionError> {
        let begun = Instant::now();
        let mut now: Option<i64> = None;
        let mut said = false;
        loop {
            let standing = self.naming(blobs, digests).await?;
            if standing.is_empty() {
                return Ok(());
            }
            let now = match now {
                Some(now) => now,
                None => {
                    let found = blobs.find(reference).await?.map_or(i64::MAX, |meta| meta.written);
                    *now.insert(found)
                }
            };
            let waited = i64::try_from(begun.elapsed().as_secs()).unwrap_or(i64::MAX);
            let now = now.saturating_add(waited);
            if standing.iter().all(|one| age(one.written, now) > ABANDONED_AFTER) {
                return Ok(());
            }
            if !said {
                said = true;
                tracing::info!(store = %blobs.url(), "waiting for the end of a removal in the store");
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Announcements that name one of the digests.
    async fn naming(&self, blobs: &BlobStore, digests: &[Digest]) -> Result<Vec<BlobMeta>, RetentionError> {
        let listed: Vec<BlobMeta> = blobs.list(ANNOUNCED).try_collect().await?;
        self.read
            .lock()
            .retain(|name, _| listed.iter().any(|one| one.name == *name));
        let mut naming = Vec::new();
        for one in listed {
            let known = self.read.lock().get(&one.name).cloned();
            let known = match known {
                Some(known) => known,
                None => {
                    // Its removal may have ended in the meantime.
                    let Some(segment) = Segment::read(blobs, &one.name).await? else {
                        continue;
                    };
                    let all: Arc<HashSet<Digest>> = Arc::new(segment.digests.into_iter().collect());
                    self.read.lock().insert(one.name.clone(), Arc::clone(&all));
                    all
                }
            };
            if digests.iter().any(|digest| known.contains(digest)) {
                naming.push(one);
            }
        }
        Ok(naming)
    }
}
