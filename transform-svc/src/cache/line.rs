//! The encoding of an entry: JSON, with its key.

use serde::{Deserialize, Serialize};

use super::{Entry, Key};

#[derive(Serialize, Deserialize)]
struct Line<E> {
    key: String,
    #[serde(flatten)]
    entry: E,
}

pub(super) fn encode(key: &Key, entry: &Entry) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Line {
        key: hex::encode(key),
        entry,
    })
}

/// An entry from its JSON; `None` if the JSON is not an entry.
pub(super) fn decode(json: &[u8]) -> Option<(Key, Entry)> {
    let line: Line<Entry> = serde_json::from_slice(json).ok()?;
    let key = hex::decode(line.key).ok()?.try_into().ok()?;
    Some((key, line.entry))
}
