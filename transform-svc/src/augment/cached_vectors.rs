//! Vectors of variants, cached in memory, so that a query with cached variants sends one text to
//! the encoder instead of one per variant.
//!
//! The original is always encoded, and its response names the current vector space. A cached vector
//! is valid only in that space: after a change of weights, precision or pooling the digest differs,
//! and the variant is encoded again. Vectors of an encoder that names no digest are not cached.

use std::sync::Arc;

use isomer_proto::encoder::v1::encode_request::Prompt;
use quick_cache::{Weighter, sync::Cache};

/// Bytes of an entry in addition to its row.
const OVERHEAD: u64 = 160;
/// Assumed bytes of a vector, for estimating the number of entries.
const TYPICAL_ROW: u64 = 2048;

type Key = [u8; 32];

/// A vector and the digest of its space.
#[derive(Debug, Clone)]
struct CachedVector {
    digest: Arc<str>,
    row: Arc<[f32]>,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Key, CachedVector> for ByBytes {
    fn weight(&self, _: &Key, cached: &CachedVector) -> u64 {
        std::mem::size_of_val(&*cached.row) as u64 + OVERHEAD
    }
}

/// A cache of variants' vectors, bounded in bytes; the least useful entries are evicted first.
#[derive(Debug)]
pub(crate) struct VariantVectors(Cache<Key, CachedVector, ByBytes>);

impl VariantVectors {
    /// `None` if the bound is 0 bytes.
    pub(crate) fn up_to(bytes: u64) -> Option<Self> {
        let entries = usize::try_from(bytes / TYPICAL_ROW).unwrap_or(usize::MAX).max(16);
        (bytes > 0).then(|| Self(Cache::with_weighter(entries, bytes, ByBytes)))
    }

    pub(super) fn of(&self, what: &VectorKeyContext<'_>) -> Memory<'_> {
        let mut common = blake3::Hasher::new();
        let mut field = |tag: u8, bytes: &[u8]| {
            common.update(&[tag]);
            common.update(&(bytes.len() as u64).to_le_bytes());
            common.update(bytes);
        };
        field(0, what.address.as_bytes());
        field(1, what.encoder.as_bytes());
        match what.prompt {
            None => field(2, &[]),
            Some(Prompt::PromptName(name)) => field(3, name.as_bytes()),
            Some(Prompt::LiteralPrompt(text)) => field(4, text.as_bytes()),
        }
        // 0 is not a valid number of columns.
        field(5, &what.dimensions.unwrap_or(0).to_le_bytes());
        if let Some(scope) = what.scope {
            field(6, scope.as_bytes());
        }
        Memory {
            vectors: &self.0,
            common,
        }
    }
}

/// The parts of a vector's key besides its text and the encoder's space, including its owner.
#[derive(Debug)]
pub(super) struct VectorKeyContext<'a> {
    /// The address of the encoder service that the request names; empty for the server's default.
    pub(super) address: &'a str,
    pub(super) encoder: &'a str,
    pub(super) prompt: Option<&'a Prompt>,
    pub(super) dimensions: Option<u32>,
    /// The tenant's part of the keys.
    pub(super) scope: Option<&'a str>,
}

/// The cached vectors of one request.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    vectors: &'a Cache<Key, CachedVector, ByBytes>,
    common: blake3::Hasher,
}

impl Memory<'_> {
    fn key(&self, text: &str) -> Key {
        *self.common.clone().update(text.as_bytes()).finalize().as_bytes()
    }

    /// Whether a vector of this text is cached, in any space.
    pub(super) fn has(&self, text: &str) -> bool {
        self.vectors.get(&self.key(text)).is_some()
    }

    /// The vector of a text in the space of this digest.
    pub(super) fn get(&self, text: &str, digest: &str) -> Option<Arc<[f32]>> {
        let cached = self.vectors.get(&self.key(text))?;
        (!digest.is_empty() && *cached.digest == *digest).then_some(cached.row)
    }

    /// Stores the vector of a text in the space of this digest; it replaces a vector of another
    /// space.
    pub(super) fn keep(&self, text: &str, digest: &Arc<str>, row: &[f32]) {
        if !digest.is_empty() {
            let cached = CachedVector {
                digest: Arc::clone(digest),
                row: row.into(),
            };
            self.vectors.insert(self.key(text), cached);
        }
    }
}
