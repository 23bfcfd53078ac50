//! Multi-head attention of one sequence (Vaswani et al. 2017, eq. 1), on the micro-kernel.
//!
//! For each head, keys and values are packed into panels. A panel of keys contains the transposed
//! keys of `width` positions, and a panel of values contains `width` columns of the values. Scores
//! and context are then two small products. If a query sees only some of the keys, panels that no
//! query of a block sees are not computed.

use std::ops::Range;

mod transpose;

use transpose::transpose;

use crate::{KBLOCK, Kernel, PackedMatrix, PanelSource, micro, rows};

/// Shape of a multi-head attention.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; a divisor of `heads`. Consecutive query heads share one
    /// (Ainslie et al. 2023).
    pub key_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
}

impl Shape {
    /// Number of values in a row with queries, keys and values side by side.
    pub fn row(&self) -> usize {
        (self.heads + 2 * self.key_heads) * self.head_dim
    }
}

/// The keys that a query sees: from `before` positions before its own to `after` positions after
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Number of positions before the query's own.
    pub before: usize,
    /// Number of positions after it.
    pub after: usize,
}

impl Span {
    /// Every key.
    pub const ALL: Self = Self {
        before: usize::MAX,
        after: usize::MAX,
    };
    /// The query's own position and all before it.
    pub const CAUSAL: Self = Self {
        before: usize::MAX,
        after: 0,
    };

    /// The union of the keys, out of `n`, that the queries in `queries` see.
    fn keys(self, queries: &Range<usize>, n: usize) -> Range<usize> {
        queries.start.saturating_sub(self.before)..queries.end.saturating_add(self.after).min(n)
    }
}

/// A bias on the scores: one value for each head and each distance.
#[derive(Debug, Clone, Copy)]
pub struct Bias<'a> {
    /// `heads × (2 · longest - 1)`: element `longest - 1 + key position - query position` of a
    /// head's row.
    pub by_distance: &'a [f32],
    /// Maximum length of a sequence.
    pub longest: usize,
}

impl Bias<'_> {
    /// The bias of one query over a range of keys.
    fn of(&self, head: usize, query: usize, keys: &Range<usize>) -> &[f32] {
        let row = head * (2 * self.longest - 1) + self.longest - 1 - query;
        &self.by_distance[row + keys.start..row + keys.end]
    }
}

/// Scores of learnt positions (He et al. 2021, eq. 4): of each query with the key's position, and
/// of each key with the query's position.
#[derive(Debug, Clone, Copy)]
pub struct Positions<'a> {
    /// For each head a matrix of `rows × head_dim`: positions as keys.
    pub keys: &'a [PackedMatrix],
    /// Positions as queries, in the same layout.
    pub queries: &'a [PackedMatrix],
    /// Row of each distance: element `longest - 1 + query position - key position`.
    pub row: &'a [u32],
    /// Maximum length of a sequence.
    pub longest: usize,
}

impl Positions<'_> {
    fn fits(&self, shape: Shape, n: usize) -> bool {
        let matrices = || self.keys.iter().chain(self.queries);
        let rows = self.keys.first().map_or(0, PackedMatrix::n);
        self.keys.len() == shape.heads
            && self.queries.len() == shape.heads
            && matrices().all(|matrix| matrix.n() == rows && matrix.k() == shape.head_dim)
            && n <= self.longest
            && self.row.len() == 2 * self.longest - 1
            && self.row.iter().all(|&row| (row as usize) < rows)
    }
}

/// Buffers that calls reuse.
#[derive(Debug, Default)]
pub struct Scratch {
    keys: Vec<f32>,
    values: Vec<f32>,
    scores: Vec<f32>,
    of_queries: Vec<f32>,
    of_keys: Vec<f32>,
}

/// Terms added to the products of queries and keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScoreTerms<'a> {
    /// Bias by head and distance, added after the scale.
    pub bias: Option<Bias<'a>>,
    /// Scores of learnt positions, added before the scale.
    pub positions: Option<Positions<'a>>,
}

/// Number of queries processed at once: their scores stay in a second-level cache.
const QUERY_BLOCK: usize = 48;

