//! Converts floats to bytes and bits like sentence-transformers' `quantize_embeddings` (version
//! 6.2).

pub use isomer_service_kit::vectors::bits;

/// The scaling of each column's values to 256 steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranges {
    starts: Vec<f32>,
    steps: Vec<f32>,
}

impl Ranges {
    /// Ranges from the minimum to the maximum of each column of `rows × width` vectors. `None` if
    /// there are no vectors.
    pub fn of_vectors(vectors: &[f32], width: usize) -> Option<Self> {
        let mut rows = vectors.chunks_exact(width.max(1));
        let first = rows.next()?;
        let (mut least, mut most) = (first.to_vec(), first.to_vec());
        for row in rows {
            for ((least, most), value) in least.iter_mut().zip(&mut most).zip(row) {
                *least = least.min(*value);
                *most = most.max(*value);
            }
        }
        let step = |(least, most): (&f32, &f32)| match (most - least) / 255.0 {
            0.0 => 1.0,
            step => step,
        };
        Some(Self {
            steps: least.iter().zip(&most).map(step).collect(),
            starts: least,
        })
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.starts.len()
    }

    /// Appends a row as signed bytes: the number of whole steps above the start, minus 128. Values
    /// outside the range are clamped to it.
    pub fn quantise(&self, row: &[f32], out: &mut Vec<u8>) {
        for ((value, start), step) in row.iter().zip(&self.starts).zip(&self.steps) {
            let steps = ((value - start) / step).floor().clamp(0.0, 255.0);
            #[allow(clippy::cast_possible_truncation)]
            let byte = (steps - 128.0) as i8;
            out.extend_from_slice(&byte.to_le_bytes());
        }
    }

    /// The ranges as bytes, little-endian, for a digest.
    pub fn bytes(&self) -> Vec<u8> {
        let values = self.starts.iter().chain(&self.steps);
        values.flat_map(|value| value.to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_without_spread_becomes_one_value() {
        let ranges = Ranges::of_vectors(&[2.0, 1.0, 2.0, 256.0], 2);
        let mut out = Vec::new();
        for row in [[2.0, 1.0], [2.0, 256.0], [1e9, -5.0]] {
            ranges.iter().for_each(|ranges| ranges.quantise(&row, &mut out));
        }
        let bytes: Vec<i8> = out.iter().map(|byte| i8::from_le_bytes([*byte])).collect();
        assert_eq!(bytes, [-128, -128, -128, 127, 127, -128]);
        assert_eq!(Ranges::of_vectors(&[], 2), None);
    }
}
