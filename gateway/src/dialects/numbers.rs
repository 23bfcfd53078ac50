//! Vectors as JSON.

use bytes::Bytes;
use serde::{Serialize, Serializer};

use isomer_service_kit::vectors::floats;

/// A vector of little-endian 32-bit floats, written as a list. Each number is the shortest decimal
/// that reads back as the same bits.
#[derive(Debug, Clone)]
pub(super) struct Numbers(pub(super) Bytes);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(floats(&self.0))
    }
}
