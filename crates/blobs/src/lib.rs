//! Named blobs of bytes in a folder, S3, GCS or Azure. This crate does not interpret their content.
//!
//! **A name is written once.** [`BlobStore::put_new`] creates and never overwrites. If two writers
//! compete, the first wins and the second reads the first one's bytes. So every reader of a name
//! gets the same bytes. **Bytes are verified when they are read.** Each blob begins with a mark and
//! the BLAKE3 digest of the rest. A blob that does not match is logged and removed, and counts as
//! absent.

#[cfg(feature = "object-stores")]
mod bucket;
mod config;
mod spare;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, local::LocalFileSystem, path::Path};

use config::Location;
pub use config::StoreConfig;
use isomer_config::ConfigError;
use isomer_fault::Fault;
pub use spare::SpareStore;

/// The first bytes of every blob.
const MARK: &[u8; 8] = b"isoblob1";
/// First and longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const HEAD: usize = MARK.len() + blake3::OUT_LEN;

/// A store refused a request, or failed for longer than requests are retried.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the store {url}: {source}")]
    Store {
        url: String,
        /// The error it reported.
        source: object_store::Error,
    },
}

impl From<BlobError> for Fault {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Config(error) => error.within("store").into(),
            BlobError::Store { .. } => Self::unavailable("STORE_UNAVAILABLE", error.to_string())
                .hint("check store.url, its credentials, and that the store can be reached"),
        }
    }
}

/// The result of [`BlobStore::put_new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It was written.
    Created,
    /// The name already had a blob, which is unchanged.
    Exists,
}

/// The result of [`BlobStore::read`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobRead {
    /// The name has no blob.
    Absent,
    /// The blob does not match its digest.
    Damaged,
    Body(Bytes),
}

/// A blob of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobMeta {
    pub name: String,
    /// Its size in the store, in bytes.
    pub bytes: u64,
    /// When it was written, in seconds since 1970.
    pub written: i64,
}

/// A store of blobs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BlobStore {
    inner: Arc<dyn ObjectStore>,
    url: Arc<str>,
    /// How long a failing request is retried; zero for a folder.
    retry: Duration,
    folder: bool,
}

impl BlobStore {
    /// Opens the configured store; `None` if none is configured. A folder is created if missing. A
    /// bucket must exist; it is not accessed here.
    ///
    /// # Errors
    /// If the configuration is invalid or the folder cannot be created.
    pub fn open(config: &StoreConfig) -> Result<Option<Self>, BlobError> {
        if !config.is_set() {
            return Ok(None);
        }
        let location = config.location()?;
        let folder = matches!(location, Location::Folder(_));
        let patience = if folder { Duration::ZERO } else { config.retry() };
        let failed = |source| BlobError::Store {
            url: config.url.clone(),
            source,
        };
        let inner: Arc<dyn ObjectStore> = match location {
            Location::Folder(folder) => {
                std::fs::create_dir_all(&folder).map_err(|source| {
                    let message = format!("cannot create the folder {}: {source}", folder.display());
                    ConfigError::new("url", message, "name a folder that this process may write to")
                })?;
                let folder = LocalFileSystem::new_with_prefix(&folder).map_err(failed)?;
                Arc::new(folder.with_fsync(true))
            }
            #[cfg(feature = "object-stores")]
            Location::Bucket(vendor, url) => bucket::open(vendor, &url, config).map_err(failed)?,
            #[cfg(not(feature = "object-stores"))]
            Location::Bucket(_, url) => return Err(config::no_buckets(&url).into()),
        };
        Ok(Some(Self {
            inner,
            url: config.url.as_str().into(),
            retry: patience,
            folder,
        }))
    }

