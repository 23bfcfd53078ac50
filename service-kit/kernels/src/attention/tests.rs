#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn naive(qkv: &[f32], n: usize, shape: Shape) -> Vec<f64> {
    let Shape { heads, head_dim, scale } = shape;
    let hidden = heads * head_dim;
    let at = |token: usize, part: usize, head: usize, i: usize| {
        f64::from(qkv[token * 3 * hidden + part * hidden + head * head_dim + i])
    };
    let mut out = vec![0.0; n * hidden];
    for head in 0..heads {
        for q in 0..n {
            let scores: Vec<f64> = (0..n)
                .map(|k| {
                    (0..head_dim)
                        .map(|i| at(q, 0, head, i) * at(k, 1, head, i))
                        .sum::<f64>()
                        * f64::from(scale)
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for i in 0..head_dim {
                out[q * hidden + head * head_dim + i] = (0..n).map(|k| powers[k] / sum * at(k, 2, head, i)).sum();
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn attention_agrees_with_a_naive_f64_one(n in 1usize..130, heads in 1usize..4, head_dim in 1usize..40, seed in 0u64..1000) {
        let shape = Shape { heads, head_dim, scale: 1.0 / (head_dim as f32).sqrt() };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let qkv: Vec<f32> = (0..n * 3 * heads * head_dim).map(|_| random.random_range(-2.0..2.0)).collect();
        let mut scratch = Scratch { keys: vec![f32::NAN; 7], values: vec![f32::NAN; 90_000], scores: vec![f32::NAN; 3] };
        let mut out = vec![f32::NAN; n * heads * head_dim];
        self_attention(&qkv, n, shape, &mut scratch, &mut out);
        for (got, want) in out.iter().zip(naive(&qkv, n, shape)) {
            prop_assert!((f64::from(*got) - want).abs() < 2e-5, "{got} {want}");
        }
        let mut again = vec![0.0; out.len()];
        self_attention(&qkv, n, shape, &mut scratch, &mut again);
        prop_assert_eq!(out, again);
    }
}

#[test]
fn attention_goes_over_long_sequences_in_blocks() {
    let shape = Shape {
        heads: 1,
        head_dim: 8,
        scale: 0.3,
    };
    let n = 2 * KBLOCK + 5;
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let qkv: Vec<f32> = (0..n * 24).map(|_| random.random_range(-2.0..2.0)).collect();
    let mut out = vec![f32::NAN; n * 8];
    self_attention(&qkv, n, shape, &mut Scratch::default(), &mut out);
    for (got, want) in out.iter().zip(naive(&qkv, n, shape)) {
        assert!((f64::from(*got) - want).abs() < 2e-5, "{got} {want}");
    }
}
