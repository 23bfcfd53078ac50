#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// The result for two rows in f64.
fn exact(x: &[f32], y: &[f32], term: fn(f64, f64) -> f64) -> f64 {
    x.iter().zip(y).map(|(a, b)| term(f64::from(*a), f64::from(*b))).sum()
}

type Kernel = fn(&[f32], &[f32], &[u32], &mut [f32]);
const KERNELS: [(Kernel, fn(f64, f64) -> f64); 3] = [
    (dots, |a, b| a * b),
    (squared_distances, |a, b| (a - b) * (a - b)),
    (absolute_distances, |a, b| (a - b).abs()),
];

proptest! {
    #[test]
    fn every_width_gives_the_sum_whichever_rows_stand_beside_it(
        width in 1_usize..300,
        seed in proptest::collection::vec(-1.0_f32..1.0, 300 * 5),
    ) {
        let (x, rows) = seed[..width * 5].split_at(width);
        for (kernel, term) in KERNELS {
            let mut out = [0.0; 5];
            kernel(x, rows, &[3, 0, 2, 0, 1], &mut out);
            for (value, number) in out.into_iter().zip([3, 0, 2, 0, 1]) {
                let row = &rows[number * width..][..width];
                prop_assert!((f64::from(value) - exact(x, row, term)).abs() < 1e-4);
                let mut alone = [0.0; 2];
                kernel(x, rows, &[number as u32], &mut alone[..1]);
                kernel(row, x, &[0], &mut alone[1..]);
                prop_assert_eq!(alone.map(f32::to_bits), [value.to_bits(); 2]);
            }
        }
    }
}

/// On a machine without AVX-512 only AVX2 is compared with the definition.
#[cfg(target_arch = "x86_64")]
#[test]
fn both_instruction_sets_give_the_same_bits() {
    assert!(crate::instructions::avx2_and_fma(), "tests need a processor with AVX2");
    for width in [1, 16, 63, 64, 391] {
        let values: Vec<f32> = (0..width * 2).map(|i| (i as f32 * 0.37).sin()).collect();
        let (x, y) = values.split_at(width);
        // SAFETY: the features were just detected.
        let wide = unsafe { [avx2::dot(x, y), avx2::squared(x, y), avx2::absolute(x, y)] };
        for ((_, term), value) in KERNELS.iter().zip(wide) {
            assert!((f64::from(value) - exact(x, y, *term)).abs() < 1e-4);
        }
        if crate::instructions::avx512() {
            // SAFETY: the features were just detected.
            let widest = unsafe { [avx512::dot(x, y), avx512::squared(x, y), avx512::absolute(x, y)] };
            assert_eq!(widest.map(f32::to_bits), wide.map(f32::to_bits), "{width}");
        }
    }
}

#[test]
fn the_portable_sum_is_the_same() {
    for width in [1, 16, 63, 391] {
        let values: Vec<f32> = (0..width * 2).map(|i| (i as f32 * 0.37).sin()).collect();
        let (x, y) = values.split_at(width);
        let pairs = [portable::dot(x, y), portable::squared(x, y), portable::absolute(x, y)];
        for ((_, term), value) in KERNELS.iter().zip(pairs) {
            assert!((f64::from(value) - exact(x, y, *term)).abs() < 1e-4);
        }
    }
}

#[test]
#[should_panic(expected = "out of range")]
fn a_row_outside_of_the_matrix_is_refused() {
    dots(&[1.0, 2.0], &[0.0; 4], &[2], &mut [0.0]);
}
