//! The order of insertion.

use rayon::prelude::*;

/// The place where every search begins: the first, which is in all layers.
pub(super) const ENTRY: u32 = 0;

/// A number for each document from the seed, with its row, ascending.
pub(super) fn order(documents: usize, seed: u64) -> Vec<(u64, u32)> {
    let start = mixed(seed);
    let drawn = |row: u32| (mixed(start.wrapping_add(u64::from(row))), row);
    let mut order: Vec<(u64, u32)> = (0..documents as u32).into_par_iter().map(drawn).collect();
    order.par_sort_unstable();
    order
}

/// A step of the generator SplitMix64 (Steele, Lea & Flood 2014).
pub(super) fn mixed(state: u64) -> u64 {
    let z = state.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