/// Attention of one sequence of `n` tokens.
///
/// `qkv` is `n × (heads + 2·key_heads)·head_dim`: queries, keys and values of a token side by side,
/// head after head, in the layout of one fused projection. `out` is `n × heads·head_dim`. Scores
/// are `scale · (q·k + positions) + bias`.
///
/// # Panics
/// If a slice's length does not match its shape, `heads` is not a multiple of `key_heads`, or the
/// sequence is longer than the bias or the positions permit.
pub fn self_attention(
    qkv: &[f32],
    n: usize,
    shape: Shape,
    span: Span,
    added: ScoreTerms<'_>,
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let Shape {
        heads,
        key_heads,
        head_dim,
        scale,
    } = shape;
    let (hidden, stride) = (heads * head_dim, shape.row());
    assert_eq!(qkv.len(), n * stride, "qkv is not n x (heads + 2 key_heads) head_dim");
    assert_eq!(out.len(), n * hidden, "out is not n x hidden");
    if n == 0 || hidden == 0 {
        return;
    }
    assert!(
        key_heads > 0 && heads.is_multiple_of(key_heads),
        "heads do not share keys evenly"
    );
    assert!(
        added
            .bias
            .is_none_or(|b| n <= b.longest && b.by_distance.len() == heads * (2 * b.longest - 1)),
        "the bias does not fit"
    );
    let ScoreTerms { bias, positions } = added;
    assert!(
        positions.is_none_or(|positions| positions.fits(shape, n)),
        "the positions do not fit"
    );
    let kernel = Kernel::best();
    let width = kernel.width();
    let (key_panels, value_panels) = (n.div_ceil(width), head_dim.div_ceil(width));
    // Rows of scores consist of whole panels and whole softmax runs, so they have no remainder.
    let padded = n.next_multiple_of(width.max(rows::LANES));
    let Scratch {
        keys,
        values,
        scores,
        of_queries,
        of_keys,
    } = scratch;
    grow(keys, key_panels * width * head_dim);
    grow(values, value_panels * width * n);
    grow(scores, QUERY_BLOCK * padded);
    let group = heads / key_heads;
    // A head reads short, distant pieces, which hardware prefetchers do not predict.
    let fetch = |head: usize| {
        let shared = hidden + head / group * head_dim;
        for row in qkv.chunks_exact(stride) {
            for column in [head * head_dim, shared, shared + key_heads * head_dim] {
                micro::fetch(&row[column..column + head_dim]);
            }
        }
    };
    fetch(0);
    for head in 0..heads {
        if head + 1 < heads {
            fetch(head + 1);
        }
        let column = head * head_dim;
        if head % group == 0 {
            let shared = hidden + head / group * head_dim;
            let keys = &mut keys[..key_panels * width * head_dim];
            pack_keys(keys, &qkv[shared..], n, stride, head_dim, width);
            let values = &mut values[..value_panels * width * n];
            let from = &qkv[shared + key_heads * head_dim..];
            pack_values(values, from, n, stride, head_dim, width);
        }
        if let Some(positions) = positions {
            let from = &qkv[hidden + head / group * head_dim..];
            by_position(from, stride, n, &positions.queries[head], of_keys);
        }
        for first in (0..n).step_by(QUERY_BLOCK) {
            let block = first..n.min(first + QUERY_BLOCK);
            let count = block.len();
            let seen = span.keys(&block, n);
            let queries = &qkv[first * stride + column..];
            let scores = &mut scores[..count * padded];
            for p in seen.start / width..seen.end.div_ceil(width) {
                kernel.run(
                    queries,
                    stride,
                    count,
                    &keys[p * width * head_dim..(p + 1) * width * head_dim],
                    head_dim,
                    &mut scores[p * width..],
                    padded,
                    width,
                    false,
                );
            }
            if let Some(positions) = positions {
                let table = &positions.keys[head];
                by_position(queries, stride, count, table, of_queries);
                let width = table.n();
                for ((query, row), own) in block
                    .clone()
                    .zip(scores.chunks_exact_mut(padded))
                    .zip(of_queries.chunks(width))
                {
                    for key in seen.clone() {
                        let at = positions.row[positions.longest - 1 + query - key] as usize;
                        row[key] += own[at] + of_keys[key * width + at];
                    }
                }
            }
            if span == Span::ALL {
                if let Some(bias) = bias {
                    for (query, row) in block.clone().zip(scores.chunks_exact_mut(padded)) {
                        rows::scale_add(&mut row[..n], scale, bias.of(head, query, &(0..n)));
                    }
                }
                rows::softmax_padded(scores, padded, n, if bias.is_some() { 1.0 } else { scale });
            } else {
                for (query, row) in block.clone().zip(scores.chunks_exact_mut(padded)) {
                    let sees = span.keys(&(query..query + 1), n);
                    row[seen.start..sees.start].fill(0.0);
                    row[sees.end..seen.end].fill(0.0);
                    let row = &mut row[sees.clone()];
                    if let Some(bias) = bias {
                        rows::scale_add(row, scale, bias.of(head, query, &sees));
                        rows::softmax(row, sees.len(), 1.0);
                    } else {
                        rows::softmax(row, sees.len(), scale);
                    }
                }
            }
            let context = &mut out[first * hidden + column..];
            for (p, panel) in values.chunks_exact(width * n).take(value_panels).enumerate() {
                let cols = width.min(head_dim - p * width);
                for start in seen.clone().step_by(KBLOCK) {
                    let depth = KBLOCK.min(seen.end - start);
                    kernel.run(
                        &scores[start..],
                        padded,
                        count,
                        &panel[start * width..],
                        depth,
                        &mut context[p * width..],
                        hidden,
                        cols,
                        start > seen.start,
                    );
                }
            }
        }
    }
}

/// Products of `count` strided rows with every row of a table: `count × table.n()`.
fn by_position(rows: &[f32], stride: usize, count: usize, table: &PackedMatrix, out: &mut Vec<f32>) {
    let (kernel, n, k) = (table.kernel(), table.n(), table.k());
    let width = kernel.width();
    grow(out, count * n);
    let mut unused = Vec::new();
    for p in 0..n.div_ceil(width) {
        for first in (0..k).step_by(KBLOCK) {
            let depth = KBLOCK.min(k - first);
            let panel = table.panel(p, first, depth, &mut unused);
            let (cols, out) = (width.min(n - p * width), &mut out[p * width..]);
            kernel.run(&rows[first..], stride, count, panel, depth, out, n, cols, first > 0);
        }
    }
}

fn grow(buffer: &mut Vec<f32>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
}

/// `panels[p][i][j]` = element `i` of the key at position `p · width + j`; zero beyond the last
/// position.
fn pack_keys(panels: &mut [f32], keys: &[f32], n: usize, stride: usize, head_dim: usize, width: usize) {
    for (p, panel) in panels.chunks_exact_mut(width * head_dim).enumerate() {
        let first = p * width;
        transpose(&keys[first * stride..], stride, n - first, panel, width, head_dim);
    }
}

/// `panels[p][i][j]` = element `p · width + j` of the value at position `i`; zero beyond the head's
/// width.
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
