//! Units, their lanes and their content addresses.

use std::fmt;

use bytes::Bytes;
use isomer_retention::{Digest, Kind as BlobKind};
use serde::{Deserialize, Serialize};

/// Units of two versions never mix: the format of requests and answers and the last bits of a
/// vector may differ.
const VERSION: &str = concat!("isomer.unit/1 ", env!("CARGO_PKG_VERSION"));
/// Characters of a lane's digest in its name.
const LANE_DIGITS: usize = 16;

/// Kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Converting texts to other texts.
    Transform,
    /// Converting texts to vectors.
    Encode,
    /// Rating pairs of texts.
    Judge,
    /// Converting vectors to scores, and searching documents of a corpus for queries.
    Score,
}

isomer_names::names!(Kind { Transform = "transform", Encode = "encode", Judge = "judge", Score = "score" });

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The unit of scaling and limits: a kind of work on a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lane {
    /// The kind of work.
    pub kind: Kind,
    /// The resource: an encoder or a generator.
    pub of: String,
    /// The class of arithmetic, within which answers are equal bit for bit; empty if the answer
    /// does not depend on the worker.
    pub class: String,
    /// Maximum number of units that all workers execute at once; 0: no limit.
    pub max_in_flight: u32,
    /// The limit of its calls ([`crate::limits::Limits`]); empty: none. A pause of that limit
    /// pauses the lane.
    #[serde(default)]
    pub limit: String,
}

impl Lane {
    /// The resource in logs and metrics: its first word.
    pub fn resource(&self) -> &str {
        self.of.split(' ').next().unwrap_or_default()
    }

    /// Its name in the queue: the kind and a digest of the other fields. The limits are not
    /// included.
    pub fn name(&self) -> String {
        let digest = digest(&[VERSION, self.kind.name(), &self.of, &self.class]).to_hex();
        format!("{}-{}", self.kind, &digest[..LANE_DIGITS])
    }
}

/// Units of a lane for which a run waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    pub lane: Lane,
    pub units: u64,
}

/// A unit's content address: 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    digest: Digest,
    digits: String,
}

impl Address {
    pub fn parse(text: &str) -> Option<Self> {
        let lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let digest = Digest::parse(text).filter(|_| lower)?;
        Some(Self::from(digest))
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.digits
    }

    /// The address as a digest. A holder of a unit relies on everything in the store with its
    /// address.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    fn below(&self, kind: BlobKind) -> String {
        format!("{}/{}", kind.place("", &self.digest), self.digits)
    }

    /// The name of the request in the store.
    pub(crate) fn request(&self) -> String {
        self.below(BlobKind::Units)
    }

    /// The name of the answer in the store.
    pub(crate) fn answer(&self) -> String {
        self.below(BlobKind::Answers)
    }

    /// The name of the marker that records that the usage of the answer was counted.
    pub(crate) fn claim(&self) -> String {
        self.below(BlobKind::Claims)
    }

    /// A new name for an answer that is not cached.
    pub(crate) fn partial(&self) -> String {
        format!("{}-{}", self.below(BlobKind::Partial), uuid::Uuid::now_v7())
    }
}

impl From<Digest> for Address {
    fn from(digest: Digest) -> Self {
        Self {
            digest,
            digits: digest.to_string(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digits)
    }
}

#[derive(Debug, Clone)]
pub struct Unit {
    lane: Lane,
    address: Address,
    request: Bytes,
}

impl Unit {
    /// A unit. `depends` lists everything on which the answer depends besides the request, such as
    /// digests of weights and prompts. Equal requests with equal `depends` are the same unit.
    pub fn new(lane: Lane, depends: &[&str], request: Bytes) -> Self {
        let mut parts = vec![VERSION, lane.kind.name(), &lane.of, &lane.class];
        parts.extend(depends);
        let head = digest(&parts);
        let mut hasher = blake3::Hasher::new();
        hasher.update(head.as_bytes());
        hasher.update(&request);
        let address = Address::from(Digest::from(*hasher.finalize().as_bytes()));
        Self { lane, address, request }
    }

    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    pub fn request(&self) -> &Bytes {
        &self.request
    }
}

/// BLAKE3 over parts, each preceded by its length.
fn digest(parts: &[&str]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Lane {
        Lane {
            kind: Kind::Encode,
            of: "mini".into(),
            class: "avx2".into(),
            max_in_flight: 4,
            limit: String::new(),
        }
    }

    #[test]
    fn every_part_of_a_unit_counts_but_the_limit_of_its_lane() {
        let unit = |lane: Lane, depends: &[&str], request: &'static [u8]| {
            Unit::new(lane, depends, Bytes::from_static(request)).address().clone()
        };
        let first = unit(lane(), &["space"], b"texts");
        let others = [
            unit(lane(), &["space"], b"text"),
            unit(lane(), &["spac", "e"], b"texts"),
            unit(
                Lane {
                    of: "mpnet".into(),
                    ..lane()
                },
                &["space"],
                b"texts",
            ),
            unit(
                Lane {
                    class: "avx512".into(),
                    ..lane()
                },
                &["space"],
                b"texts",
            ),
            unit(
                Lane {
                    kind: Kind::Judge,
                    ..lane()
                },
                &["space"],
                b"texts",
            ),
        ];
        assert!(others.iter().all(|other| *other != first));
        assert_eq!(
            unit(
                Lane {
                    max_in_flight: 9,
                    ..lane()
                },
                &["space"],
                b"texts"
            ),
            first
        );
        assert_eq!(Address::parse(first.as_str()), Some(first));
    }

    #[test]
    fn a_lane_is_a_word_that_a_subject_can_hold() {
        let name = Lane {
            of: "openai:m@http://h/v1 * >".into(),
            ..lane()
        }
        .name();
        assert!(
            name.starts_with("encode-") && name.len() == "encode-".len() + LANE_DIGITS,
            "{name}"
        );
        assert!(
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "{name}"
        );
        assert_ne!(lane().name(), name);
    }

    #[test]
    fn what_is_not_an_address_is_not_read_as_one() {
        for text in [
            "",
            "abc",
            &"g".repeat(64),
            &"A".repeat(64),
            &"0".repeat(63),
            "../../../etc/passwd",
        ] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