    /// A store over an existing client. Its requests are not retried here.
    pub fn over(client: Arc<dyn ObjectStore>, url: &str) -> Self {
        Self {
            inner: client,
            url: url.into(),
            retry: Duration::ZERO,
            folder: false,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is a folder. Several machines may share a folder through a network file system,
    /// which may show a new file to another machine only after some time. An object store shows it
    /// at once.
    pub fn is_folder(&self) -> bool {
        self.folder
    }

    /// Sends a request until it succeeds, fails permanently, or the retry time is over. The store's
    /// own client does not retry a request that timed out.
    async fn retried<T, F>(&self, request: impl Fn() -> F) -> Result<T, object_store::Error>
    where
        F: Future<Output = Result<T, object_store::Error>>,
    {
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match request().await {
                Err(error @ object_store::Error::Generic { .. }) if begun.elapsed() + pause < self.retry => {
                    tracing::warn!(%error, store = %self.url, "a request to the store failed; retrying");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                done => return done,
            }
        }
    }

    fn failed(&self, source: object_store::Error) -> BlobError {
        BlobError::Store {
            url: self.url.to_string(),
            source,
        }
    }

    /// The bytes of a name; `None` if it has none or they are damaged.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, BlobError> {
        match self.read(name).await? {
            BlobRead::Absent => Ok(None),
            BlobRead::Body(body) => Ok(Some(body)),
            BlobRead::Damaged => {
                tracing::warn!(name, store = %self.url, "a blob is damaged and is removed");
                self.remove(name).await?;
                Ok(None)
            }
        }
    }

    /// The bytes of a name. A damaged blob is not removed.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn read(&self, name: &str) -> Result<BlobRead, BlobError> {
        let path = Path::from(name);
        let read = self.retried(|| async { self.inner.get(&path).await?.bytes().await });
        match read.await {
            Ok(found) => Ok(checked(&found).map_or(BlobRead::Damaged, BlobRead::Body)),
            Err(object_store::Error::NotFound { .. }) => Ok(BlobRead::Absent),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Whether a name has bytes. Damaged bytes count until they are read.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn exists(&self, name: &str) -> Result<bool, BlobError> {
        Ok(self.find(name).await?.is_some())
    }

    /// Size and time of a name's blob, if it has one.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find(&self, name: &str) -> Result<Option<BlobMeta>, BlobError> {
        let path = Path::from(name);
        match self.retried(|| self.inner.head(&path)).await {
            Ok(meta) => Ok(Some(meta.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Writes the bytes of a new name. They are durable when this returns. If the answer to a first
    /// attempt is lost, the result is [`Put::Exists`] although these bytes were written.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn put_new(&self, name: &str, body: &[u8]) -> Result<Put, BlobError> {
        let mut framed = BytesMut::with_capacity(HEAD + body.len());
        framed.put_slice(MARK);
        framed.put_slice(blake3::hash(body).as_bytes());
        framed.put_slice(body);
        let (path, framed) = (Path::from(name), framed.freeze());
        let put = self.retried(|| {
            let options = PutOptions::from(PutMode::Create);
            self.inner.put_opts(&path, framed.clone().into(), options)
        });
        match put.await {
            Ok(_) => Ok(Put::Created),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Put::Exists)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Removes the bytes of a name, if it has any.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn remove(&self, name: &str) -> Result<(), BlobError> {
        let path = Path::from(name);
        match self.retried(|| self.inner.delete(&path)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Removes the bytes of many names, with as few requests as the store permits.
    ///
    /// # Errors
    /// If the store fails; some names may then have been removed.
    pub async fn remove_all(&self, names: Vec<String>) -> Result<(), BlobError> {
        let paths = stream::iter(names).map(|name| Ok(Path::from(name))).boxed();
        let mut removed = self.inner.delete_stream(paths);
        while let Some(one) = removed.next().await {
            match one {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// The names of the folders directly below a prefix, without the prefix, in order.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn folders(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        let path = Path::from(prefix);
        let listed = self.retried(|| self.inner.list_with_delimiter(Some(&path))).await;
        let listed = listed.map_err(|error| self.failed(error))?;
        let mut names: Vec<String> = listed
            .common_prefixes
            .iter()
            .filter_map(|folder| folder.filename().map(str::to_owned))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The blobs below a prefix (whole path segments), in no particular order.
    pub fn list<'a>(&'a self, prefix: &str) -> impl Stream<Item = Result<BlobMeta, BlobError>> + Send + use<'a> {
        let prefix = Path::from(prefix);
        let listed = self.inner.list(Some(&prefix));
        listed
            .map_ok(BlobMeta::from)
            .map(|one| one.map_err(|error| self.failed(error)))
    }
}

impl From<object_store::ObjectMeta> for BlobMeta {
    fn from(meta: object_store::ObjectMeta) -> Self {
        Self {
            name: meta.location.to_string(),
            bytes: meta.size,
            written: meta.last_modified.timestamp(),
        }
    }
}

/// The bytes after the header, if they match its digest.
fn checked(found: &Bytes) -> Option<Bytes> {
    let (head, body) = found.split_at_checked(HEAD)?;
    let digest = head.strip_prefix(MARK)?;
    (blake3::hash(body).as_bytes() == digest).then(|| found.slice(HEAD..))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn folder(path: &std::path::Path) -> BlobStore {
        let config = StoreConfig {
            url: path.display().to_string(),
            ..StoreConfig::default()
        };
        BlobStore::open(&config).unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_name_is_written_once_and_read_as_it_was_written() {
        let place = tempfile::tempdir().unwrap();
        let blobs = folder(place.path());
        assert_eq!(blobs.get("a/one").await.unwrap(), None);
        assert!(!blobs.exists("a/one").await.unwrap());
        assert_eq!(blobs.put_new("a/one", b"first").await.unwrap(), Put::Created);
        assert_eq!(blobs.put_new("a/one", b"second").await.unwrap(), Put::Exists);
        assert_eq!(blobs.get("a/one").await.unwrap().unwrap(), &b"first"[..]);
        assert_eq!(blobs.put_new("a/empty", b"").await.unwrap(), Put::Created);
        assert_eq!(blobs.get("a/empty").await.unwrap().unwrap(), &b""[..]);
        let names: Vec<String> = blobs.list("a").map_ok(|one| one.name).try_collect().await.unwrap();
        assert_eq!(names.len(), 2, "{names:?}");
        blobs.remove("a/one").await.unwrap();
        blobs.remove("a/one").await.unwrap();
        assert_eq!(blobs.get("a/one").await.unwrap(), None);
    }

    #[tokio::test]
    async fn of_many_writers_one_wins_and_all_read_its_bytes() {
        let place = tempfile::tempdir().unwrap();
        let blobs = folder(place.path());
        let writers = (0..16u8).map(|writer| {
            let blobs = blobs.clone();
            tokio::spawn(async move { blobs.put_new("x", &[writer; 1000]).await.unwrap() })
        });
        let kept: Vec<Put> = futures::future::try_join_all(writers).await.unwrap();
        assert_eq!(kept.iter().filter(|kept| **kept == Put::Created).count(), 1);
        let body = blobs.get("x").await.unwrap().unwrap();
        assert!(body.len() == 1000 && body.iter().all(|byte| *byte == body[0]));
    }

    #[tokio::test]
    async fn damaged_bytes_count_as_absent_and_can_be_made_again() {
        let place = tempfile::tempdir().unwrap();
        let blobs = folder(place.path());
        for damage in [
            &b""[..],
            b"isoblob1",
            b"isoblob1 but forty bytes of something else, or more",
        ] {
            blobs.put_new("x", b"body").await.unwrap();
            let file = place.path().join("x");
            let good = std::fs::read(&file).unwrap();
            std::fs::write(&file, damage).unwrap();
            assert_eq!(blobs.get("x").await.unwrap(), None);
            assert_eq!(blobs.put_new("x", b"body").await.unwrap(), Put::Created);
            assert_eq!(std::fs::read(&file).unwrap(), good);
            blobs.remove("x").await.unwrap();
        }
        // Flips one bit of the body.
        blobs.put_new("x", b"body").await.unwrap();
        let file = place.path().join("x");
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(blobs.get("x").await.unwrap(), None);
    }

    #[tokio::test]
    async fn folders_are_listed_and_many_names_are_removed_at_once() {
        let place = tempfile::tempdir().unwrap();
        let blobs = folder(place.path());
        for name in ["a/one/x", "a/one/y", "a/two/z", "b/w"] {
            blobs.put_new(name, b"body").await.unwrap();
        }
        assert_eq!(blobs.folders("a").await.unwrap(), ["one", "two"]);
        assert_eq!(blobs.folders("none").await.unwrap(), [""; 0]);
        let meta = blobs.find("a/two/z").await.unwrap().unwrap();
        assert_eq!((meta.bytes, blobs.find("a").await.unwrap()), (HEAD as u64 + 4, None));
        let names = ["a/one/x", "a/none", "a/two/z"].map(str::to_owned).to_vec();
        blobs.remove_all(names).await.unwrap();
        let left: Vec<String> = blobs.list("a").map_ok(|one| one.name).try_collect().await.unwrap();
        assert_eq!(left, ["a/one/y"]);
    }

    #[tokio::test]
    async fn a_damaged_blob_may_be_left_where_it_is() {
        let place = tempfile::tempdir().unwrap();
        let blobs = folder(place.path());
        blobs.put_new("x", b"body").await.unwrap();
        assert_eq!(
            blobs.read("x").await.unwrap(),
            BlobRead::Body(Bytes::from_static(b"body"))
        );
        std::fs::write(place.path().join("x"), b"other").unwrap();
        assert_eq!(blobs.read("x").await.unwrap(), BlobRead::Damaged);
        assert_eq!(blobs.read("x").await.unwrap(), BlobRead::Damaged);
        assert_eq!(blobs.read("y").await.unwrap(), BlobRead::Absent);
    }

    #[test]
    fn no_url_is_no_store() {
        assert!(BlobStore::open(&StoreConfig::default()).unwrap().is_none());
    }
}
