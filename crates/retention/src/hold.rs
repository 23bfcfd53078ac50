//! References of holders, written in groups.
//!
//! Callers of one holder that wait at the same time share one segment, and one check of the
//! announcements (group commit). Small segments are repeated in larger ones, and a sweep removes
//! the small ones later. Memory is bounded: a holder's digests are dropped once they are written.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use isomer_blobs::BlobStore;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use uuid::Uuid;

use crate::{
    HoldError, RetentionError,
    announcement::Announcements,
    digest::Digest,
    holder::{ALIVE, Holder, RUNS},
    segment::Segment,
};

/// Approximate maximum number of digests in one segment.
const SEGMENT: usize = 4096;
/// Number of small segments that are repeated in one.
const SMALL: usize = 64;
/// How long digests without a waiting caller are gathered.
const GATHER: Duration = Duration::from_millis(250);
/// Maximum number of digests without a waiting caller that the store has not accepted.
const UNWRITTEN: usize = 1 << 16;
/// How often the process of a run writes a sign of life.
const BEAT: Duration = Duration::from_secs(6 * 3600);

/// Writes the references of all holders of this process to a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Holds {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    blobs: BlobStore,
    announcements: Announcements,
    writers: Mutex<HashMap<Holder, mpsc::WeakUnboundedSender<HoldRequest>>>,
}

/// Digests to write.
#[derive(Debug)]
struct HoldRequest {
    digests: Vec<Digest>,
    /// `None` if no caller waits.
    done: Option<oneshot::Sender<Result<(), HoldError>>>,
}

/// The references of one holder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hold {
    request: mpsc::UnboundedSender<HoldRequest>,
}

impl Holds {
    /// References in this store.
    pub fn new(blobs: BlobStore) -> Self {
        Self {
            inner: Arc::new(Inner {
                blobs,
                announcements: Announcements::default(),
                writers: Mutex::default(),
            }),
        }
    }

    pub fn blobs(&self) -> &BlobStore {
        &self.inner.blobs
    }

    /// The references of a holder. Needs a tokio runtime, which writes them.
    pub fn of(&self, holder: &Holder) -> Hold {
        let mut writers = self.inner.writers.lock();
        if let Some(request) = writers.get(holder).and_then(mpsc::WeakUnboundedSender::upgrade) {
            return Hold { request };
        }
        writers.retain(|_, writer| writer.strong_count() > 0);
        let (request, receiver) = mpsc::unbounded_channel();
        writers.insert(holder.clone(), request.downgrade());
        let writer = Writer {
            inner: Arc::clone(&self.inner),
            holder: holder.clone(),
            recent: HashSet::new(),
            tail: Vec::new(),
            small: Vec::new(),
            unwritten: Vec::new(),
        };
        tokio::spawn(writer.write(receiver));
        Hold { request }
    }
}

impl Hold {
    /// Holds digests. Once this has returned, no sweep removes their blobs until the holder is
    /// released.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn hold(&self, digests: Vec<Digest>) -> Result<(), HoldError> {
        let (done, answer) = oneshot::channel();
        let request = HoldRequest {
            digests,
            done: Some(done),
        };
        let gone = || HoldError("the process is shutting down".into());
        self.request.send(request).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Holds digests of blobs that the caller does not read from the store, for example because it
    /// has a copy. They are written within a second. If the store refuses, a warning is logged.
    pub fn hold_soon(&self, digests: Vec<Digest>) {
        // The writer ends only with the runtime.
        let _ = self.request.send(HoldRequest { digests, done: None });
    }

    /// Waits until all earlier requests have been written.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn flush(&self) -> Result<(), HoldError> {
        self.hold(Vec::new()).await
    }
}

/// Writes the references of one holder, one group after another.
struct Writer {
    inner: Arc<Inner>,
    holder: Holder,
    /// The latest digests, which need not be written again.
    recent: HashSet<Digest>,
    /// Digests of the small segments.
    tail: Vec<Digest>,
    small: Vec<String>,
    /// Digests without a waiting caller that the store did not accept.
    unwritten: Vec<Digest>,
}

