#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

/// Normal distribution function in f64: Taylor series near zero, continued fraction in the tails.
fn normal_cdf(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x.abs() < 4.0 {
        // Φ(x) = 1/2 + φ(x) (x + x³/3 + x⁵/15 + …)
        let (mut term, mut sum) = (x, x);
        for i in 1..120 {
            term *= x * x / f64::from(2 * i + 1);
            sum += term;
        }
        0.5 + density * sum
    } else {
        let a = x.abs();
        let mut fraction = a;
        for i in (1..80).rev() {
            fraction = a + f64::from(i) / fraction;
        }
        let tail = density / fraction;
        if x > 0.0 { 1.0 - tail } else { tail }
    }
}

#[test]
fn gelu_is_within_2e7_of_the_exact_function() {
    let inputs: Vec<f32> = (-20_000..20_000).map(|i| i as f32 * 1e-3 + 3.3e-4).collect();
    let mut outputs = inputs.clone();
    gelu(&mut outputs);
    let mut portable = inputs.clone();
    gelu_body::<false>(&mut portable);
    for ((&x, &y), &z) in inputs.iter().zip(&outputs).zip(&portable) {
        let exact = f64::from(x) * normal_cdf(f64::from(x));
        let tolerance = 2e-7 * (1.0 + exact.abs());
        assert!(
            (f64::from(y) - exact).abs() < tolerance,
            "gelu({x}) = {y}, exactly {exact}"
        );
        assert!(
            (f64::from(z) - exact).abs() < tolerance,
            "portable gelu({x}) = {z}, exactly {exact}"
        );
    }
}

#[test]
fn gelu_keeps_infinities_and_nan() {
    let mut values = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0];
    gelu(&mut values);
    assert_eq!(values[0], f32::INFINITY);
    assert_eq!(values[1], 0.0);
    assert!(values[2].is_nan());
    assert_eq!(values[3], 0.0);
}

#[test]
fn exponential_is_within_2e7_relative() {
    for i in -87_000..88_000 {
        let x = i as f32 * 1e-3;
        let exact = f64::from(x).exp();
        for value in [exp::<true>(x), exp::<false>(x)] {
            assert!(
                (f64::from(value) / exact - 1.0).abs() < 2e-7,
                "exp({x}) = {value}, exactly {exact}"
            );
        }
    }
    assert_eq!(exp::<true>(f32::NEG_INFINITY), 0.0);
    assert!(exp::<true>(f32::NAN).is_nan());
}

#[test]
fn a_nan_in_a_row_reaches_the_output() {
    let mut values = vec![1.0f32; 20];
    values[17] = f32::NAN;
    softmax(&mut values, 20, 1.0);
    assert!(values.iter().any(|v| v.is_nan()));
}

#[test]
fn the_other_activations_follow_their_definitions() {
    let inputs: Vec<f32> = (-9000..9000).map(|i| i as f32 * 1e-3 + 3.3e-4).collect();
    let of = |function: fn(&mut [f32])| {
        let mut values = inputs.clone();
        function(&mut values);
        values
    };
    let gelu = |x: f64| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
        0.5 * x * (1.0 + inner.tanh())
    };
    let cases: [(Vec<f32>, &dyn Fn(f64) -> f64); 6] = [
        (of(silu), &|x| x / (1.0 + (-x).exp())),
        (of(silu_body::<false>), &|x| x / (1.0 + (-x).exp())),
        (of(gelu_tanh), &gelu),
        (of(gelu_tanh_body::<false>), &gelu),
        (of(relu), &|x| x.max(0.0)),
        (of(|values| crate::Activation::Tanh.apply(values)), &f64::tanh),
    ];
    for (number, (outputs, exact)) in cases.iter().enumerate() {
        for (&x, &y) in inputs.iter().zip(outputs) {
            let exact = exact(f64::from(x));
            let tolerance = 4e-7 * (1.0 + exact.abs());
            assert!(
                (f64::from(y) - exact).abs() < tolerance,
                "{number}: f({x}) = {y}, exactly {exact}"
            );
        }
    }
    for function in [silu, gelu_tanh, relu] {
        let mut values = [f32::NAN, 100.0, -100.0];
        function(&mut values);
        assert!(values[0].is_nan());
        assert_eq!(values[1], 100.0);
        assert!(values[2].abs() < 1e-30);
    }
}

