//! Scores addressed by the content that they depend on: a second run computes nothing, and a run
//! that was killed resumes.

pub(super) mod second_level;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use isomer_service_kit::Tenant;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use self::second_level::{SecondLevel, UnitFile};
use crate::{
    evidence::Evidence,
    run::atomic_file::write_atomically,
    task::{ResultLists, Scores, TaskType},
    work::ScoreRecord,
};

/// Part of every key: increment it when a metric's definition, the set of a task's score keys or
/// the data stored with a score changes. `tests/it/score_keys.rs` contains the keys. Cached scores
/// of released versions are then not found; `tests/tests/it/released.rs` tests this. 2: evidence is
/// stored.
pub const VERSION: &str = "isomer.unit/2";
/// Data stored with a score.
const EVIDENCE: &str = "items";
const LISTS: &str = "lists";
/// Folder that contains the folders of tenants.
const TENANTS: &str = "tenants";
/// Part of every drift's key.
const DRIFT_VERSION: &str = "isomer.drift/1";

/// Everything that a score depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitKey {
    /// Digest of the vector space.
    pub vector_space: String,
    /// Digest of the dataset's content, labels included.
    pub dataset: String,
    /// Digest of the texts encoded, in the dataset's order.
    pub texts: String,
    /// Task type.
    pub task: String,
    /// Metric profile with the library versions it equals.
    pub profile: String,
}

/// A score as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    version: String,
    key: UnitKey,
    main_key: String,
    main: f64,
    all: std::collections::BTreeMap<String, f64>,
    items: u64,
    /// Whether its evidence is stored with it.
    evidence: bool,
    /// Whether its result lists are stored with it.
    #[serde(default)]
    lists: bool,
}

/// A folder of scores.
#[derive(Debug, Clone)]
pub struct UnitStore {
    root: PathBuf,
    /// The same files in a shared store, if the run has one.
    second: Option<SecondLevel>,
}

/// A score, computed now or found in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitScore {
    /// Key of the main score, for example `cosine_spearman`.
    pub main_key: String,
    /// Main score in the metric's own unit.
    pub main: f64,
    /// Every metric.
    pub all: std::collections::BTreeMap<String, f64>,
    /// Rows scored.
    pub items: u64,
    /// The item-level data behind the main score, if there is any. A score found in the store comes
    /// without it, because many scores of many items would fill the memory: see
    /// [`UnitStore::evidence`].
    pub evidence: Option<Evidence>,
    /// The result lists of retrieval; also absent from stored scores: see [`UnitStore::lists`].
    pub lists: Option<ResultLists>,
}

impl UnitScore {
    /// The score without the data stored with it.
    #[must_use]
    pub(crate) fn alone(mut self) -> Self {
        (self.evidence, self.lists) = (None, None);
        self
    }
}

impl From<ScoreRecord> for UnitScore {
    fn from(record: ScoreRecord) -> Self {
        Self {
            main_key: record.main_key,
            main: record.main,
            all: record.all,
            items: record.items,
            evidence: record.evidence,
            lists: record.lists,
        }
    }
}

impl From<Scores> for UnitScore {
    fn from(scores: Scores) -> Self {
        Self {
            main_key: scores.main_key.to_string(),
            main: scores.main,
            all: scores.all,
            items: scores.items,
            evidence: scores.evidence,
            lists: scores.lists,
        }
    }
}

impl UnitKey {
    /// The content address: BLAKE3 (hex) over every part, each prefixed with its length.
    pub fn address(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [
            VERSION,
            &self.vector_space,
            &self.dataset,
            &self.texts,
            &self.task,
            &self.profile,
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Whether result lists belong to the score.
    fn has_lists(&self) -> bool {
        self.task.split(',').next() == Some(TaskType::Retrieval.name())
    }
}

/// Drift of pairs of texts as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredDrift {
    version: String,
    vector_space: String,
    pairs: String,
    drift: Vec<Option<f32>>,
}

/// Digest of texts in order: BLAKE3 (hex), each text prefixed with its length.
pub fn digest_of_texts<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

impl UnitStore {
    /// Opens the folder, and creates it if it is missing.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        Ok(Self { root, second: None })
    }

