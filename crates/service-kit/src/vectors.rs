//! Vectors in their wire format: the identity of their space, and the smaller element types. All
//! code that produces vectors uses this module, so that all vectors have the same format.

use half::f16;
use isomer_proto::common::v1::VectorSpace;
use prost::Message;
use sha2::{Digest, Sha256};

/// SHA-256 (hex) over the other fields of the message: its Protocol Buffers encoding in field order
/// with `digest` empty. `model_id` is empty too if `weights_digest` and `settings_digest` identify
/// the encoder: its files are the same under another name. Any language can reproduce it.
pub fn digest(space: &VectorSpace) -> String {
    let is_identified = !space.weights_digest.is_empty() && !space.settings_digest.is_empty();
    let rest = VectorSpace {
        digest: String::new(),
        model_id: match is_identified {
            true => String::new(),
            false => space.model_id.clone(),
        },
        ..space.clone()
    };
    hex::encode(Sha256::digest(rest.encode_to_vec()))
}

/// The space with its digest filled in.
#[must_use]
pub fn sealed(mut space: VectorSpace) -> VectorSpace {
    space.digest = digest(&space);
    space
}

/// Decodes little-endian IEEE 754 binary32 numbers. Bytes after the last whole number are ignored:
/// check the length first.
pub fn floats(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> + Clone {
    bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number))
}

/// Decodes little-endian IEEE 754 binary16 numbers, widened without loss. Bytes after the last
/// whole number are ignored: check the length first.
pub fn widened(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> + Clone {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|number| f16::from_le_bytes(*number).to_f32())
}

/// Appends a row as bits. A bit is set if its value is above 0; the first column is the most
/// significant bit (`numpy.packbits`).
pub fn bits(row: &[f32], out: &mut Vec<u8>) {
    for eight in row.chunks(8) {
        let byte = eight
            .iter()
            .zip((0..8).rev())
            .fold(0, |byte, (value, place)| byte | u8::from(*value > 0.0) << place);
        out.push(byte);
    }
}

/// Appends a row as little-endian IEEE 754 binary16, rounded to the nearest (ties to even).
///
/// # Errors
/// The first value that binary16 cannot hold.
pub fn halves(row: &[f32], out: &mut Vec<u8>) -> Result<(), f32> {
    for value in row {
        let half = f16::from_f32(*value);
        if half.is_infinite() {
            return Err(*value);
        }
        out.extend_from_slice(&half.to_le_bytes());
    }
    Ok(())
}

/// The largest entries of a sparse vector, at most `most`, by ascending index. Of equal weights,
/// those with the smallest indices stay.
#[must_use]
pub fn largest(mut entries: Vec<(u32, f32)>, most: usize) -> Vec<(u32, f32)> {
    if entries.len() > most {
        entries.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        entries.truncate(most);
        entries.sort_unstable_by_key(|(index, _)| *index);
    }
    entries
}

/// The scaling of each column's values to 256 steps, as in `quantize_embeddings` of
/// sentence-transformers (version 6.2).
#[derive(Debug, Clone, PartialEq)]
pub struct Ranges {
    starts: Vec<f32>,
    steps: Vec<f32>,
}