#[test]
fn element_wise_products_and_sums_follow_their_definitions() {
    let mut values = [1.0, 2.0, 3.0];
    multiply(&mut values, &[2.0, 0.5, -1.0]);
    assert_eq!(values, [2.0, 1.0, -3.0]);
    scale_add(&mut values, 2.0, &[1.0, 1.0, 1.0]);
    assert_eq!(values, [5.0, 3.0, -5.0]);
}

proptest! {
    #[test]
    fn rms_norm_agrees_with_f64_and_does_not_see_other_rows(width in 1usize..70, rows in 1usize..5, seed in prop::collection::vec(-30.0f32..30.0, 350)) {
        let input: Vec<f32> = seed.iter().copied().cycle().take(width * rows).collect();
        let gamma: Vec<f32> = (0..width).map(|i| 0.5 + i as f32 * 0.01).collect();
        let mut all = input.clone();
        rms_norm(&mut all, &gamma, 1e-6);
        for (got, row) in all.chunks(width).zip(input.chunks(width)) {
            let mean = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / width as f64;
            for (i, got) in got.iter().enumerate() {
                let want = f64::from(row[i]) / (mean + 1e-6).sqrt() * f64::from(gamma[i]);
                prop_assert!((f64::from(*got) - want).abs() < 1e-5 * (1.0 + want.abs()), "{got} {want}");
            }
            let mut alone = row.to_vec();
            rms_norm(&mut alone, &gamma, 1e-6);
            prop_assert_eq!(&alone[..], got);
        }
    }
}

