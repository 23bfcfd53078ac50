//! Scores addressed by the content that they depend on: a second run computes nothing, and a run
//! that was killed resumes.

mod key;
pub(super) mod second_level;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use isomer_service_kit::Tenant;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use self::second_level::{SecondLevel, UnitFile};
pub use crate::work::ScoreRecord;
use crate::{evidence::Evidence, run::atomic_file::write_atomically, task::ResultLists};
pub(crate) use key::DriftKey;
pub use key::{UnitKey, digest_of_texts};

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

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredScore {
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

/// Drift of pairs of texts as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredDrift {
    version: String,
    vector_space: String,
    pairs: String,
    drift: Vec<Option<f32>>,
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

    /// Fetches scores, their counts and drifts that this machine lacks from the second level, if
    /// there is one.
    pub(crate) async fn fetch(&self, keys: &[&UnitKey], drifts: &[DriftKey<'_>]) {
        let Some(second) = &self.second else { return };
        let scores = keys
            .iter()
            .flat_map(|key| [self.score_file(&key.address()), self.cuts_file(key)]);
        let drifts = drifts
            .iter()
            .map(|key| self.aside_file("drift", &[DRIFT_VERSION, key.vector_space, key.pairs]));
        second.fetch(scores.chain(drifts).collect()).await;
        let mut files = Vec::new();
        for key in keys {
            let address = key.address();
            let stored = fs::read(self.path(&address)).ok();
            let Some(stored) = stored.and_then(|bytes| serde_json::from_slice::<StoredScore>(&bytes).ok()) else {
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
    pub(crate) fn drift(&self, key: DriftKey<'_>, n: usize) -> Option<Vec<Option<f32>>> {
        let DriftKey { vector_space, pairs } = key;
        let stored: StoredDrift = self.aside("drift", &[DRIFT_VERSION, vector_space, pairs])?;
        let same = stored.version == DRIFT_VERSION && stored.vector_space == vector_space && stored.pairs == pairs;
        (same && stored.drift.len() == n).then_some(stored.drift)
    }

    /// Stores the drift of pairs of texts.
    ///
    /// # Errors
    /// If the disk refuses the write.
    pub(crate) fn put_drift(&self, key: DriftKey<'_>, drift: &[Option<f32>]) -> io::Result<()> {
        let DriftKey { vector_space, pairs } = key;
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
    pub fn get(&self, key: &UnitKey) -> Option<ScoreRecord> {
        let path = self.path(&key.address());
        let bytes = fs::read(&path).ok()?;
        match serde_json::from_slice::<StoredScore>(&bytes) {
            Ok(stored) if stored.evidence && !self.beside(&key.address(), EVIDENCE).path.is_file() => None,
            // Earlier versions stored no lists, and without them two runs cannot be compared.
            Ok(stored) if key.has_lists() && !(stored.lists && self.beside(&key.address(), LISTS).path.is_file()) => {
                None
            }
            Ok(stored) if stored.key == *key && stored.version == VERSION => Some(ScoreRecord {
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
    pub fn put(&self, key: &UnitKey, score: &ScoreRecord) -> io::Result<()> {
        let address = key.address();
        let stored = StoredScore {
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
