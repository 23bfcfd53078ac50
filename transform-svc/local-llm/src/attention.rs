//! Causal attention of one token over the keys and values of its sequence.

use isomer_kernels::rows;

use crate::ops::{dispatched, dot, fma};

/// Heads and what they share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` query heads (Ainslie et al. 2023).
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
}

/// Attention of one row of queries over `positions` rows of keys and values, `softmax(q·k / √head_dim) · v` per head.
///
/// `query` and `out` are `heads · head_dim` wide, `keys` and `values` hold rows of `kv_heads · head_dim`. `scores` is
/// scratch. The order of all sums is that of the positions, whatever else is computed beside.
pub(crate) fn attend(
    query: &[f32],
    keys: &[f32],
    values: &[f32],
    shape: Heads,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let positions = keys.len() / (shape.kv_heads * shape.head_dim);
    scores.resize(shape.heads * positions, 0.0);
    score(query, keys, shape, scores);
    #[allow(clippy::cast_precision_loss)]
    let scale = 1.0 / (shape.head_dim as f32).sqrt();
    rows::softmax(scores, positions, scale);
    mix(scores, values, shape, out);
}

dispatched! {
    /// `scores[h][t] = q_h · k_t`.
    score, score_body, (query: &[f32], keys: &[f32], shape: Heads, scores: &mut [f32])
}

#[inline(always)]
fn score_body<const FMA: bool>(query: &[f32], keys: &[f32], shape: Heads, scores: &mut [f32]) {
    let Heads {
        heads,
        kv_heads,
        head_dim,
    } = shape;
    let positions = scores.len() / heads;
    for (head, (query, scores)) in query
        .chunks_exact(head_dim)
        .zip(scores.chunks_exact_mut(positions))
        .enumerate()
    {
        let column = head / (heads / kv_heads) * head_dim;
        for (score, keys) in scores.iter_mut().zip(keys.chunks_exact(kv_heads * head_dim)) {
            *score = dot::<FMA>(query, &keys[column..column + head_dim]);
        }
    }
}

dispatched! {
    /// `out_h = Σ_t weights[h][t] · v_t`.
    mix, mix_body, (weights: &[f32], values: &[f32], shape: Heads, out: &mut [f32])
}

#[inline(always)]
fn mix_body<const FMA: bool>(weights: &[f32], values: &[f32], shape: Heads, out: &mut [f32]) {
    let Heads {
        heads,
        kv_heads,
        head_dim,
    } = shape;
    let positions = weights.len() / heads;
    out.fill(0.0);
    for (head, (out, weights)) in out
        .chunks_exact_mut(head_dim)
        .zip(weights.chunks_exact(positions))
        .enumerate()
    {
        let column = head / (heads / kv_heads) * head_dim;
        for (&weight, values) in weights.iter().zip(values.chunks_exact(kv_heads * head_dim)) {
            for (out, value) in out.iter_mut().zip(&values[column..column + head_dim]) {
                *out = fma::<FMA>(weight, *value, *out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn equals_the_definition_in_double_precision() {
        let shape = Heads {
            heads: 6,
            kv_heads: 2,
            head_dim: 24,
        };
        let positions = 11;
        let wave = |n: usize, f: f32| (0..n).map(|i| (i as f32 * f).sin()).collect::<Vec<f32>>();
        let (query, keys, values) = (wave(144, 0.7), wave(positions * 48, 0.31), wave(positions * 48, 0.53));
        let mut out = vec![0.0; 144];
        attend(&query, &keys, &values, shape, &mut Vec::new(), &mut out);
        for head in 0..6 {
            let column = head / 3 * 24;
            let weights: Vec<f64> = (0..positions)
                .map(|t| {
                    let dot: f64 = (0..24)
                        .map(|i| f64::from(query[head * 24 + i]) * f64::from(keys[t * 48 + column + i]))
                        .sum();
                    (dot / 24f64.sqrt()).exp()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            for i in 0..24 {
                let expected: f64 = (0..positions)
                    .map(|t| weights[t] / total * f64::from(values[t * 48 + column + i]))
                    .sum();
                assert!((f64::from(out[head * 24 + i]) - expected).abs() < 1e-6);
            }
        }
    }
}