impl Ranges {
    /// Ranges from the minimum to the maximum of each column. `None` if there are no rows.
    pub fn of_rows(mut rows: impl Iterator<Item: AsRef<[f32]>>) -> Option<Self> {
        let mut least = rows.next()?.as_ref().to_vec();
        let mut most = least.clone();
        for row in rows {
            for ((least, most), value) in least.iter_mut().zip(&mut most).zip(row.as_ref()) {
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

    /// A row as signed bytes: the number of whole steps above the start, minus 128. Values outside
    /// the range are clamped to it.
    pub fn quantised(&self, row: &[f32]) -> impl Iterator<Item = i8> {
        let columns = row.iter().zip(&self.starts).zip(&self.steps);
        columns.map(|((value, start), step)| {
            let steps = ((value - start) / step).floor().clamp(0.0, 255.0);
            #[allow(clippy::cast_possible_truncation)]
            let byte = (steps - 128.0) as i8;
            byte
        })
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
    fn every_field_but_the_digest_counts() {
        let space = sealed(VectorSpace {
            model_id: "a".into(),
            dimensions: 3,
            ..VectorSpace::default()
        });
        assert_eq!(space.digest.len(), 64);
        assert_eq!(digest(&space), space.digest, "the digest is not computed over itself");
        let others = [
            VectorSpace {
                model_id: "b".into(),
                ..space.clone()
            },
            VectorSpace {
                weights_digest: "x".into(),
                ..space.clone()
            },
            VectorSpace {
                prompt: "query: ".into(),
                ..space.clone()
            },
            VectorSpace {
                pooling: "cls".into(),
                ..space.clone()
            },
            VectorSpace {
                normalised: true,
                ..space.clone()
            },
            VectorSpace {
                dimensions: 2,
                ..space.clone()
            },
            VectorSpace {
                dtype: 1,
                ..space.clone()
            },
            VectorSpace {
                augmentation: "gase".into(),
                ..space.clone()
            },
            VectorSpace {
                quantisation: "y".into(),
                ..space.clone()
            },
        ];
        for other in others {
            assert_ne!(digest(&other), space.digest, "{other:?}");
        }
    }

    #[test]
    fn an_encoder_under_another_name_has_the_same_space() {
        let named = |model_id: &str, settings: &str| {
            digest(&VectorSpace {
                model_id: model_id.into(),
                weights_digest: "w".into(),
                settings_digest: settings.into(),
                ..VectorSpace::default()
            })
        };
        assert_eq!(named("a", "s"), named("b", "s"));
        assert_ne!(named("a", "s"), named("a", "t"));
        // Weights alone do not identify an encoder.
        assert_ne!(named("a", ""), named("b", ""));
    }

    #[test]
    fn the_largest_entries_stay_by_ascending_index() {
        let entries = vec![(2, 0.5), (4, 2.0), (5, 0.5), (9, 1.0)];
        assert_eq!(largest(entries.clone(), 9), entries);
        assert_eq!(largest(entries, 3), [(2, 0.5), (4, 2.0), (9, 1.0)]);
    }

    #[test]
    fn bits_fill_bytes_from_the_top_and_the_last_byte_with_zeros() {
        let mut out = Vec::new();
        bits(&[1.0, -1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 2.0, 3.0], &mut out);
        assert_eq!(out, [0b1001_0001, 0b1000_0000]);
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let row = [0.0, -1.5, f32::MIN_POSITIVE, 65504.0, f32::INFINITY];
        let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(floats(&bytes).collect::<Vec<_>>(), row);
        assert_eq!(floats(&bytes[..7]).len(), 1, "half a number is none");
        let mut half = Vec::new();
        halves(&[0.5, -2.0, 65504.0], &mut half).unwrap();
        assert_eq!(widened(&half).collect::<Vec<_>>(), [0.5, -2.0, 65504.0]);
    }

    #[test]
    fn halves_are_widened_exactly() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x0001, 2f32.powi(-24)),
            (0x03ff, 1023.0 * 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x3c00, 1.0),
            (0x3555, 0.333_251_95),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
        ] {
            assert_eq!(widened(&u16::to_le_bytes(bits)).next(), Some(value));
        }
    }

    #[test]
    fn a_column_without_spread_becomes_one_value() {
        let ranges = Ranges::of_rows([[2.0, 1.0], [2.0, 256.0]].iter()).unwrap();
        let bytes: Vec<i8> = [[2.0, 1.0], [2.0, 256.0], [1e9, -5.0]]
            .iter()
            .flat_map(|row| ranges.quantised(row))
            .collect();
        assert_eq!(bytes, [-128, -128, -128, 127, 127, -128]);
        assert_eq!(Ranges::of_rows(std::iter::empty::<[f32; 2]>()), None);
    }
}
