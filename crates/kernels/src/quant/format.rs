//! The block formats of GGUF files (ggml's `block_q4_0` and related ones), read one run of 32
//! weights at a time.

use half::{bf16, f16};

use super::half_at;

/// The storage format of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuantType {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

/// Length of the runs that are processed as a unit, whatever the format's own block.
pub(super) const RUN: usize = 32;

isomer_names::names!(QuantType {
    F32 = "F32", F16 = "F16", Bf16 = "BF16", Q4_0 = "Q4_0", Q4_1 = "Q4_1", Q5_0 = "Q5_0", Q5_1 = "Q5_1",
    Q8_0 = "Q8_0", Q4K = "Q4_K", Q5K = "Q5_K", Q6K = "Q6_K"
});

impl QuantType {
    /// Number of weights in a block.
    pub fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// Bytes of `k` weights; `None` if they are not a whole number of blocks, or exceed a `usize`.
    pub fn row_bytes(self, k: usize) -> Option<usize> {
        let blocks = k.is_multiple_of(self.block_len()).then(|| k / self.block_len())?;
        blocks.checked_mul(self.block_bytes())
    }

    /// Whether weights are codes with scales rather than plain numbers.
    pub fn is_quantized(self) -> bool {
        !matches!(self, Self::F32 | Self::F16 | Self::Bf16)
    }

    /// Number of weights that share one scale.
    pub(super) fn step(self) -> usize {
        if self == Self::Q6K { 16 } else { RUN }
    }

    /// Code that represents zero if the format stores no minimum: `minimum = -centre · scale`.
    pub(super) fn centre(self) -> Option<f32> {
        match self {
            Self::Q4_0 => Some(8.0),
            Self::Q5_0 => Some(16.0),
            Self::Q6K => Some(32.0),
            Self::Q8_0 => Some(0.0),
            _ => None,
        }
    }
}

/// The 32 codes of run `run` of a row, unsigned except for Q8_0, whose bytes are two's complement.
pub(super) fn codes(kind: QuantType, row: &[u8], run: usize) -> [u8; RUN] {
    let mut out = [0; RUN];
    let block = block_of(kind, row, run);
    let sub = run % (kind.block_len() / RUN).max(1);
    match kind {
        QuantType::Q4_0 => nibbles(&block[2..], &mut out),
        QuantType::Q4_1 => nibbles(&block[4..], &mut out),
        QuantType::Q5_0 => {
            nibbles(&block[6..], &mut out);
            fifth_bits(&block[2..6], &mut out);
        }
        QuantType::Q5_1 => {
            nibbles(&block[8..], &mut out);
            fifth_bits(&block[4..8], &mut out);
        }
        QuantType::Q8_0 => out.copy_from_slice(&block[2..34]),
        QuantType::Q4K => half_bytes(&block[16 + sub / 2 * 32..], sub % 2, &mut out),
        QuantType::Q5K => {
            half_bytes(&block[48 + sub / 2 * 32..], sub % 2, &mut out);
            for (code, high) in out.iter_mut().zip(&block[16..48]) {
                *code |= (high >> sub & 1) << 4;
            }
        }
        QuantType::Q6K => {
            // Two halves of 128, each with four runs whose low nibbles share 64 bytes and whose
            // high bits share 32.
            let (half, quarter) = (sub / 4, sub % 4);
            half_bytes(&block[half * 64 + quarter % 2 * 32..], quarter / 2, &mut out);
            for (code, high) in out.iter_mut().zip(&block[128 + half * 32..]) {
                *code |= (high >> (2 * quarter) & 3) << 4;
            }
        }
        QuantType::F32 | QuantType::F16 | QuantType::Bf16 => {}
    }
    out
}

/// Scales of a run. `weight = (base · fine) · code + minimum`, with `minimum = -(base_min ·
/// fine_min)`, or `-centre · scale` for formats with a centre.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunScales {
    pub(super) base: f32,
    pub(super) base_min: f32,
    /// Scales of the first and the second half of the run.
    pub(super) fine: [i8; 2],
    pub(super) fine_min: [i8; 2],
}