impl Writer {
    async fn write(mut self, mut request: mpsc::UnboundedReceiver<HoldRequest>) {
        let mut beat = Instant::now();
        loop {
            let first = tokio::select! {
                first = request.recv() => first,
                () = tokio::time::sleep_until(beat), if matches!(self.holder, Holder::Run(_)) => {
                    self.say_alive().await;
                    beat = Instant::now() + BEAT;
                    continue;
                }
            };
            // Every handle has been dropped.
            let Some(first) = first else { break };
            let mut waited_for = first.done.is_some();
            let mut digests = first.digests.len();
            let mut group = vec![first];
            let gathered = Instant::now() + GATHER;
            while !waited_for
                && digests < SEGMENT
                && let Ok(Some(next)) = tokio::time::timeout_at(gathered, request.recv()).await
            {
                waited_for = next.done.is_some();
                digests += next.digests.len();
                group.push(next);
            }
            while digests < SEGMENT
                && let Ok(next) = request.try_recv()
            {
                digests += next.digests.len();
                group.push(next);
            }
            self.group(group).await;
        }
    }

    /// Writes a sign of life of the run to the store.
    async fn say_alive(&self) {
        let Holder::Run(id) = &self.holder else { return };
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let name = format!("{RUNS}/{id}/{ALIVE}/{}", seconds / BEAT.as_secs());
        if let Err(error) = self.inner.blobs.put_new(&name, b"").await {
            tracing::warn!(%error, run = id, "cannot record in the store that a run continues");
        }
    }

    /// Writes the digests of a group and answers its callers.
    async fn group(&mut self, group: Vec<HoldRequest>) {
        let waited_for = group.iter().any(|request| request.done.is_some());
        let mut new: Vec<Digest> = std::mem::take(&mut self.unwritten);
        new.extend(group.iter().flat_map(|request| &request.digests));
        new.retain(|digest| !self.recent.contains(digest));
        new.sort_unstable();
        new.dedup();
        let result = self.note(&new).await;
        if let Err(error) = &result {
            if !waited_for {
                tracing::warn!(%error, holder = self.holder.to_text(), "cannot note what is relied on; trying again");
            }
            let soon = group.iter().filter(|request| request.done.is_none());
            self.unwritten.extend(soon.flat_map(|request| &request.digests));
            if self.unwritten.len() > UNWRITTEN {
                let lost = self.unwritten.len() - UNWRITTEN;
                tracing::warn!(lost, holder = self.holder.to_text(), "references could not be written");
                self.unwritten.drain(..lost);
            }
        }
        let result = result.map_err(|error| HoldError(error.to_string().into()));
        for done in group.into_iter().filter_map(|request| request.done) {
            // A caller that has gone needs no answer.
            let _ = done.send(result.clone());
        }
    }

    /// Writes digests, then waits for the end of removals that name them.
    async fn note(&mut self, new: &[Digest]) -> Result<(), RetentionError> {
        if new.is_empty() {
            return Ok(());
        }
        let name = self.put(new.to_vec(), Vec::new()).await?;
        self.inner.announcements.wait_for(&self.inner.blobs, new, &name).await?;
        self.recent.extend(new);
        self.tail.extend(new);
        self.small.push(name);
        if self.small.len() >= SMALL || self.tail.len() >= SEGMENT {
            self.repeat().await;
        }
        Ok(())
    }

    /// Writes the digests of the small segments as one.
    async fn repeat(&mut self) {
        let (digests, small) = (std::mem::take(&mut self.tail), std::mem::take(&mut self.small));
        if self.recent.len() >= SEGMENT {
            self.recent.clear();
        }
        if small.len() > 1
            && let Err(error) = self.put(digests, small).await
        {
            // The small segments stay unchanged.
            tracing::debug!(%error, "cannot join small segments of references");
        }
    }

    async fn put(&self, digests: Vec<Digest>, replaces: Vec<String>) -> Result<String, RetentionError> {
        let name = format!("{}/{}", self.holder.references(), Uuid::now_v7());
        let segment = Segment { digests, replaces };
        self.inner.blobs.put_new(&name, &segment.encode()).await?;
        Ok(name)
    }
}
