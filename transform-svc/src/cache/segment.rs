//! The encoding of an entry in a segment: one line of JSON.

use isomer_segment_log::{Format, Framing};
use serde::{Deserialize, Serialize};

use super::{Entry, Key};

/// Segments are `segment-<uuid>.jsonl`; a line is `<checksum> <json>`.
pub(crate) const FORMAT: Format = Format {
    prefix: "segment-",
    suffix: ".jsonl",
    framing: Framing::Lines,
};

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
pub(crate) fn decode(json: &[u8]) -> Option<(Key, Entry)> {
    let line: Line<Entry> = serde_json::from_slice(json).ok()?;
    let key = hex::decode(line.key).ok()?.try_into().ok()?;
    Some((key, line.entry))
}
