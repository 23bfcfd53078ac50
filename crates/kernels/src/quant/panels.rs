//! Unpacks a panel to `f32` for the `f32` micro-kernel.

use super::{
    format::{QuantType, RUN},
    layout::{Blocks, GROUP, OCTET, TILE},
};
use crate::driver::PanelSource;

impl PanelSource for Blocks {
    fn n(&self) -> usize {
        self.n
    }

    fn k(&self) -> usize {
        self.k
    }

    fn is_costly(&self) -> bool {
        true
    }

    fn panel<'a>(&'a self, panel: usize, first: usize, depth: usize, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        let width = self.kernel().width();
        scratch.resize(depth * width, 0.0);
        for part in 0..width / OCTET {
            let octet = panel * (width / OCTET) + part;
            if octet < self.octets() {
                unpack_octet(
                    self,
                    octet,
                    first / RUN,
                    &mut scratch[part * OCTET..],
                    width,
                    depth / RUN,
                );
            } else {
                for row in scratch.chunks_exact_mut(width) {
                    row[part * OCTET..(part + 1) * OCTET].fill(0.0);
                }
            }
        }
        scratch
    }
}

/// Runs `first_run..first_run + runs` of an octet, depth after depth, `stride` apart.
fn unpack_octet(blocks: &Blocks, octet: usize, first_run: usize, out: &mut [f32], stride: usize, runs: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn wide(blocks: &Blocks, octet: usize, first_run: usize, out: &mut [f32], stride: usize, runs: usize) {
            unpack_body::<true>(blocks, octet, first_run, out, stride, runs);
        }
        if crate::instructions::avx2_and_fma() {
            // SAFETY: both features were just detected.
            return unsafe { wide(blocks, octet, first_run, out, stride, runs) };
        }
    }
    unpack_body::<false>(blocks, octet, first_run, out, stride, runs);
}

#[inline(always)]
fn unpack_body<const FMA: bool>(
    blocks: &Blocks,
    octet: usize,
    first_run: usize,
    out: &mut [f32],
    stride: usize,
    runs: usize,
) {
    let signed = blocks.kind == QuantType::Q8_0;
    let step = blocks.kind.step();
    let mut buffer = [0; TILE];
    for run in 0..runs {
        let tile = blocks.tile(octet, first_run + run, &mut buffer);
        let mut scales = blocks.scales(octet, (first_run + run) * (RUN / step));
        for (g, words) in tile.as_chunks::<{ GROUP * OCTET }>().0.iter().enumerate() {
            if step < RUN && g * GROUP == step {
                scales = blocks.scales(octet, (first_run + run) * (RUN / step) + 1);
            }
            let mut lanes = [0u32; OCTET];
            for (lane, word) in lanes.iter_mut().zip(words.as_chunks::<GROUP>().0) {
                *lane = u32::from_le_bytes(*word);
            }
            for i in 0..GROUP {
                let row = &mut out[(run * RUN + g * GROUP + i) * stride..][..OCTET];
                for j in 0..OCTET {
                    // Shift byte i to the top, then back down with or without sign extension.
                    let top = lanes[j] << (24 - 8 * i);
                    #[allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]
                    let code = if signed { top as i32 >> 24 } else { (top >> 24) as i32 } as f32;
                    row[j] = if FMA {
                        code.mul_add(scales.0[j], scales.1[j])
                    } else {
                        code * scales.0[j] + scales.1[j]
                    };
                }
            }
        }
    }
}
