//! Bidirectional multi-head attention of one sequence (Vaswani et al. 2017, eq. 1), on the micro-kernel.
//!
//! For each head the keys and the values become panels: a panel of keys is the transposed keys of `width` positions, a panel
//! of values is simply `width` columns of them. Scores and context are then two small products.

use crate::{KBLOCK, Kernel, rows};

/// Shape of a multi-head attention.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of heads.
    pub heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
}

/// Buffers that calls reuse.
#[derive(Debug, Default)]
pub struct Scratch {
    keys: Vec<f32>,
    values: Vec<f32>,
    scores: Vec<f32>,
}

/// Queries handled at once: their scores stay in a second-level cache.
const QUERY_BLOCK: usize = 48;

/// Attention of one sequence of `n` tokens.
///
/// `qkv` is `n × 3·heads·head_dim`: queries, keys and values of a token side by side, each head after head, as one fused
/// projection writes them. `out` is `n × heads·head_dim`.
///
/// # Panics
/// When a slice does not have the length its shape says.
pub fn self_attention(qkv: &[f32], n: usize, shape: Shape, scratch: &mut Scratch, out: &mut [f32]) {
    let Shape { heads, head_dim, scale } = shape;
    let hidden = heads * head_dim;
    let stride = 3 * hidden;
    assert_eq!(qkv.len(), n * stride, "qkv is not n x 3 hidden");
    assert_eq!(out.len(), n * hidden, "out is not n x hidden");
    if n == 0 || hidden == 0 {
        return;
    }
    let kernel = Kernel::best();
    let width = kernel.width();
    let (key_panels, value_panels) = (n.div_ceil(width), head_dim.div_ceil(width));
    let Scratch { keys, values, scores } = scratch;
    grow(keys, key_panels * width * head_dim);
    grow(values, value_panels * width * n);
    grow(scores, QUERY_BLOCK * n);
    for head in 0..heads {
        let column = head * head_dim;
        pack_keys(
            &mut keys[..key_panels * width * head_dim],
            &qkv[hidden + column..],
            n,
            stride,
            head_dim,
            width,
        );
        pack_values(
            &mut values[..value_panels * width * n],
            &qkv[2 * hidden + column..],
            n,
            stride,
            head_dim,
            width,
        );
        for first in (0..n).step_by(QUERY_BLOCK) {
            let count = QUERY_BLOCK.min(n - first);
            let queries = &qkv[first * stride + column..];
            let scores = &mut scores[..count * n];
            for (p, panel) in keys.chunks_exact(width * head_dim).take(key_panels).enumerate() {
                kernel.run(
                    queries,
                    stride,
                    count,
                    panel,
                    head_dim,
                    &mut scores[p * width..],
                    n,
                    width.min(n - p * width),
                    false,
                );
            }
            rows::softmax(scores, n, scale);
            let context = &mut out[first * hidden + column..];
            for (p, panel) in values.chunks_exact(width * n).take(value_panels).enumerate() {
                let cols = width.min(head_dim - p * width);
                for start in (0..n).step_by(KBLOCK) {
                    let depth = KBLOCK.min(n - start);
                    kernel.run(
                        &scores[start..],
                        n,
                        count,
                        &panel[start * width..],
                        depth,
                        &mut context[p * width..],
                        hidden,
                        cols,
                        start > 0,
                    );
                }
            }
        }
    }
}

fn grow(buffer: &mut Vec<f32>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
}

/// `panels[p][i][j]` = element `i` of the key at position `p · width + j`; zero beyond the last position.
fn pack_keys(panels: &mut [f32], keys: &[f32], n: usize, stride: usize, head_dim: usize, width: usize) {
    for (p, panel) in panels.chunks_exact_mut(width * head_dim).enumerate() {
        for j in 0..width {
            let position = p * width + j;
            if position < n {
                for (i, &key) in keys[position * stride..position * stride + head_dim].iter().enumerate() {
                    panel[i * width + j] = key;
                }
            } else {
                for i in 0..head_dim {
                    panel[i * width + j] = 0.0;
                }
            }
        }
    }
}

/// `panels[p][i][j]` = element `p · width + j` of the value at position `i`; zero beyond the head's width.
fn pack_values(panels: &mut [f32], values: &[f32], n: usize, stride: usize, head_dim: usize, width: usize) {
    for (p, panel) in panels.chunks_exact_mut(width * n).enumerate() {
        let cols = width.min(head_dim - p * width);
        for (i, row) in panel.chunks_exact_mut(width).enumerate() {
            let from = i * stride + p * width;
            row[..cols].copy_from_slice(&values[from..from + cols]);
            row[cols..].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests;
