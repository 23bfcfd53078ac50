//! Codes and scales of eight outputs side by side.

use std::ops::Range;

use rayon::prelude::*;

use super::format::{self, QuantType, RUN};

/// Outputs side by side: eight 32-bit lanes of a vector register.
pub(super) const OCTET: usize = 8;
/// Codes of one run of eight outputs.
pub(super) const TILE: usize = RUN * OCTET;
/// Consecutive depths that are adjacent within a lane.
pub(super) const GROUP: usize = 4;

/// Block-quantised weights, reordered: octet after octet, and within it run after run, each a
/// *tile*: code of depth `4·g + i` and output `j` at `32·g + 4·j + i`. Four-bit codes are stored
/// two to a byte, groups `g` and `g + 4` together.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) kind: QuantType,
    codes: Vec<u8>,
    /// `[octet][block][output]`
    base: Vec<f32>,
    /// The same for minima; empty for formats with a centre.
    base_min: Vec<f32>,
    /// `[octet][step][output]`; empty for formats with one level of scales.
    fine: Vec<i8>,
    fine_min: Vec<i8>,
}

impl Blocks {
    pub(super) fn pack(kind: QuantType, bytes: &[u8], n: usize, k: usize) -> Self {
        let octets = n.div_ceil(OCTET);
        let (runs, blocks, steps) = (k / RUN, k / kind.block_len(), k / kind.step());
        let nested = kind.block_len() > RUN;
        let minima = kind.centre().is_none();
        let if_so = |needed: bool, len: usize| if needed { len * OCTET } else { 0 };
        let tile = tile_bytes(kind);
        let mut packed = Self {
            n,
            k,
            kind,
            codes: vec![0; octets * runs * tile],
            base: vec![0.0; octets * blocks * OCTET],
            base_min: vec![0.0; octets * if_so(minima, blocks)],
            fine: vec![0; octets * if_so(nested, steps)],
            fine_min: vec![0; octets * if_so(nested && minima, steps)],
        };
        if n == 0 || k == 0 {
            return packed;
        }
        let row_bytes = bytes.len() / n;
        // Empty arrays must also be split into one piece per octet.
        let base_min = chunks_or_empty(&mut packed.base_min, blocks * OCTET, octets);
        let fine = chunks_or_empty(&mut packed.fine, steps * OCTET, octets);
        let fine_min = chunks_or_empty(&mut packed.fine_min, steps * OCTET, octets);
        packed
            .codes
            .par_chunks_mut(runs * tile)
            .zip(packed.base.par_chunks_mut(blocks * OCTET))
            .zip(base_min)
            .zip(fine)
            .zip(fine_min)
            .zip(bytes.par_chunks(row_bytes * OCTET))
            .for_each(|(((((codes, base), base_min), fine), fine_min), rows)| {
                for (j, row) in rows.chunks_exact(row_bytes).enumerate() {
                    for run in 0..runs {
                        put_codes(
                            kind,
                            &mut codes[run * tile..][..tile],
                            j,
                            &format::codes(kind, row, run),
                        );
                        let scales = format::scales(kind, row, run);
                        let block = run * RUN / kind.block_len();
                        base[block * OCTET + j] = scales.base;
                        if minima {
                            base_min[block * OCTET + j] = scales.base_min;
                        }
                        if nested {
                            let per_run = RUN / kind.step();
                            for half in 0..per_run {
                                let at = (run * per_run + half) * OCTET + j;
                                fine[at] = scales.fine[half];
                                if minima {
                                    fine_min[at] = scales.fine_min[half];
                                }
                            }
                        }
                    }
                }
            });
        packed
    }

    pub(super) fn octets(&self) -> usize {
        self.n.div_ceil(OCTET)
    }

    pub(super) fn runs(&self) -> usize {
        self.k / RUN
    }

