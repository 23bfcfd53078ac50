//! A folder of Parquet files.
//!
//! Files are numbered and never changed while a run writes. Rows are written to new files, and if a
//! key is in two files, the later one is valid. At the end of a run, obsolete rows are removed file
//! by file, and each file is replaced as a whole. So a run that was killed loses at most its
//! unwritten rows, and the next one resumes. Keys and digests of all rows are in memory during a
//! run (some 200 bytes per row), and a search reads all vectors.

mod file;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use isomer_scoring::metric::similarity;
use tokio::sync::Mutex;

use super::{Hit, Page, Row, StoredRow, StoredVector, VectorStore};
use crate::{
    encode::Additional,
    error::{IndexError, Result},
    mark::Mark,
};

/// Number of rows that are collected before a file is written, and maximum bytes of their vectors.
const FILE_ROWS: usize = 20_000;
const FILE_BYTES: usize = 64 << 20;
/// File with the mark of a collection that may have no rows.
const MARK_FILE: &str = "isomer-index.json";
const LOCK_FILE: &str = ".isomer-index.lock";
/// How often a lock that another run holds is requested, and the pause in between.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    name: String,
    file_rows: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The content of the files; read when it is first needed.
    known: Option<StoredRows>,
    waiting: Vec<Row>,
    waiting_bytes: usize,
    /// The vectors of the most recently read file.
    read: Option<(u32, Vec<Row>)>,
    /// All documents with their vectors, for searches.
    all: Option<Arc<Vec<(String, Vec<f32>)>>>,
    lock: Option<File>,
}

#[derive(Debug, Default)]
struct StoredRows {
    rows: HashMap<String, Entry>,
    /// Keys by document.
    documents: HashMap<String, Vec<String>>,
    /// Numbers of the files, and whether a file contains obsolete rows.
    files: BTreeMap<u32, bool>,
}

#[derive(Debug)]
struct Entry {
    digest: String,
    document: String,
    /// The file that contains it; `None` while it waits to be written.
    file: Option<u32>,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            name: path.display().to_string(),
            path,
            file_rows: FILE_ROWS,
            state: Arc::default(),
        }
    }

    /// Runs file work on a thread that may block.
    async fn on_disk<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Disk, &mut State) -> Result<T, parquet::errors::ParquetError> + Send + 'static,
    ) -> Result<T> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        let disk = Disk {
            path: self.path.clone(),
            file_rows: self.file_rows,
        };
        let done = tokio::task::spawn_blocking(move || work(&disk, &mut state)).await;
        let failed = |message: String| IndexError::Refused {
            doing: format!("{doing} {}", self.name),
            message,
        };
        done.map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))
    }

    fn read_mark(&self) -> Result<Option<Mark>> {
        match fs::read_to_string(self.path.join(MARK_FILE)) {
            Ok(text) => Mark::from_text(&self.name, &text).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unusable("reading", &error)),
        }
    }

    fn unusable(&self, doing: &str, error: &std::io::Error) -> IndexError {
        IndexError::Refused {
            doing: format!("{doing} {}", self.name),
            message: format!("{error}; give a folder that can be written"),
        }
    }

    async fn make(&self, mark: &Mark) -> Result<()> {
        let unusable = |error: std::io::Error| self.unusable("creating", &error);
        fs::create_dir_all(&self.path).map_err(unusable)?;
        let lock = File::create(self.path.join(LOCK_FILE)).map_err(unusable)?;
        // A write of a run that has just ended is completed.
        for waited in 0.. {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if waited < LOCK_TRIES => tokio::time::sleep(LOCK_PAUSE).await,
                Err(TryLockError::WouldBlock) => {
                    return Err(IndexError::Refused {
                        doing: format!("writing to {}", self.name),
                        message: "another run writes to this folder; wait until it ends".to_owned(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
            }
        }
        self.state.lock().await.lock = Some(lock);
        file::remove_half_written(&self.path).map_err(unusable)?;
        if self.path.join(MARK_FILE).exists() {
            return Ok(());
        }
        let has_files = !numbers(&self.path).map_err(unusable)?.is_empty();
        if has_files {
            return Err(IndexError::Foreign {
                collection: self.name.clone(),
                message: format!("it has Parquet files and no {MARK_FILE}"),
            });
        }
        let file = tempfile::NamedTempFile::new_in(&self.path).map_err(unusable)?;
        fs::write(file.path(), mark.to_text()).map_err(unusable)?;
        file.as_file().sync_all().map_err(unusable)?;
        file.persist(self.path.join(MARK_FILE))
            .map_err(|error| unusable(error.error))?;
        Ok(())
    }
}

/// Numbers of the files of rows, in order.
fn numbers(folder: &Path) -> std::io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let number = name
            .strip_prefix("rows-")
            .and_then(|name| name.strip_suffix(".parquet"));
        match number.and_then(|number| number.parse().ok()) {
            Some(number) => found.push(number),
            None if name.ends_with(".parquet") => {
                return Err(std::io::Error::other(format!(
                    "{name} is not a file of ours, which are rows-NUMBER.parquet"
                )));
            }
            None => {}
        }
    }
    found.sort_unstable();
    Ok(found)
}

