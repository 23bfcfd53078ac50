#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn naive(qkv: &[f32], n: usize, shape: Shape, span: Span, bias: Option<Bias<'_>>) -> Vec<f64> {
    let Shape {
        heads,
        key_heads,
        head_dim,
        scale,
    } = shape;
    let at = |token: usize, head: usize, i: usize| f64::from(qkv[token * shape.row() + head * head_dim + i]);
    let mut out = vec![0.0; n * heads * head_dim];
    for head in 0..heads {
        let key = heads + head * key_heads / heads;
        for q in 0..n {
            let scores: Vec<f64> = (0..n)
                .map(|k| {
                    if (k < q && q - k > span.before) || (k > q && k - q > span.after) {
                        return f64::NEG_INFINITY;
                    }
                    let product: f64 = (0..head_dim).map(|i| at(q, head, i) * at(k, key, i)).sum();
                    let added = bias.map_or(0.0, |bias| {
                        bias.by_distance[head * (2 * bias.longest - 1) + bias.longest - 1 + k - q]
                    });
                    product * f64::from(scale) + f64::from(added)
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for i in 0..head_dim {
                out[(q * heads + head) * head_dim + i] =
                    (0..n).map(|k| powers[k] / sum * at(k, key + key_heads, i)).sum();
            }
        }
    }
    out
}

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| random.random_range(-2.0..2.0)).collect()
}

fn span() -> impl Strategy<Value = Span> {
    let side = || prop_oneof![Just(usize::MAX), Just(0), 0usize..80];
    (side(), side()).prop_map(|(before, after)| Span { before, after })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn attention_agrees_with_a_naive_f64_one(
        n in 1usize..130,
        key_heads in 1usize..3,
        group in 1usize..3,
        head_dim in 1usize..40,
        span in span(),
        biased: bool,
        seed in 0u64..1000,
    ) {
        let heads = key_heads * group;
        let shape = Shape { heads, key_heads, head_dim, scale: 1.0 / (head_dim as f32).sqrt() };
        let qkv = numbers(seed, n * shape.row());
        let longest = n + seed as usize % 3;
        let by_distance = numbers(seed + 1, heads * (2 * longest - 1));
        let bias = biased.then_some(Bias { by_distance: &by_distance, longest });
        let mut scratch = Scratch { keys: vec![f32::NAN; 7], values: vec![f32::NAN; 90_000], scores: vec![f32::NAN; 3], ..Scratch::default() };
        let mut out = vec![f32::NAN; n * heads * head_dim];
        self_attention(&qkv, n, shape, span, ScoreTerms { bias, ..ScoreTerms::default() }, &mut scratch, &mut out);
        for (got, want) in out.iter().zip(naive(&qkv, n, shape, span, bias)) {
            prop_assert!((f64::from(*got) - want).abs() < 2e-5, "{got} {want}");
        }
        scratch.scores.fill(f32::NAN);
        let mut again = vec![0.0; out.len()];
        self_attention(&qkv, n, shape, span, ScoreTerms { bias, ..ScoreTerms::default() }, &mut scratch, &mut again);
        prop_assert_eq!(out, again);
    }
}

#[test]
fn attention_goes_over_long_sequences_in_blocks() {
    let shape = Shape {
        heads: 1,
        key_heads: 1,
        head_dim: 8,
        scale: 0.3,
    };
    let n = 2 * KBLOCK + 5;
    let qkv = numbers(5, n * shape.row());
    let window = Span { before: 300, after: 20 };
    for span in [Span::ALL, Span::CAUSAL, window] {
        let mut out = vec![f32::NAN; n * 8];
        self_attention(
            &qkv,
            n,
            shape,
            span,
            ScoreTerms::default(),
            &mut Scratch::default(),
            &mut out,
        );
        for (got, want) in out.iter().zip(naive(&qkv, n, shape, span, None)) {
            assert!((f64::from(*got) - want).abs() < 2e-5, "{got} {want}");
        }
    }
}

#[test]
fn what_follows_a_token_does_not_change_its_bits_under_a_causal_span() {
    let shape = Shape {
        heads: 2,
        key_heads: 1,
        head_dim: 8,
        scale: 0.3,
    };
    let qkv = numbers(6, 90 * shape.row());
    let run = |n: usize| {
        let mut out = vec![0.0; n * 16];
        let qkv = &qkv[..n * shape.row()];
        self_attention(
            qkv,
            n,
            shape,
            Span::CAUSAL,
            ScoreTerms::default(),
            &mut Scratch::default(),
            &mut out,
        );
        out
    };
    assert_eq!(run(90)[..50 * 16], run(50));
}

#[test]
fn learnt_positions_are_added_from_both_sides() {
    let shape = Shape {
        heads: 2,
        key_heads: 2,
        head_dim: 5,
        scale: 0.4,
    };
    let (n, longest, rows) = (61, 70, 7);
    let (qkv, tables) = (numbers(8, n * shape.row()), numbers(9, 4 * rows * 5));
    let row: Vec<u32> = (0..2 * longest as u32 - 1)
        .map(|distance| distance * 3 % rows as u32)
        .collect();
    let packed: Vec<PackedMatrix> = tables
        .chunks(rows * 5)
        .map(|table| PackedMatrix::pack(table, rows, 5))
        .collect();
    let positions = Positions {
        keys: &packed[..2],
        queries: &packed[2..],
        row: &row,
        longest,
    };
    let added = ScoreTerms {
        positions: Some(positions),
        bias: None,
    };
    let mut out = vec![f32::NAN; n * 10];
    self_attention(&qkv, n, shape, Span::ALL, added, &mut Scratch::default(), &mut out);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    for head in 0..2 {
        let part = |token: usize, part: usize| &qkv[token * 30 + part * 10 + head * 5..][..5];
        let table = |number: usize, row: u32| &tables[(number * rows + row as usize) * 5..][..5];
        for q in 0..n {
            let scores: Vec<f64> = (0..n)
                .map(|k| {
                    let at = row[longest - 1 + q - k];
                    let (own, other) = (dot(part(q, 0), table(head, at)), dot(part(k, 1), table(2 + head, at)));
                    ((dot(part(q, 0), part(k, 1)) + own + other) * 0.4).exp()
                })
                .collect();
            let sum: f64 = scores.iter().sum();
            for i in 0..5 {
                let want: f64 = (0..n).map(|k| scores[k] / sum * f64::from(part(k, 2)[i])).sum();
                let got = f64::from(out[q * 10 + head * 5 + i]);
                assert!((got - want).abs() < 2e-5, "{got} {want}");
            }
        }
    }
}
