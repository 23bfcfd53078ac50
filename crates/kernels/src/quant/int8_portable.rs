//! The integer tile in plain Rust. It is the reference for the other tiles.

use super::{
    format::{QuantType, RUN},
    layout::{GROUP, OCTET, TILE},
    tile::{TileArgs, TileKernel},
};

/// The tile for codes of a kind.
pub(super) fn tile(kind: QuantType) -> TileKernel {
    TileKernel {
        rows: 6,
        octets: 1,
        run: match kind {
            QuantType::Q8_0 => portable::<1, true>,
            QuantType::Q6K => portable::<2, false>,
            _ => portable::<1, false>,
        },
    }
}

/// # Safety
/// As for [`TileKernel::run`]; needs no particular instructions.
#[allow(clippy::cast_precision_loss)]
unsafe fn portable<const STEPS: usize, const SIGNED: bool>(a: TileArgs) {
    for r in 0..a.rows {
        let mut sums = [0.0f32; OCTET];
        for run in 0..a.runs {
            // SAFETY: row r and run `run` exist in all of these.
            let (x, input, codes) = unsafe {
                (
                    &*a.x.add((r * a.runs + run) * RUN).cast::<[i8; RUN]>(),
                    *a.x_runs.add(r * a.runs + run),
                    &*a.codes.add(run * TILE).cast::<[[[u8; GROUP]; OCTET]; RUN / GROUP]>(),
                )
            };
            for step in 0..STEPS {
                let mut products = [0i32; OCTET];
                let groups = RUN / GROUP / STEPS;
                for g in step * groups..(step + 1) * groups {
                    for (product, codes) in products.iter_mut().zip(&codes[g]) {
                        for (&code, &x) in codes.iter().zip(&x[g * GROUP..]) {
                            let code = if SIGNED {
                                i32::from(i8::from_le_bytes([code]))
                            } else {
                                i32::from(code)
                            };
                            *product += code * i32::from(x);
                        }
                    }
                }
                let at = run * STEPS + step;
                // SAFETY: step `at` of `runs · STEPS` exists.
                let (scales, minima) = unsafe {
                    (
                        &*a.scales.add(at * OCTET).cast::<[f32; OCTET]>(),
                        &*a.minima.add(at * OCTET).cast::<[f32; OCTET]>(),
                    )
                };
                for j in 0..OCTET {
                    sums[j] += scales[j] * input.scale * products[j] as f32;
                    if !SIGNED {
                        sums[j] += minima[j] * input.step_sum::<STEPS>(step);
                    }
                }
            }
        }
        // SAFETY: row r has room for eight outputs.
        unsafe { a.out.add(r * a.out_stride).cast::<[f32; OCTET]>().write_unaligned(sums) };
    }
}
