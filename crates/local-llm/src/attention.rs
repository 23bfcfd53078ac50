//! Causal attention of one token over the keys and values of its sequence.

use isomer_kernels::rows;

use crate::{
    cache::Rows,
    ops::{dispatched, dots, fma},
};

/// The shape of the heads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) heads: usize,
    /// Number of heads of keys and values; each serves `heads / kv_heads` query heads (Ainslie et
    /// al. 2023).
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
}

/// Number of positions of values that all heads process before the next ones are read.
const TILE: usize = 32;
/// Elements of a head that are summed in registers.
const WIDE: usize = 64;

/// Attention of one row of queries over rows of keys and values, `softmax(q·k / √head_dim) · v` per
/// head.
///
/// `query` and `out` are `heads · head_dim` wide. The rows are `kv_heads · head_dim` wide and come
/// in two parts, the first of which may be shared with other sequences. `scores` is scratch space.
/// All sums run in the order of the positions, independent of the rest of the batch and of the
/// boundary between the parts.
pub(crate) fn attend(query: &[f32], parts: [Rows<'_>; 2], shape: Heads, scores: &mut Vec<f32>, out: &mut [f32]) {
    let width = shape.kv_heads * shape.head_dim;
    let lengths = parts.map(|rows| rows.keys.len() / width);
    let positions = lengths[0] + lengths[1];
    scores.resize(shape.heads * positions, 0.0);
    score(query, parts[0].keys, shape, 0, scores);
    score(query, parts[1].keys, shape, lengths[0], scores);
    #[allow(clippy::cast_precision_loss)]
    let scale = 1.0 / (shape.head_dim as f32).sqrt();
    rows::softmax(scores, positions, scale);
    out.fill(0.0);
    mix(scores, parts[0].values, shape, 0, out);
    mix(scores, parts[1].values, shape, lengths[0], out);
}

dispatched! {
    /// `scores[h][at + t] = q_h · k_t`.
    score, score_body, (query: &[f32], keys: &[f32], shape: Heads, at: usize, scores: &mut [f32])
}

#[inline(always)]
fn score_body<const FMA: bool>(query: &[f32], keys: &[f32], shape: Heads, at: usize, scores: &mut [f32]) {
    let Heads {
        heads,
        kv_heads,
        head_dim,
    } = shape;
    let positions = scores.len() / heads;
    let group = heads / kv_heads;
    for (t, keys) in keys.chunks_exact(kv_heads * head_dim).enumerate() {
        for (g, key) in keys.chunks_exact(head_dim).enumerate() {
            // A key is read once for all heads that share it, four and two heads at a time.
            let (mut head, end) = (g * group, (g + 1) * group);
            let mut put = |head: usize, dots: &[f32]| {
                for (j, dot) in dots.iter().enumerate() {
                    scores[(head + j) * positions + at + t] = *dot;
                }
            };
            while head + 4 <= end {
                put(head, &dots::<FMA, 4>(&query[head * head_dim..], key));
                head += 4;
            }
            while head + 2 <= end {
                put(head, &dots::<FMA, 2>(&query[head * head_dim..], key));
                head += 2;
            }
            if head < end {
                put(head, &dots::<FMA, 1>(&query[head * head_dim..], key));
            }
        }
    }
}

dispatched! {
    /// `out_h += Σ_t weights[h][at + t] · v_t`.
    mix, mix_body, (weights: &[f32], values: &[f32], shape: Heads, at: usize, out: &mut [f32])
}

#[inline(always)]
fn mix_body<const FMA: bool>(weights: &[f32], values: &[f32], shape: Heads, at: usize, out: &mut [f32]) {
    let Heads {
        heads,
        kv_heads,
        head_dim,
    } = shape;
    let positions = weights.len() / heads;
    let width = kv_heads * head_dim;
    for (tile, values) in values.chunks(TILE * width).enumerate() {
        for (head, out) in out.chunks_exact_mut(head_dim).enumerate() {
            let column = head / (heads / kv_heads) * head_dim;
            let weights = &weights[head * positions + at + tile * TILE..][..values.len() / width];
            let (blocks, rest) = out.as_chunks_mut::<WIDE>();
            let whole = blocks.len() * WIDE;
            for (block, first) in blocks.iter_mut().zip((column..).step_by(WIDE)) {
                let mut sum = *block;
                for (&weight, values) in weights.iter().zip(values.chunks_exact(width)) {
                    let values = &values[first..first + WIDE];
                    for i in 0..WIDE {
                        sum[i] = fma::<FMA>(weight, values[i], sum[i]);
                    }
                }
                *block = sum;
            }
            if !rest.is_empty() {
                for (&weight, values) in weights.iter().zip(values.chunks_exact(width)) {
                    for (out, value) in rest.iter_mut().zip(&values[column + whole..column + head_dim]) {
                        *out = fma::<FMA>(weight, *value, *out);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn equals_the_definition_in_double_precision_wherever_the_parts_meet() {
        let wave = |n: usize, f: f32| (0..n).map(|i| (i as f32 * f).sin()).collect::<Vec<f32>>();
        // Heads with and without a remainder of the inner loops; groups of 3, 7 and 1.
        for (heads, kv_heads, head_dim, positions) in [(6, 2, 24, 11), (7, 1, 64, 75), (2, 2, 80, 40)] {
            let shape = Heads {
                heads,
                kv_heads,
                head_dim,
            };
            let (q_width, width) = (heads * head_dim, kv_heads * head_dim);
            let query = wave(q_width, 0.7);
            let (keys, values) = (wave(positions * width, 0.31), wave(positions * width, 0.53));
            let run = |border: usize| {
                let (keys, values) = (keys.split_at(border * width), values.split_at(border * width));
                let parts = [(keys.0, values.0), (keys.1, values.1)].map(|(keys, values)| Rows { keys, values });
                let mut out = vec![f32::NAN; q_width];
                attend(&query, parts, shape, &mut vec![9.0; 3], &mut out);
                out
            };
            let out = run(0);
            for border in [1, 5, positions - 1, positions] {
                assert_eq!(run(border), out, "{border} of {positions} positions shared");
            }
            for head in 0..heads {
                let column = head / (heads / kv_heads) * head_dim;
                let weights: Vec<f64> = (0..positions)
                    .map(|t| {
                        let dot: f64 = (0..head_dim)
                            .map(|i| f64::from(query[head * head_dim + i]) * f64::from(keys[t * width + column + i]))
                            .sum();
                        (dot / (head_dim as f64).sqrt()).exp()
                    })
                    .collect();
                let total: f64 = weights.iter().sum();
                for i in 0..head_dim {
                    let expected: f64 = (0..positions)
                        .map(|t| weights[t] / total * f64::from(values[t * width + column + i]))
                        .sum();
                    assert!((f64::from(out[head * head_dim + i]) - expected).abs() < 1e-6);
                }
            }
        }
    }
}
