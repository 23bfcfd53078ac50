//! The choice of an integer tile for a machine.

use super::{format::QuantType, int8_portable, tile::TileKernel};

/// Every kernel for this machine, fastest first.
pub(super) fn tiles(kind: QuantType) -> Vec<TileKernel> {
    let mut tiles = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if crate::instructions::avx512() && std::arch::is_x86_feature_detected!("avx512vnni") {
            tiles.push(super::int8_vnni::tile(kind));
        }
        if crate::instructions::avx2_and_fma() {
            tiles.push(super::int8_avx2::tile(kind));
        }
    }
    tiles.push(int8_portable::tile(kind));
    tiles
}
