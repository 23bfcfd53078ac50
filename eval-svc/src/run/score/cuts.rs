//! Counts of texts that an encoder truncated. They are stored with the scores, so that a score
//! found in the store has them too.

use std::{collections::HashSet, fs, io};

use serde::{Deserialize, Serialize};

use super::shared_vectors::{self, SharedVectors};
use crate::{
    change::essence,
    run::{
        encode::vectors::Encodings,
        plan::{
            Layout, Variant,
            table::{Key, Table},
        },
        units::{UnitKey, UnitStore, second_level::UnitFile},
    },
    truncation::CutCount,
};

/// Part of every key: increment it when the stored form changes.
const VERSION: &str = "isomer.cut/1";

/// Truncated texts among the distinct texts of a data set, under one variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuts {
    /// Texts that a transformation changes.
    pub varied: CutCount,
    /// Texts that no transformation changes, for example documents.
    pub fixed: CutCount,
    /// Texts of `varied` that have letters or digits, and a vector of length 0; absent in counts of
    /// versions that did not check.
    #[serde(default)]
    pub zero: Option<u64>,
    /// Texts that have another text's vector; counted for the originals only.
    #[serde(default)]
    pub shared: Option<SharedVectors>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredCuts {
    version: String,
    key: UnitKey,
    cuts: Cuts,
}

impl Cuts {
    /// Counts each distinct text of a table once; `known` returns whether a text was truncated.
    fn count(table: &Table, keys: &[Key], known: impl Fn(usize, Key) -> Option<bool>) -> Self {
        let mut cuts = Self::default();
        let (mut varied, mut fixed) = (HashSet::new(), HashSet::new());
        for (position, (key, text)) in keys.iter().zip(table.dataset.texts()).enumerate() {
            let (seen, count) = if text.transformable {
                (&mut varied, &mut cuts.varied)
            } else {
                (&mut fixed, &mut cuts.fixed)
            };
            if seen.insert(*key) {
                count.add(known(position, *key));
            }
        }
        cuts
    }

    /// Counts for texts that all have a vector; `None` if one has no vector.
    pub(crate) fn of(
        layout: &Layout,
        table: &Table,
        variant: Variant,
        keys: &[Key],
        encodings: &impl Encodings,
    ) -> Option<Self> {
        let all = keys
            .iter()
            .enumerate()
            .all(|(position, key)| encodings.cut(position, *key).is_some());
        let cut = |position, key| encodings.cut(position, key).flatten();
        let counted = all.then(|| Self::count(table, keys, cut))?;
        let text = |key: Key| layout.corpus.get(key.1);
        let shared = (variant == Variant::Original).then(|| shared_vectors::count(keys, encodings, text));
        let texts = keys.iter().enumerate().zip(table.dataset.texts());
        let zero: HashSet<Key> = texts
            .filter(|((position, key), own)| own.transformable && encodings.zero(*position, **key) == Some(true))
            .map(|((_, key), _)| *key)
            .filter(|key| !essence(text(*key)).is_empty())
            .collect();
        Some(Self {
            shared: shared.flatten(),
            zero: Some(zero.len() as u64),
            ..counted
        })
    }

    /// Counts for texts without information about truncation.
    pub(crate) fn unknown(table: &Table, keys: &[Key]) -> Self {
        Self::count(table, keys, |_, _| None)
    }
}

impl UnitStore {
    pub(crate) fn cuts_file(&self, key: &UnitKey) -> UnitFile {
        self.aside_file("cut", &[VERSION, &key.address()])
    }

    /// Stored counts of the texts of a score. An unreadable file counts as absent.
    pub fn cuts(&self, key: &UnitKey) -> Option<Cuts> {
        let bytes = fs::read(self.cuts_file(key).path).ok()?;
        let stored: StoredCuts = serde_json::from_slice(&bytes).ok()?;
        (stored.version == VERSION && stored.key == *key).then_some(stored.cuts)
    }

    /// Stores the counts of the texts of a score.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put_cuts(&self, key: &UnitKey, cuts: Cuts) -> io::Result<()> {
        let stored = StoredCuts {
            version: VERSION.to_owned(),
            key: key.clone(),
            cuts,
        };
        self.write(&self.cuts_file(key), &serde_json::to_vec(&stored)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn counts_come_back_for_their_own_score_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = UnitStore::open(folder.path()).unwrap();
        let key = |space: &str| UnitKey {
            vector_space: space.into(),
            dataset: "data".into(),
            texts: "texts".into(),
            task: "sts".into(),
            profile: "mteb-v2".into(),
        };
        let cuts = Cuts {
            varied: [Some(true), None].into_iter().collect(),
            fixed: CutCount::default(),
            zero: Some(1),
            shared: Some(SharedVectors {
                texts: 2,
                shared: 2,
                example: Some([0, 1]),
            }),
        };
        store.put_cuts(&key("a"), cuts).unwrap();
        assert_eq!(store.cuts(&key("a")), Some(cuts));
        assert_eq!(store.cuts(&key("b")), None);
        // Counts are stored under a key that differs from the score's.
        assert_eq!(store.get(&key("a")), None);
    }
}