    pub(super) fn bytes(&self) -> usize {
        self.codes.len()
            + (self.base.len() + self.base_min.len()) * size_of::<f32>()
            + self.fine.len()
            + self.fine_min.len()
    }

    /// Whether the stored codes must be unpacked from nibbles for a tile.
    pub(super) fn is_nibbles(&self) -> bool {
        is_nibbles(self.kind)
    }

    /// Stored codes of octets, tile after tile.
    pub(super) fn stored(&self, octets: Range<usize>) -> &[u8] {
        let len = self.runs() * tile_bytes(self.kind);
        &self.codes[octets.start * len..octets.end * len]
    }

    /// One tile; `buffer` is written if the codes are nibbles.
    #[inline(always)]
    pub(super) fn tile<'a>(&'a self, octet: usize, run: usize, buffer: &'a mut [u8; TILE]) -> &'a [u8] {
        let bytes = tile_bytes(self.kind);
        let stored = &self.codes[(octet * self.runs() + run) * bytes..][..bytes];
        if !self.is_nibbles() {
            return stored;
        }
        split_nibbles(stored, buffer);
        buffer
    }

    /// Scales and minima of step `step` of an octet.
    #[inline(always)]
    pub(super) fn scales(&self, octet: usize, step: usize) -> ([f32; OCTET], [f32; OCTET]) {
        let (blocks, steps) = (self.k / self.kind.block_len(), self.k / self.kind.step());
        let block = step * self.kind.step() / self.kind.block_len();
        let at = (octet * blocks + block) * OCTET;
        let fine_at = (octet * steps + step) * OCTET;
        let mut scales = [0.0; OCTET];
        scales.copy_from_slice(&self.base[at..at + OCTET]);
        if !self.fine.is_empty() {
            for (scale, &fine) in scales.iter_mut().zip(&self.fine[fine_at..fine_at + OCTET]) {
                *scale *= f32::from(fine);
            }
        }
        let mut minima = [0.0; OCTET];
        if let Some(centre) = self.kind.centre() {
            for (min, scale) in minima.iter_mut().zip(scales) {
                *min = -centre * scale;
            }
        } else {
            for (min, base) in minima.iter_mut().zip(&self.base_min[at..at + OCTET]) {
                *min = -base;
            }
            if !self.fine_min.is_empty() {
                for (min, &fine) in minima.iter_mut().zip(&self.fine_min[fine_at..fine_at + OCTET]) {
                    *min *= f32::from(fine);
                }
            }
        }
        (scales, minima)
    }
}

fn is_nibbles(kind: QuantType) -> bool {
    matches!(kind, QuantType::Q4_0 | QuantType::Q4_1 | QuantType::Q4K)
}

fn tile_bytes(kind: QuantType) -> usize {
    if is_nibbles(kind) { TILE / 2 } else { TILE }
}

/// Writes the 32 codes of output `j` of an octet.
fn put_codes(kind: QuantType, tile: &mut [u8], j: usize, codes: &[u8; RUN]) {
    for (g, codes) in codes.as_chunks::<GROUP>().0.iter().enumerate() {
        if !is_nibbles(kind) {
            tile[g * 32 + j * GROUP..][..GROUP].copy_from_slice(codes);
            continue;
        }
        let shift = g / 4 * 4;
        for (byte, code) in tile[g % 4 * 32 + j * GROUP..][..GROUP].iter_mut().zip(codes) {
            *byte |= code << shift;
        }
    }
}

/// Unpacks a tile of nibbles.
#[inline(always)]
pub(super) fn split_nibbles(stored: &[u8], tile: &mut [u8]) {
    let (low, high) = tile.split_at_mut(TILE / 2);
    for ((byte, low), high) in stored.iter().zip(low).zip(high) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

fn chunks_or_empty<T: Send>(all: &mut [T], len: usize, count: usize) -> Vec<&mut [T]> {
    if all.is_empty() {
        return (0..count).map(|_| &mut [][..]).collect();
    }
    all.chunks_mut(len).collect()
}