type ParquetResult<T> = Result<T, parquet::errors::ParquetError>;

struct Disk {
    path: PathBuf,
    file_rows: usize,
}

impl Disk {
    fn file(&self, number: u32) -> PathBuf {
        self.path.join(format!("rows-{number:06}.parquet"))
    }

    fn mark_text(&self) -> ParquetResult<String> {
        Ok(fs::read_to_string(self.path.join(MARK_FILE))?)
    }

    /// The content of the files.
    fn known<'a>(&self, state: &'a mut State) -> ParquetResult<&'a mut StoredRows> {
        if state.known.is_none() {
            let mark = self.mark_text()?;
            let mut known = StoredRows::default();
            for number in numbers(&self.path)? {
                let path = self.file(number);
                if file::mark(&path)?.as_deref() != Some(mark.as_str()) {
                    let message = format!("{} has a mark that differs from that of {MARK_FILE}", path.display());
                    return Err(parquet::errors::ParquetError::General(message));
                }
                known.files.insert(number, false);
                for row in file::keys(&path)? {
                    known.put(&row.key, row.document, row.digest, Some(number));
                }
            }
            state.known = Some(known);
        }
        Ok(state.known.get_or_insert_default())
    }

    /// Writes the waiting rows into a new file.
    fn flush(&self, state: &mut State) -> ParquetResult<()> {
        if state.waiting.is_empty() {
            return Ok(());
        }
        let mark = self.mark_text()?;
        // If several rows have one key, or a row was removed in the meantime, the known state
        // decides.
        let mut rows = std::mem::take(&mut state.waiting);
        state.waiting_bytes = 0;
        let known = self.known(state)?;
        let mut seen = HashSet::new();
        rows.reverse();
        rows.retain(|row| {
            known.rows.get(&row.key).is_some_and(|entry| entry.file.is_none()) && seen.insert(row.key.clone())
        });
        rows.reverse();
        if rows.is_empty() {
            return Ok(());
        }
        let number = known.files.last_key_value().map_or(1, |(last, _)| last + 1);
        file::write(&self.file(number), &mark, &rows)?;
        known.files.insert(number, false);
        for row in &rows {
            if let Some(entry) = known.rows.get_mut(&row.key) {
                entry.file = Some(number);
            }
        }
        Ok(())
    }

    /// Removes obsolete rows from their files.
    fn clean(&self, state: &mut State) -> ParquetResult<()> {
        self.flush(state)?;
        state.read = None;
        let mark = self.mark_text()?;
        let known = self.known(state)?;
        let unclean: Vec<u32> = known
            .files
            .iter()
            .filter(|(_, unclean)| **unclean)
            .map(|(number, _)| *number)
            .collect();
        for number in unclean {
            let path = self.file(number);
            let mut rows = file::rows(&path)?;
            rows.retain(|row| known.rows.get(&row.key).is_some_and(|entry| entry.file == Some(number)));
            if rows.is_empty() {
                fs::remove_file(path)?;
                known.files.remove(&number);
            } else {
                file::write(&path, &mark, &rows)?;
                known.files.insert(number, false);
            }
        }
        Ok(())
    }

    fn put(&self, state: &mut State, rows: Vec<Row>, gone: &[String]) -> ParquetResult<()> {
        let known = self.known(state)?;
        let mut bytes = 0;
        for row in &rows {
            bytes += row.vector.len() * size_of::<f32>();
            known.put(&row.key, row.document.clone(), row.digest.clone(), None);
        }
        for key in gone {
            known.remove(key);
        }
        state.all = None;
        state.waiting.extend(rows);
        state.waiting_bytes += bytes;
        if state.waiting.len() >= self.file_rows || state.waiting_bytes >= FILE_BYTES {
            self.flush(state)?;
        }
        Ok(())
    }

    fn vectors(&self, state: &mut State, keys: &[String]) -> ParquetResult<Vec<StoredVector>> {
        self.flush(state)?;
        let mut by_file: BTreeMap<u32, HashSet<&String>> = BTreeMap::new();
        let known = self.known(state)?;
        for key in keys {
            if let Some(number) = known.rows.get(key).and_then(|entry| entry.file) {
                by_file.entry(number).or_default().insert(key);
            }
        }
        let mut found = Vec::with_capacity(keys.len());
        for (number, keys) in by_file {
            let read = match state.read.take() {
                Some((own, rows)) if own == number => (own, rows),
                _ => (number, file::rows(&self.file(number))?),
            };
            for row in read.1.iter().filter(|row| keys.contains(&row.key)) {
                found.push(StoredVector {
                    additional: Additional::default(),
                    key: row.key.clone(),
                    vector: row.vector.clone(),
                    text: row.text.clone(),
                    payload: row.payload.clone(),
                });
            }
            state.read = Some(read);
        }
        Ok(found)
    }

    fn all(&self, state: &mut State) -> ParquetResult<Arc<Vec<(String, Vec<f32>)>>> {
        if let Some(all) = &state.all {
            return Ok(Arc::clone(all));
        }
        self.flush(state)?;
        let mut all = Vec::new();
        let known = self.known(state)?;
        for number in known.files.keys() {
            let holds = |row: &Row| {
                known
                    .rows
                    .get(&row.key)
                    .is_some_and(|entry| entry.file == Some(*number))
            };
            let rows = file::rows(&self.file(*number))?.into_iter().filter(holds);
            all.extend(rows.map(|row| (row.document, row.vector)));
        }
        Ok(Arc::clone(state.all.insert(Arc::new(all))))
    }
}