/// The scales of run `run` of a row.
pub(super) fn scales(kind: QuantType, row: &[u8], run: usize) -> RunScales {
    let block = block_of(kind, row, run);
    let sub = run % (kind.block_len() / RUN).max(1);
    let mut scales = RunScales {
        base: 0.0,
        base_min: 0.0,
        fine: [1; 2],
        fine_min: [1; 2],
    };
    match kind {
        QuantType::Q4_0 | QuantType::Q5_0 | QuantType::Q8_0 => scales.base = half_at(block, 0),
        QuantType::Q4_1 | QuantType::Q5_1 => {
            scales.base = half_at(block, 0);
            scales.base_min = -half_at(block, 2);
        }
        QuantType::Q4K | QuantType::Q5K => {
            scales.base = half_at(block, 0);
            scales.base_min = half_at(block, 2);
            let (scale, min) = six_bits(&block[4..16], sub);
            scales.fine = [scale; 2];
            scales.fine_min = [min; 2];
        }
        QuantType::Q6K => {
            scales.base = half_at(block, 208);
            // Two scales for each run, in the order of the weights.
            scales.fine = [192, 193].map(|at| i8::from_le_bytes([block[at + 2 * sub]]));
        }
        QuantType::F32 | QuantType::F16 | QuantType::Bf16 => {}
    }
    scales
}

/// Unpacks whole blocks of any kind. It is used for embedding tables, and is the plain definition
/// of the formats.
///
/// # Panics
/// If `bytes` is shorter than `out` requires, or `out` is not a whole number of blocks.
pub fn dequantize_row(kind: QuantType, bytes: &[u8], out: &mut [f32]) {
    match kind {
        QuantType::F32 => {
            for (out, b) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *out = f32::from_le_bytes(*b);
            }
        }
        QuantType::F16 => {
            for (out, b) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *out = f16::from_le_bytes(*b).to_f32();
            }
        }
        QuantType::Bf16 => {
            for (out, b) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *out = bf16::from_le_bytes(*b).to_f32();
            }
        }
        _ => {
            assert_eq!(kind.row_bytes(out.len()), Some(bytes.len()), "not whole blocks");
            for (run, out) in out.chunks_exact_mut(RUN).enumerate() {
                let codes = codes(kind, bytes, run);
                let scales = scales(kind, bytes, run);
                for (half, (out, codes)) in out
                    .chunks_exact_mut(RUN / 2)
                    .zip(codes.chunks_exact(RUN / 2))
                    .enumerate()
                {
                    let scale = scales.base * f32::from(scales.fine[half]);
                    let minimum = match kind.centre() {
                        Some(centre) => -centre * scale,
                        None => -(scales.base_min * f32::from(scales.fine_min[half])),
                    };
                    for (out, &code) in out.iter_mut().zip(codes) {
                        let code = if kind == QuantType::Q8_0 {
                            f32::from(i8::from_le_bytes([code]))
                        } else {
                            f32::from(code)
                        };
                        *out = scale * code + minimum;
                    }
                }
            }
        }
    }
}

/// The block that contains run `run`.
fn block_of(kind: QuantType, row: &[u8], run: usize) -> &[u8] {
    let bytes = kind.block_bytes();
    &row[run * RUN / kind.block_len() * bytes..][..bytes]
}

/// Sixteen bytes: low nibbles are the first sixteen codes, high nibbles the rest.
fn nibbles(bytes: &[u8], out: &mut [u8; RUN]) {
    for j in 0..RUN / 2 {
        out[j] = bytes[j] & 15;
        out[j + RUN / 2] = bytes[j] >> 4;
    }
}

/// Adds bit `j` of a 32-bit word as the fifth bit of code `j`.
fn fifth_bits(word: &[u8], out: &mut [u8; RUN]) {
    for (j, code) in out.iter_mut().enumerate() {
        *code |= (word[j / 8] >> (j % 8) & 1) << 4;
    }
}

/// Low (`which` 0) or high (1) nibbles of 32 bytes.
fn half_bytes(bytes: &[u8], which: usize, out: &mut [u8; RUN]) {
    for (out, byte) in out.iter_mut().zip(bytes) {
        *out = byte >> (4 * which) & 15;
    }
}

/// Scale and minimum number `sub` of the eight pairs in twelve bytes, at six bits each.
fn six_bits(packed: &[u8], sub: usize) -> (i8, i8) {
    let (scale, min) = if sub < 4 {
        (packed[sub] & 63, packed[sub + 4] & 63)
    } else {
        (
            packed[sub + 4] & 15 | packed[sub - 4] >> 6 << 4,
            packed[sub + 4] >> 4 | packed[sub] >> 6 << 4,
        )
    };
    (i8::from_le_bytes([scale]), i8::from_le_bytes([min]))
}
