//! Products of bfloat16: the bits of the reference on every kernel and in any batch, and within an
//! error bound of `f32` that follows from the rounding.

use half::bf16;
use isomer_kernels::{
    Activation, Epilogue, Instructions,
    bf16::{Bf16Kernel, Bf16Matrix, Order, gemm_bf16, gemm_bf16_serial},
    int8::{Int8Kernel, Int8Matrix, Widths, gemm_int8},
    limit_to, rows,
};
use proptest::prelude::*;

use crate::support::{on_threads, random};

fn product(x: &[f32], m: usize, weights: &Bf16Matrix) -> Vec<f32> {
    let mut out = vec![f32::NAN; m * weights.n()];
    gemm_bf16_serial(x, m, weights, Epilogue::default(), &mut out);
    out
}

/// Numbers of many sizes: `2^-20` to `2^20`.
fn spread(seed: u64, len: usize) -> Vec<f32> {
    let exponents = random(seed ^ 0x5eed, len);
    random(seed, len)
        .iter()
        .zip(exponents)
        .map(|(x, exponent)| x * (20.0 * exponent).exp2())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_kernel_gives_the_bits_of_the_reference_of_its_order(m in 0usize..70, n in 1usize..300, k in 0usize..300, seed: u64) {
        let (x, weights) = (spread(seed, m * k), spread(seed ^ 1, n * k));
        for kernel in Bf16Kernel::available() {
            let want = product(&x, m, &Bf16Matrix::pack_for(Bf16Kernel::reference(kernel.order()), &weights, n, k));
            let got = product(&x, m, &Bf16Matrix::pack_for(kernel, &weights, n, k));
            prop_assert_eq!(&got, &want, "{}", kernel.name());
        }
    }

    #[test]
    fn the_reference_adds_in_the_order_of_the_instruction(k in 1usize..100, seed: u64) {
        let (x, weights) = (spread(seed, k), spread(seed ^ 1, k));
        let at = |values: &[f32], i: usize| values.get(i).map_or(0.0, |value| bf16::from_f32(*value).to_f32());
        let term = |i: usize| at(&x, i) * at(&weights, i);
        let pairs = (0..k).step_by(2).fold(0.0f32, |sum, i| (sum + term(i + 1)) + term(i));
        let tiles = (0..k).step_by(32).fold(0.0f32, |sum, block| {
            let half = |first: usize| (block + first..block + 32).step_by(2).fold(0.0f32, |sum, i| sum + term(i));
            sum + (half(0) + half(1))
        });
        for (order, want) in [(Order::Pairs, pairs), (Order::Tiles, tiles)] {
            let packed = Bf16Matrix::pack_for(Bf16Kernel::reference(order), &weights, 1, k);
            prop_assert_eq!(product(&x, 1, &packed), [want], "{:?}", order);
        }
    }

    #[test]
    fn the_error_stays_within_what_the_rounding_allows(m in 1usize..8, n in 1usize..40, k in 1usize..300, seed: u64) {
        let (x, weights) = (random(seed, m * k), random(seed ^ 1, n * k));
        for order in [Order::Pairs, Order::Tiles] {
            let got = product(&x, m, &Bf16Matrix::pack_for(Bf16Kernel::reference(order), &weights, n, k));
            for (at, got) in got.iter().enumerate() {
                let terms = (0..k).map(|i| f64::from(x[at / n * k + i]) * f64::from(weights[at % n * k + i]));
                let (exact, sizes) = terms.fold((0.0, 0.0), |(sum, sizes), term| (sum + term, sizes + term.abs()));
                // Half a unit of the eighth bit for each factor, and the roundings of k + 2 sums.
                let bound = sizes * (2.0 * 2f64.powi(-8) + 2f64.powi(-16) + (k + 2) as f64 * 2f64.powi(-23));
                let error = (f64::from(*got) - exact).abs();
                prop_assert!(error <= bound, "{order:?}: {error} > {bound}");
            }
        }
    }

    #[test]
    fn a_rows_bits_do_not_depend_on_its_company(m in 2usize..120, n in 1usize..100, k in 1usize..300, seed: u64) {
        let (x, weights) = (random(seed, m * k), random(seed ^ 1, n * k));
        let weights = Bf16Matrix::pack(&weights, n, k);
        let together = product(&x, m, &weights);
        for r in 0..m {
            let alone = product(&x[r * k..(r + 1) * k], 1, &weights);
            prop_assert_eq!(&alone[..], &together[r * n..(r + 1) * n]);
        }
    }
}