    /// The scores of a tenant, which are in a separate folder and therefore invisible to others.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub(crate) fn for_tenant(&self, tenant: &Tenant) -> io::Result<Self> {
        let Some(scope) = tenant.scope() else {
            return Ok(self.clone());
        };
        let root = self.root.join(TENANTS).join(&scope);
        fs::create_dir_all(&root)?;
        Ok(Self { root, second: None })
    }

    /// The same with a second level.
    pub(crate) fn with_second(&self, second: SecondLevel) -> Self {
        Self {
            second: Some(second),
            ..self.clone()
        }
    }

    /// Fetches scores, their counts and drifts (vector space and pairs) that this machine lacks
    /// from the second level, if there is one.
    pub(crate) async fn fetch(&self, keys: &[UnitKey], drifts: &[(&str, &str)]) {
        let Some(second) = &self.second else { return };
        let scores = keys
            .iter()
            .flat_map(|key| [self.score_file(&key.address()), self.cuts_file(key)]);
        let drifts = drifts
            .iter()
            .map(|(space, pairs)| self.aside_file("drift", &[DRIFT_VERSION, space, pairs]));
        second.fetch(scores.chain(drifts).collect()).await;
        let mut files = Vec::new();
        for key in keys {
            let address = key.address();
            let stored = fs::read(self.path(&address)).ok();
            let Some(stored) = stored.and_then(|bytes| serde_json::from_slice::<Stored>(&bytes).ok()) else {
                continue;
            };
            files.extend(stored.evidence.then(|| self.beside(&address, EVIDENCE)));
            files.extend(stored.lists.then(|| self.beside(&address, LISTS)));
        }
        second.fetch(files).await;
    }

    /// Like [`UnitStore::fetch`], for another measurement.
    pub(crate) async fn fetch_aside(&self, kind: &'static str, parts: &[&str]) {
        if let Some(second) = &self.second {
            second.fetch(vec![self.aside_file(kind, parts)]).await;
        }
    }

    /// Waits until the second level has all files that were written here.
    pub(crate) async fn flush(&self) {
        if let Some(second) = &self.second {
            second.flush().await;
        }
    }

    /// Writes a file, and copies it to the second level.
    pub(crate) fn write(&self, file: &UnitFile, content: &[u8]) -> io::Result<()> {
        if let Some(folder) = file.path.parent() {
            fs::create_dir_all(folder)?;
        }
        write_atomically(&file.path, content)?;
        if let Some(second) = &self.second {
            second.copy(file);
        }
        Ok(())
    }

    fn path(&self, address: &str) -> PathBuf {
        // 256 subfolders, so that none of them holds too many files.
        self.root
            .join(address.get(..2).unwrap_or("00"))
            .join(format!("{address}.json"))
    }

    fn score_file(&self, address: &str) -> UnitFile {
        UnitFile {
            path: self.path(address),
            part: "score",
            address: address.to_owned(),
        }
    }

    /// A file stored with a score.
    fn beside(&self, address: &str, part: &'static str) -> UnitFile {
        UnitFile {
            path: self.path(address).with_extension(format!("{part}.json")),
            part,
            address: address.to_owned(),
        }
    }

    /// Stored drift of `n` pairs of texts, identified by their digest. An unreadable file counts as
    /// absent.
    pub fn drift(&self, vector_space: &str, pairs: &str, n: usize) -> Option<Vec<Option<f32>>> {
        let stored: StoredDrift = self.aside("drift", &[DRIFT_VERSION, vector_space, pairs])?;
        let same = stored.version == DRIFT_VERSION && stored.vector_space == vector_space && stored.pairs == pairs;
        (same && stored.drift.len() == n).then_some(stored.drift)
    }

    /// Stores the drift of pairs of texts.
    ///
    /// # Errors
    /// If the disk refuses the write.
    pub fn put_drift(&self, vector_space: &str, pairs: &str, drift: &[Option<f32>]) -> io::Result<()> {
        let stored = StoredDrift {
            version: DRIFT_VERSION.to_owned(),
            vector_space: vector_space.to_owned(),
            pairs: pairs.to_owned(),
            drift: drift.to_vec(),
        };
        self.put_aside("drift", &[DRIFT_VERSION, vector_space, pairs], &stored)
    }

    /// Another stored measurement, identified by its kind (a folder) and its inputs. An unreadable
    /// file counts as absent.
    pub fn aside<T: DeserializeOwned>(&self, kind: &'static str, parts: &[&str]) -> Option<T> {
        let bytes = fs::read(self.aside_file(kind, parts).path).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Stores another measurement; `parts` name everything that it depends on, including the
    /// version of its format.
    ///
    /// # Errors
    /// If the disk refuses the write.
    pub fn put_aside<T: Serialize>(&self, kind: &'static str, parts: &[&str], value: &T) -> io::Result<()> {
        self.write(&self.aside_file(kind, parts), &serde_json::to_vec(value)?)
    }

    pub(crate) fn aside_file(&self, kind: &'static str, parts: &[&str]) -> UnitFile {
        let address = digest_of_texts(parts.iter().copied());
        let folder = address.get(..2).unwrap_or("00").to_owned();
        UnitFile {
            path: self.root.join(kind).join(folder).join(format!("{address}.json")),
            part: kind,
            address,
        }
    }

    /// A stored score. A file that cannot be read, or that has another key, counts as absent and is
    /// computed again.
    pub fn get(&self, key: &UnitKey) -> Option<UnitScore> {
        let path = self.path(&key.address());
        let bytes = fs::read(&path).ok()?;
        match serde_json::from_slice::<Stored>(&bytes) {
            Ok(stored) if stored.evidence && !self.beside(&key.address(), EVIDENCE).path.is_file() => None,
            // Earlier versions stored no lists, and without them two runs cannot be compared.
            Ok(stored) if key.has_lists() && !(stored.lists && self.beside(&key.address(), LISTS).path.is_file()) => {
                None
            }
            Ok(stored) if stored.key == *key && stored.version == VERSION => Some(UnitScore {
                main_key: stored.main_key,
                main: stored.main,
                all: stored.all,
                items: stored.items,
                evidence: None,
                lists: None,
            }),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "stored score is unreadable; computing it again");
                None
            }
        }
    }

    /// The evidence of a stored score, by the address of its key. An unreadable file counts as
    /// absent.
    pub fn evidence(&self, address: &str) -> Option<Evidence> {
        read(&self.beside(address, EVIDENCE).path)
    }

    /// The result lists of a stored score of retrieval. An unreadable file counts as absent.
    pub fn lists(&self, address: &str) -> Option<ResultLists> {
        read(&self.beside(address, LISTS).path)
    }

    /// Stores a score together with its evidence.
    ///
    /// # Errors
    /// If the disk refuses the write.
    pub fn put(&self, key: &UnitKey, score: &UnitScore) -> io::Result<()> {
        let address = key.address();
        let stored = Stored {
            version: VERSION.to_owned(),
            key: key.clone(),
            main_key: score.main_key.clone(),
            main: score.main,
            all: score.all.clone(),
            items: score.items,
            evidence: score.evidence.is_some(),
            lists: score.lists.is_some(),
        };
        // Written first, so that a score never refers to evidence that is missing.
        if let Some(evidence) = &score.evidence {
            self.write(&self.beside(&address, EVIDENCE), &serde_json::to_vec(evidence)?)?;
        }
        if let Some(lists) = &score.lists {
            self.write(&self.beside(&address, LISTS), &serde_json::to_vec(lists)?)?;
        }
        self.write(&self.score_file(&address), &serde_json::to_vec(&stored)?)
    }
}