impl StoredRows {
    fn put(&mut self, key: &str, document: String, digest: String, file: Option<u32>) {
        self.remove(key);
        self.documents.entry(document.clone()).or_default().push(key.to_owned());
        self.rows.insert(key.to_owned(), Entry { digest, document, file });
    }

    fn remove(&mut self, key: &str) {
        let Some(entry) = self.rows.remove(key) else { return };
        if let Some(unclean) = entry.file.and_then(|number| self.files.get_mut(&number)) {
            *unclean = true;
        }
        if let Some(keys) = self.documents.get_mut(&entry.document) {
            keys.retain(|own| own != key);
            if keys.is_empty() {
                self.documents.remove(&entry.document);
            }
        }
    }
}

/// The similarity of two vectors: higher is nearer.
fn nearness(mark: &Mark, query: &[f32], vector: &[f32]) -> f64 {
    f64::from(match mark.similarity.as_str() {
        "dot" => similarity::dot(query, vector),
        "euclidean" => -similarity::euclidean(query, vector),
        "manhattan" => -similarity::manhattan(query, vector),
        _ => similarity::cosine(query, vector),
    })
}

impl VectorStore for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn keeps_lengths(&self, _: &Mark) -> bool {
        true
    }

    fn mark(&self) -> BoxFuture<'_, Result<Option<Mark>>> {
        async { self.read_mark() }.boxed()
    }

    fn create<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<()>> {
        self.make(mark).boxed()
    }

    fn rows_of<'a>(&'a self, documents: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredRow>>> {
        let documents = documents.to_vec();
        self.on_disk("reading", move |disk, state| {
            let known = disk.known(state)?;
            let keys = documents
                .iter()
                .filter_map(|document| known.documents.get(document))
                .flatten();
            Ok(keys
                .filter_map(|key| {
                    let entry = known.rows.get(key)?;
                    Some(StoredRow {
                        key: key.clone(),
                        document: entry.document.clone(),
                        digest: entry.digest.clone(),
                    })
                })
                .collect())
        })
        .boxed()
    }

    fn write<'a>(&'a self, rows: &'a [Row], gone: &'a [String]) -> BoxFuture<'a, Result<()>> {
        let (rows, gone) = (rows.to_vec(), gone.to_vec());
        self.on_disk("writing to", move |disk, state| disk.put(state, rows, &gone))
            .boxed()
    }

    fn scan<'a>(&'a self, from: Option<&'a str>) -> BoxFuture<'a, Result<Page>> {
        let from: u32 = from.and_then(|from| from.parse().ok()).unwrap_or_default();
        self.on_disk("reading", move |disk, state| {
            disk.flush(state)?;
            // The rows in the files: a key that occurs twice is returned twice.
            let files: Vec<u32> = disk
                .known(state)?
                .files
                .range(from..)
                .map(|(number, _)| *number)
                .take(2)
                .collect();
            let rows = files
                .first()
                .map(|number| file::keys(&disk.file(*number)))
                .transpose()?;
            Ok(Page {
                rows: rows.unwrap_or_default(),
                next: files.get(1).map(u32::to_string),
            })
        })
        .boxed()
    }

    fn vectors<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredVector>>> {
        let keys = keys.to_vec();
        self.on_disk("reading", move |disk, state| disk.vectors(state, &keys))
            .boxed()
    }

    fn search<'a>(&'a self, mark: &'a Mark, vector: &'a [f32], most: usize) -> BoxFuture<'a, Result<Vec<Hit>>> {
        async move {
            let all = self.on_disk("reading", Disk::all).await?;
            let mut hits: Vec<Hit> = all
                .iter()
                .map(|(document, stored)| Hit {
                    document: document.clone(),
                    score: nearness(mark, vector, stored),
                })
                .collect();
            hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.document.cmp(&b.document)));
            hits.truncate(most);
            Ok(hits)
        }
        .boxed()
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        self.on_disk("writing to", Disk::clean).boxed()
    }

    fn build_index<'a>(&'a self, _: &'a Mark) -> BoxFuture<'a, Result<bool>> {
        async { Ok(false) }.boxed()
    }
}
