//! Gathers vectors and writes them in the background.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use isomer_blobs::SpareStore;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::segment;
use crate::cache::Key;

/// Number of vectors in a full segment.
const SEGMENT: usize = 1024;
/// How long the vectors of an incomplete segment are gathered.
const GATHER: Duration = Duration::from_secs(5);
/// Maximum number of batches that wait to be gathered. Beyond it, vectors are not written.
const WAITING: usize = 256;
/// Maximum wait for the last segments of a process.
const FLUSHING: Duration = Duration::from_secs(20);

enum Message {
    Put(Arc<str>, Vec<(Key, Vec<f32>)>),
    Flush(oneshot::Sender<()>),
}

/// Writes vectors. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    messages: mpsc::Sender<Message>,
}

/// Vectors of one space that are not written yet.
#[derive(Default)]
struct PendingVectors {
    keys: HashSet<Key>,
    vectors: Vec<(Key, Vec<f32>)>,
    due: Option<Instant>,
}

impl Writer {
    pub(super) fn start(store: SpareStore) -> Self {
        let (messages, received) = mpsc::channel(WAITING);
        tokio::spawn(write(store, received));
        Self { messages }
    }

    pub(super) fn put(&self, folder: &Arc<str>, vectors: Vec<(Key, Vec<f32>)>) {
        let count = vectors.len() as u64;
        if count > 0
            && self
                .messages
                .try_send(Message::Put(Arc::clone(folder), vectors))
                .is_err()
        {
            // The store is slower than the encoder, so other processes compute these vectors again.
            metrics::counter!(crate::metric_names::STORE_DROPPED).increment(count);
        }
    }

    pub(super) async fn flush(&self) {
        let (done, answer) = oneshot::channel();
        let flushed = async {
            if self.messages.send(Message::Flush(done)).await.is_ok() {
                // The writer ends only with the runtime.
                let _ = answer.await;
            }
        };
        if tokio::time::timeout(FLUSHING, flushed).await.is_err() {
            tracing::warn!("vectors could not be written to the store in time; others compute them again");
        }
    }
}

async fn write(store: SpareStore, mut received: mpsc::Receiver<Message>) {
    let mut all: HashMap<Arc<str>, PendingVectors> = HashMap::new();
    loop {
        let due = all.values().filter_map(|one| one.due).min();
        let wait = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let mut flushed = None;
        tokio::select! {
            message = received.recv() => match message {
                None => break,
                Some(Message::Flush(done)) => flushed = Some(done),
                Some(Message::Put(folder, vectors)) => all.entry(folder).or_default().add(vectors),
            },
            () = wait => {}
        }
        let now = Instant::now();
        for (folder, gathered) in &mut all {
            let due = flushed.is_some() || gathered.due.is_some_and(|due| due <= now);
            while gathered.vectors.len() >= SEGMENT || (due && !gathered.vectors.is_empty()) {
                gathered.write(&store, folder).await;
            }
        }
        all.retain(|_, gathered| !gathered.vectors.is_empty());
        if let Some(done) = flushed {
            // The caller may have stopped waiting.
            let _ = done.send(());
        }
    }
    for (folder, gathered) in &mut all {
        while !gathered.vectors.is_empty() {
            gathered.write(&store, folder).await;
        }
    }
}

impl PendingVectors {
    fn add(&mut self, vectors: Vec<(Key, Vec<f32>)>) {
        self.due.get_or_insert_with(|| Instant::now() + GATHER);
        for (key, vector) in vectors {
            if self.keys.insert(key) {
                self.vectors.push((key, vector));
            }
        }
    }

    async fn write(&mut self, store: &SpareStore, folder: &str) {
        let count = self.vectors.len().min(SEGMENT);
        let segment: Vec<(Key, Vec<f32>)> = self.vectors.drain(..count).collect();
        for (key, _) in &segment {
            self.keys.remove(key);
        }
        self.due = (!self.vectors.is_empty()).then(|| Instant::now() + GATHER);
        let written = store.attempt(segment::write(store.blobs(), folder, &segment)).await;
        if written.is_none() {
            metrics::counter!(crate::metric_names::STORE_DROPPED).increment(segment.len() as u64);
        }
    }
}