/// It needs its own process, because the limit is set once.
#[test]
fn tiles_give_the_bits_of_their_references_where_the_processor_has_them() {
    limit_to(Instructions::Amx).unwrap();
    let (halves, integers) = (Bf16Kernel::available()[0], Int8Kernel::available()[0]);
    if halves.order() != Order::Tiles || integers.name() != "amx-int8" {
        println!("no AMX: {} and {} compute", halves.name(), integers.name());
    }
    let reference = Bf16Kernel::reference(halves.order());
    let portable = *Int8Kernel::available().last().unwrap();
    for (m, n, k) in [(1, 1, 1), (16, 32, 32), (17, 33, 65), (100, 391, 700), (70, 96, 1536)] {
        let (x, weights) = (spread(5, m * k), spread(6, n * k));
        assert_eq!(
            product(&x, m, &Bf16Matrix::pack_for(halves, &weights, n, k)),
            product(&x, m, &Bf16Matrix::pack_for(reference, &weights, n, k)),
            "{m} x {n} x {k}"
        );
        let rounded = |kernel| {
            let weights = Int8Matrix::quantise_for(kernel, &weights, n, k, Widths::EIGHT_SEVEN);
            let mut out = vec![f32::NAN; m * n];
            on_threads(2, || gemm_int8(&x, m, &weights, Epilogue::default(), &mut out));
            out
        };
        assert_eq!(rounded(integers), rounded(portable), "{m} x {n} x {k}");
    }
}

#[test]
fn numbers_round_to_the_nearest_and_tiny_ones_to_zero() {
    let smallest = (-50f32).exp2();
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        1.0 + (-8f32).exp2(),
        1.0 + 3.0 * (-8f32).exp2(),
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::from_bits(0x7f80_0001),
        smallest,
        -smallest,
        smallest * 0.999,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
    ];
    values.extend(spread(7, 10_000));
    let one = Bf16Matrix::pack(&[1.0], 1, 1);
    for (value, got) in values.iter().zip(product(&values, values.len(), &one)) {
        let want = if value.abs() < smallest {
            0.0
        } else {
            bf16::from_f32(*value).to_f32()
        };
        assert!(
            got == want || got.is_nan() && want.is_nan(),
            "{value:e}: {got:e}, not {want:e}"
        );
    }
    // Weights round in the same way.
    let column = Bf16Matrix::pack(&values[..9], 9, 1);
    let want: Vec<f32> = values[..9]
        .iter()
        .map(|value| bf16::from_f32(*value).to_f32())
        .collect();
    assert_eq!(product(&[1.0], 1, &column), want);
}

#[test]
fn no_sum_is_subnormal() {
    // Two products of the smallest size that differ in the last bit of a factor cancel out.
    let smallest = (-50f32).exp2();
    let next = bf16::from_bits(bf16::from_f32(smallest).to_bits() + 1).to_f32();
    let x = [smallest, next];
    for kernel in Bf16Kernel::available() {
        let weights = Bf16Matrix::pack_for(kernel, &[next, -next], 1, 2);
        let got = product(&x, 1, &weights)[0];
        assert_eq!(got, smallest * next - next * next, "{}", kernel.name());
        assert!(got.is_normal(), "{}: {got:e}", kernel.name());
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
    let weights = Bf16Matrix::pack(&weights, n, k);
    let mut serial = vec![f32::NAN; m * n];
    gemm_bf16_serial(&x, m, &weights, epilogue, &mut serial);
    let mut expected = product(&x, m, &weights);
    for row in expected.chunks_mut(n) {
        rows::add(row, &bias);
    }
    rows::gelu_coarse(&mut expected);
    rows::add(&mut expected, &residual);
    assert_eq!(serial, expected, "the epilogue is that of the integer product");
    for threads in [1, 2, 3, 8] {
        let mut out = vec![f32::NAN; m * n];
        on_threads(threads, || gemm_bf16(&x, m, &weights, epilogue, &mut out));
        assert_eq!(serial, out, "{threads} threads");
    }
}
