//! Counts of texts that an encoder truncated. They are stored with the scores, so that a score
//! found in the store has them too.

use std::{collections::HashSet, fs, io};

use serde::{Deserialize, Serialize};

use super::{
    measure::Scored,
    plan::{Plan, Table, Variant},
    prompting::Key,
    second_level::UnitFile,
    shared::{self, Shared},
    units::{UnitKey, UnitStore},
};
use crate::{change::essence, report::TruncationRow, truncation::CutCount};

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
    pub shared: Option<Shared>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: String,
    key: UnitKey,
    cuts: Cuts,
}

/// Information about the vectors of a data set's texts. A text is identified by its position in the
/// data set and its key.
pub(super) trait Encodings {
    /// Whether the text was truncated, if known; `None` if it has no vector.
    fn cut(&self, position: usize, key: Key) -> Option<Option<bool>>;

    /// Whether its vector has length 0; `None` if it has no vector.
    fn zero(&self, position: usize, key: Key) -> Option<bool>;

    /// BLAKE3 of its vector; `None` if it has no vector.
    fn digest(&self, position: usize, key: Key) -> Option<[u8; blake3::OUT_LEN]>;
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
    pub(super) fn of(
        plan: &Plan,
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
        let text = |key: Key| plan.corpus.get(key.1);
        let shared = (variant == Variant::Original).then(|| shared::count(keys, encodings, text));
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
    pub(super) fn unknown(table: &Table, keys: &[Key]) -> Self {
        Self::count(table, keys, |_, _| None)
    }
}

impl UnitStore {
    pub(super) fn cuts_file(&self, key: &UnitKey) -> UnitFile {
        self.aside_file("cut", &[VERSION, &key.address()])
    }

    /// Stored counts of the texts of a score. An unreadable file counts as absent.
    pub fn cuts(&self, key: &UnitKey) -> Option<Cuts> {
        let bytes = fs::read(self.cuts_file(key).path).ok()?;
        let stored: Stored = serde_json::from_slice(&bytes).ok()?;
        (stored.version == VERSION && stored.key == *key).then_some(stored.cuts)
    }

    /// Stores the counts of the texts of a score.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put_cuts(&self, key: &UnitKey, cuts: Cuts) -> io::Result<()> {
        let stored = Stored {
            version: VERSION.to_owned(),
            key: key.clone(),
            cuts,
        };
        self.write(&self.cuts_file(key), &serde_json::to_vec(&stored)?)
    }
}

/// One row per encoder, data set and variant, over all seeds. Texts that no transformation changes
/// have a separate row.
pub(super) fn rows(plan: &Plan, scored: &[Scored]) -> Vec<TruncationRow> {
    let mut rows: Vec<TruncationRow> = Vec::new();
    for one in scored {
        let (Some(encoder), Some(table)) = (plan.encoders.get(one.encoder), plan.tables.get(one.table)) else {
            continue;
        };
        let transformation = match one.variant {
            Variant::Original => None,
            Variant::Transformed { transformation, .. } => plan
                .transformations
                .get(transformation)
                .map(|planned| planned.label.clone()),
        };
        let fixed = (one.variant == Variant::Original && one.cuts.fixed.texts > 0).then_some((true, one.cuts.fixed));
        for (fixed, count) in [(false, one.cuts.varied)].into_iter().chain(fixed) {
            let (encoder, dataset) = (encoder.id.as_str(), table.dataset.name());
            let known = rows.iter_mut().find(|row| {
                row.encoder == encoder
                    && row.dataset == dataset
                    && row.transformation == transformation
                    && row.fixed == fixed
            });
            match known {
                Some(row) => row.count.extend(count),
                None => rows.push(TruncationRow {
                    encoder: encoder.to_owned(),
                    dataset: dataset.to_owned(),
                    transformation: transformation.clone(),
                    fixed,
                    count,
                }),
            }
        }
    }
    rows
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
            shared: Some(Shared { texts: 2, shared: 1 }),
        };
        store.put_cuts(&key("a"), cuts).unwrap();
        assert_eq!(store.cuts(&key("a")), Some(cuts));
        assert_eq!(store.cuts(&key("b")), None);
        // Counts are stored under a key that differs from the score's.
        assert_eq!(store.get(&key("a")), None);
    }
}
