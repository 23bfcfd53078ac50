//! Entry points for the fuzz targets of `tests/fuzz`. Not part of the crate's interface.

use std::sync::LazyLock;

use bytes::Bytes;
use prost::Message;
use prost_types::FileDescriptorSet;

use super::{coding::Coding, elements::Shapes};
use isomer_fault::Fault;

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    let set = FileDescriptorSet::decode(isomer_proto::FILE_DESCRIPTOR_SET).unwrap_or_default();
    Shapes::new(&[set])
});

/// Approximate size of a decoded message in bytes, estimated without decoding it. `None` if no
/// message has this full name.
pub fn decoded_size(message: &str, wire: &[u8], most: usize) -> Option<usize> {
    let message = SHAPES.message(&format!(".{message}"))?;
    Some(SHAPES.decoded_size(message, wire, most))
}

fn coding(zstd: bool) -> Coding {
    if zstd { Coding::Zstd } else { Coding::Gzip }
}

/// Decompresses a message of a request.
///
/// # Errors
/// The reader's errors.
pub fn unpack(zstd: bool, packed: &[u8], most: usize) -> Result<Bytes, Fault> {
    coding(zstd).unpack(packed, most, None)
}

/// Compresses a message of an answer.
///
/// # Errors
/// The writer's errors.
pub fn pack(zstd: bool, plain: &[u8]) -> std::io::Result<Vec<u8>> {
    coding(zstd).pack(plain)
}
