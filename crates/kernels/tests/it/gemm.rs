//! The promise of the crate: correct up to rounding, and the same bits whatever the other rows are.

use isomer_kernels::{Activation, Epilogue, Kernel, PackedMatrix, gemm, gemm_serial, gemm_with, rows};
use proptest::prelude::*;

use crate::support::{on_threads, random};

fn naive(x: &[f32], m: usize, weights: &[f32], n: usize, k: usize, bias: Option<&[f32]>) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for r in 0..m {
        for j in 0..n {
            let sum: f64 = (0..k)
                .map(|i| f64::from(x[r * k + i]) * f64::from(weights[j * k + i]))
                .sum();
            out[r * n + j] = sum + bias.map_or(0.0, |b| f64::from(b[j]));
        }
    }
    out
}

fn product(x: &[f32], m: usize, weights: &PackedMatrix, bias: Option<&[f32]>) -> Vec<f32> {
    let mut out = vec![f32::NAN; m * weights.n()];
    gemm(x, m, weights, bias, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_kernel_agrees_with_a_naive_f64_product(m in 0usize..40, n in 1usize..70, k in 0usize..600, with_bias: bool, seed: u64) {
        let (x, weights, bias) = (random(seed, m * k), random(seed ^ 1, n * k), random(seed ^ 2, n));
        let bias = with_bias.then_some(&bias[..]);
        let exact = naive(&x, m, &weights, n, k, bias);
        for kernel in Kernel::available() {
            let packed = PackedMatrix::pack_for(kernel, &weights, n, k);
            let got = product(&x, m, &packed, bias);
            for (got, want) in got.iter().zip(&exact) {
                prop_assert!((f64::from(*got) - want).abs() < 1e-6 * (k as f64 + 10.0).sqrt() * 4.0, "{}: {got} {want}", kernel.name());
            }
        }
    }

    #[test]
    fn a_rows_bits_do_not_depend_on_its_company(m in 2usize..120, n in 1usize..200, k in 1usize..520, seed: u64) {
        let (x, weights, bias) = (random(seed, m * k), random(seed ^ 1, n * k), random(seed ^ 2, n));
        for kernel in Kernel::available() {
            let packed = PackedMatrix::pack_for(kernel, &weights, n, k);
            let together = product(&x, m, &packed, Some(&bias));
            for r in 0..m {
                let alone = product(&x[r * k..(r + 1) * k], 1, &packed, Some(&bias));
                prop_assert_eq!(&alone[..], &together[r * n..(r + 1) * n]);
            }
            let backwards: Vec<f32> = x.chunks(k).rev().flatten().copied().collect();
            let reversed = product(&backwards, m, &packed, Some(&bias));
            let reversed: Vec<f32> = reversed.chunks(n).rev().flatten().copied().collect();
            prop_assert_eq!(&reversed, &together);
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (m, n, k) = (203, 391, 700);
    let (x, weights, bias) = (random(3, m * k), random(4, n * k), random(5, n));
    let packed = PackedMatrix::pack(&weights, n, k);
    let one = on_threads(1, || product(&x, m, &packed, Some(&bias)));
    for threads in [2, 3, 5, 8] {
        assert_eq!(
            one,
            on_threads(threads, || product(&x, m, &packed, Some(&bias))),
            "{threads} threads"
        );
    }
    let exact = naive(&x, m, &weights, n, k, Some(&bias));
    for (got, want) in one.iter().zip(exact) {
        assert!((f64::from(*got) - want).abs() < 1e-4);
    }
}

#[test]
fn activation_factor_and_residual_are_applied_in_order() {
    let (m, n, k) = (37, 45, 300);
    let (x, weights, bias, residual) = (random(3, m * k), random(4, n * k), random(5, n), random(6, m * n));
    let factor = random(7, m * n);
    let packed = PackedMatrix::pack(&weights, n, k);
    let mut expected = product(&x, m, &packed, Some(&bias));
    rows::gelu(&mut expected);
    for ((value, factor), residual) in expected.iter_mut().zip(&factor).zip(&residual) {
        *value = *value * factor + residual;
    }
    let mut out = vec![f32::NAN; m * n];
    let epilogue = Epilogue {
        bias: Some(&bias),
        activation: Activation::Gelu,
        factor: Some(&factor),
        residual: Some(&residual),
    };
    gemm_with(&x, m, &packed, epilogue, &mut out);
    assert_eq!(out, expected);
    out.fill(f32::NAN);
    gemm_serial(&x, m, &packed, epilogue, &mut out);
    assert_eq!(out, expected);
}

#[test]
fn a_nan_weight_is_seen_in_its_column_only() {
    let (m, n, k) = (9, 20, 33);
    let mut weights = random(4, n * k);
    weights[7 * k + 3] = f32::NAN;
    let out = product(&random(3, m * k), m, &PackedMatrix::pack(&weights, n, k), None);
    for row in out.chunks(n) {
        for (j, value) in row.iter().enumerate() {
            assert_eq!(value.is_nan(), j == 7, "column {j}");
        }
    }
}
