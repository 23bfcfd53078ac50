//! An in-memory store whose requests are interleaved at random, by a seed.

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[derive(Debug, Clone)]
pub(super) struct Jittery {
    inner: Arc<InMemory>,
    turns: Arc<Mutex<ChaCha8Rng>>,
}

impl Jittery {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            inner: Arc::default(),
            turns: Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))),
        }
    }

    pub(super) fn draw(&self, below: usize) -> usize {
        self.turns.lock().random_range(0..below)
    }

    /// Yields to other requests, or not.
    pub(super) async fn turn(&self) {
        for _ in 0..self.draw(6) {
            tokio::task::yield_now().await;
        }
    }
}

impl fmt::Display for Jittery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jittery")
    }
}

#[async_trait]
impl ObjectStore for Jittery {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.turn().await;
        let put = self.inner.put_opts(location, payload, opts).await;
        self.turn().await;
        put
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.turn().await;
        let got = self.inner.get_opts(location, options).await;
        self.turn().await;
        got
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<bytes::Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let waiting = locations.then(move |one| {
            let store = store.clone();
            async move {
                store.turn().await;
                one
            }
        });
        self.inner.delete_stream(waiting.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            store.turn().await;
            let turns = store.clone();
            store.inner.list(prefix.as_ref()).then(move |one| {
                let turns = turns.clone();
                async move {
                    turns.turn().await;
                    one
                }
            })
        };
        futures::stream::once(listed).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.turn().await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
