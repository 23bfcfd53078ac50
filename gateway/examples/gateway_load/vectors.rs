//! Vectors that are computed from the text, so that a wrong one is noticed.

use axum::body::Bytes;

pub(crate) const DIMENSIONS: usize = 384;

/// The vector of a text, of length 1. Its elements are all different and have as many digits as a
/// model's.
pub(crate) fn of(text: &str) -> Vec<f32> {
    let seed = text
        .bytes()
        .fold(17_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let raw: Vec<f32> = (0..DIMENSIONS as u32)
        .map(|place| {
            let mixed = (seed ^ place.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B);
            f32::from_bits(0x3F80_0000 | (mixed >> 9)) - 1.5
        })
        .collect();
    let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
    raw.iter().map(|x| x / length).collect()
}

/// The same as little-endian bytes.
pub(crate) fn bytes(text: &str) -> Bytes {
    of(text)
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect::<Vec<u8>>()
        .into()
}