/// Reads data stored with a score. An unreadable file counts as absent.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = fs::read(path).ok()?;
    match serde_json::from_slice(&bytes) {
        Ok(found) => Some(found),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "what is stored of a score's items is unreadable and left out");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key(texts: &str) -> UnitKey {
        UnitKey {
            vector_space: "space".into(),
            dataset: "data".into(),
            texts: texts.into(),
            task: "sts".into(),
            profile: "mteb-v2".into(),
        }
    }

    fn score() -> UnitScore {
        UnitScore {
            main_key: "cosine_spearman".into(),
            main: 0.812_345_678_901_234_5,
            all: [("pearson".to_owned(), 0.5)].into(),
            items: 80,
            evidence: None,
            lists: None,
        }
    }

    #[test]
    fn a_score_comes_back_to_the_last_bit_and_only_for_its_own_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = UnitStore::open(folder.path()).unwrap();
        store.put(&key("a"), &score()).unwrap();
        assert_eq!(store.get(&key("a")), Some(score()));
        assert_eq!(store.get(&key("b")), None);
    }

    #[test]
    fn evidence_comes_back_by_its_address_and_a_score_that_lost_it_is_computed_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = UnitStore::open(folder.path()).unwrap();
        let evidence = Evidence::mean(&[0.25, 0.5], None);
        let with = UnitScore {
            evidence: Some(evidence.clone()),
            ..score()
        };
        store.put(&key("a"), &with).unwrap();
        assert_eq!(store.get(&key("a")), Some(score()));
        assert_eq!(store.evidence(&key("a").address()), Some(evidence));
        fs::remove_file(store.beside(&key("a").address(), EVIDENCE).path).unwrap();
        assert_eq!(store.get(&key("a")), None);
        assert_eq!(store.evidence(&key("b").address()), None);
    }

    #[test]
    fn a_score_of_retrieval_without_its_lists_is_computed_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = UnitStore::open(folder.path()).unwrap();
        let retrieval = UnitKey {
            task: "retrieval, main score recall_at_10".into(),
            ..key("a")
        };
        store.put(&retrieval, &score()).unwrap();
        assert_eq!(store.get(&retrieval), None, "as an earlier version left it");
        let lists = ResultLists {
            documents: vec![vec![3, 1]],
            similarities: vec![vec![0.123_456_79, -0.5]],
            ..ResultLists::default()
        };
        let with = UnitScore {
            lists: Some(lists.clone()),
            ..score()
        };
        store.put(&retrieval, &with).unwrap();
        assert_eq!(store.get(&retrieval), Some(score()));
        assert_eq!(store.lists(&retrieval.address()), Some(lists));
        fs::remove_file(store.beside(&retrieval.address(), LISTS).path).unwrap();
        assert_eq!(store.get(&retrieval), None);
    }

    #[test]
    fn drift_comes_back_to_the_last_bit_for_its_own_pairs_and_space() {
        let folder = tempfile::tempdir().unwrap();
        let store = UnitStore::open(folder.path()).unwrap();
        let drift = [Some(0.123_456_79f32), None, Some(0.0)];
        store.put_drift("space", "pairs", &drift).unwrap();
        assert_eq!(store.drift("space", "pairs", 3).as_deref(), Some(&drift[..]));
        assert_eq!(store.drift("space", "pairs", 2), None);
        assert_eq!(store.drift("other", "pairs", 3), None);
        assert_eq!(store.drift("space", "others", 3), None);
    }

    #[test]
    fn a_broken_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let store = UnitStore::open(folder.path()).unwrap();
        store.put(&key("a"), &score()).unwrap();
        fs::write(store.path(&key("a").address()), b"{\"version\":").unwrap();
        assert_eq!(store.get(&key("a")), None);
    }

    #[test]
    fn the_digest_tells_where_one_text_ends() {
        assert_ne!(
            digest_of_texts(["ab", "c"].into_iter()),
            digest_of_texts(["a", "bc"].into_iter())
        );
    }
}
