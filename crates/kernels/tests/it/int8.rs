//! Integer products: the same bits on every kernel and in any batch, and within an error bound of
//! `f32` that follows from the codes' steps.

use isomer_kernels::{
    Activation, Epilogue,
    int8::{Int8Kernel, Int8Matrix, MAX_DEPTH, Widths, gemm_int8, gemm_int8_serial},
    rows,
};
use proptest::prelude::*;

use crate::support::{on_threads, random};

fn product(x: &[f32], m: usize, weights: &Int8Matrix) -> Vec<f32> {
    let mut out = vec![f32::NAN; m * weights.n()];
    gemm_int8_serial(x, m, weights, Epilogue::default(), &mut out);
    out
}

fn portable() -> &'static Int8Kernel {
    Int8Kernel::available()
        .into_iter()
        .find(|kernel| kernel.name() == "portable")
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_kernel_gives_the_bits_of_the_portable_one(m in 0usize..40, n in 1usize..300, k in 0usize..300, seed: u64) {
        let (x, weights) = (random(seed, m * k), random(seed ^ 1, n * k));
        for widths in Widths::ALL {
            let want = product(&x, m, &Int8Matrix::quantise_for(portable(), &weights, n, k, widths));
            for kernel in Int8Kernel::available() {
                let got = product(&x, m, &Int8Matrix::quantise_for(kernel, &weights, n, k, widths));
                prop_assert_eq!(&got, &want, "{} {:?}", kernel.name(), widths);
            }
        }
    }

    #[test]
    fn the_error_stays_within_what_the_steps_of_the_codes_allow(m in 1usize..8, n in 1usize..40, k in 1usize..300, shift in -2.0f32..2.0, seed: u64) {
        let x: Vec<f32> = random(seed, m * k).iter().map(|x| x + shift).collect();
        let weights = random(seed ^ 1, n * k);
        for widths in Widths::ALL {
            let got = product(&x, m, &Int8Matrix::quantise(&weights, n, k, widths));
            // For uniform weights, clipping never gains more than the few percent of half a step,
            // so the step is determined by the largest weight; an input has an error of half a
            // step, and of another half step from the zero point.
            let weight_step = 1.0 / f64::from((1u32 << (widths.weights() - 1)) - 1);
            for r in 0..m {
                let row = &x[r * k..(r + 1) * k];
                let range = f64::from(row.iter().fold(0.0f32, |a, &b| a.max(b)) - row.iter().fold(0.0f32, |a, &b| a.min(b)));
                let input_step = range / f64::from((1u32 << widths.inputs()) - 1);
                for j in 0..n {
                    let terms = (0..k).map(|i| (f64::from(row[i]), f64::from(weights[j * k + i])));
                    let exact: f64 = terms.clone().map(|(x, w)| x * w).sum();
                    let bound: f64 = terms.map(|(x, w)| 1.5 * weight_step * x.abs() + input_step * (w.abs() + 1.5 * weight_step)).sum();
                    let error = (f64::from(got[r * n + j]) - exact).abs();
                    prop_assert!(error <= bound + 1e-5, "{widths:?}: {error} > {bound}");
                }
            }
        }
    }

    #[test]
    fn a_rows_bits_do_not_depend_on_its_company(m in 2usize..120, n in 1usize..100, k in 1usize..300, seed: u64) {
        let (x, weights) = (random(seed, m * k), random(seed ^ 1, n * k));
        let weights = Int8Matrix::quantise(&weights, n, k, Widths::SEVEN);
        let together = product(&x, m, &weights);
        for r in 0..m {
            let alone = product(&x[r * k..(r + 1) * k], 1, &weights);
            prop_assert_eq!(&alone[..], &together[r * n..(r + 1) * n]);
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (m, n, k) = (203, 391, 700);
    let (x, weights, bias, residual) = (random(3, m * k), random(4, n * k), random(5, n), random(6, m * n));
    let epilogue = Epilogue {
        bias: Some(&bias),
        activation: Activation::Gelu,
        residual: Some(&residual),
        ..Epilogue::default()
    };
    for widths in Widths::ALL {
        let weights = Int8Matrix::quantise(&weights, n, k, widths);
        let mut serial = vec![f32::NAN; m * n];
        gemm_int8_serial(&x, m, &weights, epilogue, &mut serial);
        for threads in [1, 2, 3, 8] {
            let mut out = vec![f32::NAN; m * n];
            on_threads(threads, || gemm_int8(&x, m, &weights, epilogue, &mut out));
            assert_eq!(serial, out, "{threads} threads");
        }
    }
}

#[test]
fn the_epilogue_is_that_of_the_float_product() {
    let (m, n, k) = (37, 45, 300);
    let (x, weights, bias) = (random(3, m * k), random(4, n * k), random(5, n));
    let (factor, residual) = (random(7, m * n), random(6, m * n));
    let weights = Int8Matrix::quantise(&weights, n, k, Widths::FULL);
    let mut expected = product(&x, m, &weights);
    for row in expected.chunks_mut(n) {
        rows::add(row, &bias);
    }
    let exact = {
        let mut exact = expected.clone();
        rows::gelu(&mut exact);
        exact
    };
    rows::gelu_coarse(&mut expected);
    for (coarse, exact) in expected.iter().zip(exact) {
        assert!(
            (coarse - exact).abs() <= 5e-5 + 1.2e-5 * exact.abs(),
            "{coarse} {exact}"
        );
    }
    rows::multiply(&mut expected, &factor);
    rows::add(&mut expected, &residual);
    let epilogue = Epilogue {
        bias: Some(&bias),
        activation: Activation::Gelu,
        factor: Some(&factor),
        residual: Some(&residual),
    };
    let mut out = vec![f32::NAN; m * n];
    gemm_int8(&x, m, &weights, epilogue, &mut out);
    assert_eq!(out, expected);
}

#[test]
fn extreme_codes_at_the_greatest_depth_neither_saturate_nor_overflow() {
    // Every input has the maximum code or, in the second row, its negative; every weight has the
    // maximum code.
    let k = MAX_DEPTH;
    let x: Vec<f32> = (0..2 * k).map(|i| if i < k { 1.0 } else { -1.0 }).collect();
    let weights: Vec<f32> = (0..3 * k)
        .map(|i| match i / k {
            0 => 1.0,
            1 => -1.0,
            _ => [1.0, -1.0][i % 2],
        })
        .collect();
    for widths in Widths::ALL {
        for kernel in Int8Kernel::available() {
            let weights = Int8Matrix::quantise_for(kernel, &weights, 3, k, widths);
            let out = product(&x, 2, &weights);
            let k = MAX_DEPTH as f32;
            for (got, want) in out.iter().zip([k, -k, 0.0, -k, k, 0.0]) {
                assert!((got - want).abs() <= 1e-3 * k, "{} {widths:?}: {out:?}", kernel.name());
            }
        }
    }
}

#[test]
fn zeros_stay_zeros_and_nothing_is_divided_by_them() {
    let (n, k) = (5, 40);
    let weights = Int8Matrix::quantise(&random(1, n * k), n, k, Widths::SEVEN);
    assert_eq!(product(&vec![0.0; 2 * k], 2, &weights), vec![0.0; 2 * n]);
    let none = Int8Matrix::quantise(&vec![0.0; n * k], n, k, Widths::SEVEN);
    assert_eq!(product(&random(2, 2 * k), 2, &none), vec![0.0; 2 * n]);
    let tiny = vec![f32::MIN_POSITIVE / 4.0; k];
    assert!(product(&tiny, 1, &weights).iter().all(|value| value.abs() < 1e-30));
    let huge: Vec<f32> = (0..k).map(|i| [f32::MAX, -f32::MAX][i % 2]).collect();
    assert!(product(&huge, 1, &none).iter().all(|value| *value == 0.0));
}

#[test]
fn what_is_not_finite_is_seen_where_it_stands_and_nowhere_else() {
    let (m, n, k) = (9, 20, 33);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let (mut x, mut weights) = (random(3, m * k), random(4, n * k));
        let whole = Int8Matrix::quantise(&weights, n, k, Widths::SEVEN);
        x[2 * k + 32] = bad;
        for (r, row) in product(&x, m, &whole).chunks(n).enumerate() {
            assert!(row.iter().all(|value| value.is_nan() == (r == 2)), "row {r}");
        }
        weights[7 * k + 3] = bad;
        let broken = Int8Matrix::quantise(&weights, n, k, Widths::SEVEN);
        for row in product(&random(3, m * k), m, &broken).chunks(n) {
            for (j, value) in row.iter().enumerate() {
                assert_eq!(value.is_nan(), j == 7, "column {j}");
            }
        }
    }
}

#[test]
fn a_lone_large_weight_is_cut_where_that_makes_the_row_more_exact() {
    let k = 8192;
    let mut weights = random(9, k);
    weights[17] = 1.25;
    let packed = Int8Matrix::quantise(&weights, 1, k, Widths::SEVEN);
    // A row with a single 1 is exact: the result is the rounded weight.
    let rounded: Vec<f32> = (0..k)
        .step_by(256)
        .flat_map(|first| {
            let mut x = vec![0.0; 256 * k];
            (0..256).for_each(|r| x[r * k + first + r] = 1.0);
            product(&x, 256, &packed)
        })
        .collect();
    let error = |rounded: &dyn Fn(usize) -> f32| -> f32 { (0..k).map(|i| (rounded(i) - weights[i]).powi(2)).sum() };
    let ours = error(&|i| rounded[i]);
    let step = 1.25 / 63.0;
    let by_largest = error(&|i| (weights[i] / step).round_ties_even() * step);
    assert!(ours < 0.93 * by_largest, "{ours} against {by_largest}");
}