proptest! {
    #[test]
    fn softmax_and_layer_norm_agree_with_f64_and_do_not_see_other_rows(
        width in 1usize..70,
        rows in 1usize..5,
        seed in prop::collection::vec(-30.0f32..30.0, 350),
        scale in 0.05f32..2.0,
    ) {
        let input: Vec<f32> = seed.iter().copied().cycle().take(width * rows).collect();
        let mut soft = input.clone();
        softmax(&mut soft, width, scale);
        let gamma: Vec<f32> = (0..width).map(|i| 0.5 + i as f32 * 0.01).collect();
        let beta: Vec<f32> = (0..width).map(|i| i as f32 * 0.02 - 0.3).collect();
        let mut norm = input.clone();
        layer_norm(&mut norm, &gamma, &beta, 1e-5);
        for (r, row) in input.chunks(width).enumerate() {
            let range = r * width..(r + 1) * width;
            let wide: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
            let max = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = wide.iter().map(|x| ((x - max) * f64::from(scale)).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for (got, want) in soft[range.clone()].iter().zip(&powers) {
                prop_assert!((f64::from(*got) - want / sum).abs() < 3e-6);
            }
            let mean = wide.iter().sum::<f64>() / width as f64;
            let variance = wide.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            for (i, got) in norm[range.clone()].iter().enumerate() {
                let want = (wide[i] - mean) / (variance + 1e-5).sqrt() * f64::from(gamma[i]) + f64::from(beta[i]);
                prop_assert!((f64::from(*got) - want).abs() < 1e-3 * (1.0 + want.abs()), "{got} {want}");
            }
            let mut alone = row.to_vec();
            softmax(&mut alone, width, scale);
            prop_assert_eq!(&alone[..], &soft[range.clone()]);
            let mut alone = row.to_vec();
            layer_norm(&mut alone, &gamma, &beta, 1e-5);
            prop_assert_eq!(&alone[..], &norm[range]);
        }
    }
}

/// Rows of every length around whole vectors, with values far apart at various distances.
#[test]
fn hand_written_and_plain_softmax_have_the_same_bits() {
    let value = |i: usize| ((i * 7919 + 13) % 2003) as f32 / 25.0 - 40.0;
    for width in (1_usize..130).chain([250, 255, 256, 257, 511]) {
        for (stride, scale) in [(width, 1.0), (width + 3, 0.17), (width.next_multiple_of(16), 3.0)] {
            let input: Vec<f32> = (0..3 * stride).map(value).collect();
            let (mut fast, mut plain) = (input.clone(), input);
            softmax_padded(&mut fast, stride, width, scale);
            softmax::rows::<true>(&mut plain, stride, width, scale);
            for (at, (fast, plain)) in fast.iter().zip(&plain).enumerate() {
                assert_eq!(fast.to_bits(), plain.to_bits(), "{width} of {stride}, value {at}");
            }
            for row in fast.chunks_exact(stride) {
                assert!(row[width..].iter().all(|value| *value == 0.0));
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn softmax_drops_what_is_far_below_and_keeps_what_is_no_number() {
    for width in [3, 16, 20, 70] {
        let mut values = vec![0.0; width];
        values[1] = -1e30;
        values[2] = f32::NEG_INFINITY;
        softmax(&mut values, width, 1.0);
        assert_eq!(values[1..3], [0.0, 0.0]);
        assert!((values[0] - 1.0 / (width - 2) as f32).abs() < 1e-7);
        for bad in 0..width {
            let mut values = vec![0.5; width];
            values[bad] = f32::NAN;
            softmax(&mut values, width, 1.0);
            assert!(values.iter().all(|value| value.is_nan()), "{bad} of {width}");
        }
    }
}

#[test]
fn every_width_of_vectors_gives_the_same_bits() {
    let inputs: Vec<f32> = (0..5000).map(|i| (i as f32 - 2500.0) * 3.7e-3 + 1e-4).collect();
    let other: Vec<f32> = inputs.iter().rev().map(|value| value * 0.3).collect();
    let same = |name: &str, fast: &dyn Fn(&mut [f32]), plain: &dyn Fn(&mut [f32])| {
        let (mut a, mut b) = (inputs.clone(), inputs.clone());
        fast(&mut a);
        plain(&mut b);
        assert!(a.iter().zip(&b).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
    };
    if cfg!(target_arch = "x86_64") {
        assert!(crate::Kernel::available().len() > 1, "tests need a processor with AVX2");
    }
    same("gelu", &gelu, &gelu_body::<true>);
    same("gelu_coarse", &gelu_coarse, &gelu_coarse_body::<true>);
    same("gelu_tanh", &gelu_tanh, &gelu_tanh_body::<true>);
    same("silu", &silu, &silu_body::<true>);
    let gamma = &other[..250];
    let (norm, rms) = (layer_norm_body::<true>, rms_norm_body::<true>);
    same("layer_norm", &|v| layer_norm(v, gamma, gamma, 1e-5), &|v| {
        norm(v, gamma, gamma, 1e-5)
    });
    same("rms_norm", &|v| rms_norm(v, gamma, 1e-5), &|v| rms(v, gamma, 1e-5));
    let plain = scale_add_body::<true>;
    same("scale_add", &|v| scale_add(v, 0.3, &other), &|v| plain(v, 0.3, &other));
}

#[test]
fn coarse_gelu_is_within_5e5_of_the_exact_function() {
    let inputs: Vec<f32> = (-20_000..20_000).map(|i| i as f32 * 1e-3 + 3.3e-4).collect();
    for function in [gelu_coarse, gelu_coarse_body::<false>] {
        let mut outputs = inputs.clone();
        function(&mut outputs);
        for (&x, &y) in inputs.iter().zip(&outputs) {
            let exact = f64::from(x) * normal_cdf(f64::from(x));
            // Above that, Φ itself ends at 1 - 1.1e-5.
            let tolerance = 5e-5 + 1.2e-5 * exact.abs();
            assert!(
                (f64::from(y) - exact).abs() < tolerance,
                "gelu({x}) = {y}, exactly {exact}"
            );
        }
    }
    let mut values = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0];
    gelu_coarse(&mut values);
    assert_eq!((values[0], values[1], values[3]), (f32::INFINITY, 0.0, 0.0));
    assert!(values[2].is_nan());
}
