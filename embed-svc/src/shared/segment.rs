//! A segment: keys in one blob, their vectors in another.

use bytes::Bytes;
use isomer_blobs::{BlobError, BlobStore};
use isomer_service_kit::vectors::floats;
use uuid::Uuid;

use crate::cache::Key;

/// File name suffix of an index.
pub(super) const KEYS: &str = ".keys";
/// File name suffix of the vectors.
const VECTORS: &str = ".vectors";

/// Writes a segment: first the vectors, then the index, so that an index never refers to missing
/// vectors.
pub(super) async fn write(blobs: &BlobStore, folder: &str, vectors: &[(Key, Vec<f32>)]) -> Result<(), BlobError> {
    let name = format!("{folder}/{}", Uuid::now_v7());
    let content: Vec<u8> = vectors
        .iter()
        .flat_map(|(_, vector)| vector)
        .flat_map(|value| value.to_le_bytes())
        .collect();
    blobs.put_new(&format!("{name}{VECTORS}"), &content).await?;
    let keys: Vec<u8> = vectors.iter().flat_map(|(key, _)| *key).collect();
    blobs.put_new(&format!("{name}{KEYS}"), &keys).await?;
    Ok(())
}

pub(super) fn keys(index: &[u8]) -> &[Key] {
    let (keys, _) = index.as_chunks();
    keys
}

/// Vectors of a segment.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    content: Bytes,
    width: usize,
}

impl Segment {
    /// Reads the vectors of a segment by the name of its index; `None` if they are missing, or are
    /// not `count` vectors.
    pub(super) async fn read(
        blobs: &BlobStore,
        index: &str,
        (count, width): (usize, usize),
    ) -> Result<Option<Self>, BlobError> {
        let name = format!("{}{VECTORS}", index.trim_end_matches(KEYS));
        let Some(content) = blobs.get(&name).await? else {
            return Ok(None);
        };
        if content.len() != count * width * size_of::<f32>() {
            tracing::warn!(
                name,
                bytes = content.len(),
                "vectors of the store do not fit their index"
            );
            return Ok(None);
        }
        Ok(Some(Self { content, width }))
    }

    /// A vector.
    pub(super) fn row(&self, row: usize) -> Option<Vec<f32>> {
        let bytes = self.width * size_of::<f32>();
        let vector = self.content.get(row * bytes..(row + 1) * bytes)?;
        Some(floats(vector).collect())
    }

    pub(super) fn bytes(&self) -> usize {
        self.content.len()
    }
}
