//! Content addresses, and the assignment of a store's blobs to them.

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) const BYTES: usize = 32;

/// A content address: 32 bytes of BLAKE3 or SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; BYTES]);

impl Digest {
    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; BYTES];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// The first eight bytes. They represent the digest in comparisons of many digests: two with
    /// the same beginning are treated as one, and both are kept.
    pub(crate) fn short(&self) -> u64 {
        let mut short = [0; size_of::<u64>()];
        short.copy_from_slice(&self.0[..size_of::<u64>()]);
        u64::from_be_bytes(short)
    }
}

impl From<[u8; BYTES]> for Digest {
    fn from(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Kinds of blobs. Each has a separate folder in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Requests of units of work, by the address of the unit.
    Units,
    /// Inputs of several units, by digest: shards of corpora, vectors, labels.
    Inputs,
    /// Answers of units.
    Answers,
    /// Records of who has counted the usage of an answer.
    Claims,
    /// Answers with temporary failures.
    Partial,
    /// The references of a unit's execution, see [`crate::Holder::Unit`].
    Held,
    /// Generated texts, by arithmetic class and key.
    Texts,
    /// Scores and other measurements of runs, by arithmetic class and address.
    Scores,
    /// Vectors, by arithmetic class and digest of the weights that computed them.
    Vectors,
}

// The name of a kind is that of its folder.
isomer_names::names!(Kind {
    Units = "units", Inputs = "inputs", Answers = "answers", Claims = "claims", Partial = "partial",
    Held = "held", Texts = "texts", Scores = "scores", Vectors = "vectors"
});

impl Kind {
    /// Whether its folder has one folder for each arithmetic class.
    pub(crate) fn has_classes(self) -> bool {
        matches!(self, Self::Texts | Self::Scores | Self::Vectors)
    }

    /// The folder of a digest. `class` is ignored for kinds without classes.
    pub fn place(self, class: &str, digest: &Digest) -> String {
        let (folder, shard) = (self.name(), digest.shard());
        if self.has_classes() {
            format!("{folder}/{}/{shard}", class_folder(class))
        } else {
            format!("{folder}/{shard}")
        }
    }

    /// The kind and the digest of a blob; `None` for any other blob.
    pub(crate) fn of(name: &str) -> Option<(Self, Digest)> {
        let mut parts = name.split('/');
        let folder = parts.next()?;
        let kind = Self::named(folder)?;
        if kind.has_classes() {
            parts.next()?;
        }
        let (shard, named) = (parts.next()?, parts.next()?);
        // The part after the digits distinguishes the blobs of one digest.
        let digest = Digest::parse(named.get(..2 * BYTES)?)?;
        let ends = named
            .as_bytes()
            .get(2 * BYTES)
            .is_none_or(|byte| matches!(byte, b'-' | b'.'));
        (ends && digest.shard() == shard).then_some((kind, digest))
    }
}

impl Digest {
    /// One of 256 folders, so that none becomes large.
    pub(crate) fn shard(&self) -> String {
        hex::encode(&self.0[..1])
    }
}

/// An arithmetic class as a folder name.
fn class_folder(class: &str) -> String {
    class.replace([' ', '/'], "-")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_kind_is_found_again_by_its_name_and_nothing_else_is() {
        let digest = Digest::parse(&"0a1b2c3d".repeat(8)).unwrap();
        for kind in Kind::ALL {
            let place = kind.place("x86_64 avx2+fma avx2", &digest);
            for name in [
                format!("{place}/{digest}"),
                format!("{place}/{digest}-018f"),
                format!("{place}/{digest}.items"),
                format!("{place}/{digest}/deeper/018f"),
            ] {
                assert_eq!(Kind::of(&name), Some((kind, digest)), "{name}");
            }
            for name in [
                format!("{place}/{digest}0"),
                format!("{place}/018f"),
                place.replace("/0a", "/0b") + &format!("/{digest}"),
                format!("other/0a/{digest}"),
            ] {
                assert_eq!(Kind::of(&name), None, "{name}");
            }
        }
        assert_eq!(Digest::parse("zz"), None);
        assert!(digest.shard() == "0a" && digest.short() == 0x0a1b_2c3d_0a1b_2c3d);
    }
}
