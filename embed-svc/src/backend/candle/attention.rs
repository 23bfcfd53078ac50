//! Attention of packed rows, group by group ([`super::plan`]), with the scores in 32 bits.

use candle_core::{DType, Result, Tensor};
use candle_nn::ops;

use super::{
    Attention, Candle, Norm,
    launch::counted,
    plan::{Group, Plan},
    product,
};

/// Values by head and distance, `heads × (2 · longest - 1)`, in 32 bits.
#[derive(Debug)]
pub struct Bias {
    pub(super) by_distance: Tensor,
    pub(super) longest: usize,
}

impl Bias {
    /// `heads × 1 × rows × rows`.
    fn of(&self, group: &Group) -> Result<Tensor> {
        let n = group.rows;
        let near = self.by_distance.narrow(1, self.longest - n, 2 * n - 1)?.contiguous()?;
        let heads = near.dim(0)?;
        counted(&[heads, n, n])?;
        near.index_select(&group.distances(near.device())?, 1)?
            .reshape((heads, 1, n, n))
    }
}

/// Learnt positions, `heads × width × rows`, and the row of each distance
/// ([`super::PositionWeights::row`]).
#[derive(Debug)]
pub struct Positions {
    pub(super) keys: Tensor,
    pub(super) queries: Tensor,
    pub(super) row: Tensor,
    pub(super) longest: usize,
}

impl Positions {
    /// The scores of learnt positions, `heads × texts × n × n`, for queries and keys of
    /// `heads × texts × n × width` each.
    fn scores(&self, queries: &Tensor, keys: &Tensor, group: &Group) -> Result<Tensor> {
        let (heads, texts, n, width) = queries.dims4()?;
        counted(&[heads, texts, n, n])?;
        let near = self.row.narrow(0, self.longest - n, 2 * n - 1)?;
        // Elements are indexed by key - query, `row` by query - key.
        let by_distance = near
            .index_select(&group.distances(near.device())?, 0)?
            .reshape((n, n))?;
        let find = |x: &Tensor, positions: &Tensor, rows: &Tensor| {
            let all = product(&x.reshape((heads, texts * n, width))?, &positions.to_dtype(DType::F32)?)?;
            let all = all.reshape((heads, texts, n, positions.dim(2)?))?;
            let rows = rows.reshape((1, 1, n, n))?.broadcast_as((heads, texts, n, n))?;
            all.gather(&rows.contiguous()?, 3)
        };
        // Element (query, key) of the first tensor uses row[query - key], and so does element (key,
        // query) of the second.
        let own = find(queries, &self.keys, &by_distance.t()?.contiguous()?)?;
        let other = find(keys, &self.queries, &by_distance)?;
        own + other.transpose(2, 3)?
    }
}

/// Computes rows of context from rows with queries, keys and values side by side.
pub(super) fn attend(qkv: &Tensor, plan: &Plan, how: &Attention<'_, Candle>) -> Result<Tensor> {
    let heads = how.heads;
    let rows = qkv.reshape((qkv.dim(0)?, heads.query + 2 * heads.key, heads.width))?;
    let rows = prepared(rows, plan, how)?;
    let grouped = plan
        .groups()?
        .iter()
        .map(|group| together(&rows, group, how))
        .collect::<Result<Vec<_>>>()?;
    plan.back(&grouped)
}

/// Normalises and rotates queries and keys.
fn prepared(rows: Tensor, plan: &Plan, how: &Attention<'_, Candle>) -> Result<Tensor> {
    if how.query_norm.is_none() && how.key_norm.is_none() && how.rotary.is_none() {
        return Ok(rows);
    }
    let (heads, tokens) = (how.heads, rows.dim(0)?);
    let part = |first: usize, count: usize, norm: Option<&Norm>| {
        let part = rows.narrow(1, first, count)?.contiguous()?;
        match norm {
            Some(norm) => {
                let width = norm.gamma.elem_count();
                let flat = part.reshape((part.elem_count() / width, width))?;
                norm.rows(&flat)?.reshape((tokens, count, heads.width))
            }
            None => Ok(part),
        }
    };
    let queries = part(0, heads.query, how.query_norm)?;
    let keys = part(heads.query, heads.key, how.key_norm)?;
    let values = part(heads.query + heads.key, heads.key, None)?;
    match how.rotary {
        Some(rotary) => {
            let turned = rotary.turn(&Tensor::cat(&[queries, keys], 1)?, plan)?;
            Tensor::cat(&[turned, values], 1)
        }
        None => Tensor::cat(&[queries, keys, values], 1),
    }
}

/// Attention of one group: from the rows of the batch to `texts · rows × hidden`.
fn together(rows: &Tensor, group: &Group, how: &Attention<'_, Candle>) -> Result<Tensor> {
    let heads = how.heads;
    let (texts, n, width) = (group.texts.len(), group.rows, heads.width);
    counted(&[heads.query + 2 * heads.key, texts, n, width])?;
    let own = group
        .of(rows)?
        .reshape((texts, n, heads.query + 2 * heads.key, width))?
        .permute((2, 0, 1, 3))?
        .contiguous()?;
    // Consecutive query heads share a key head.
    let spread = |first: usize| {
        let part = own.narrow(0, first, heads.key)?;
        let times = heads.query / heads.key;
        if times == 1 {
            return Ok(part);
        }
        part.unsqueeze(1)?
            .broadcast_as((heads.key, times, texts, n, width))?
            .contiguous()?
            .reshape((heads.query, texts, n, width))
    };
    // Scores in 16 bits would be off by up to 0.1 each, or would overflow before they are scaled.
    let queries = own.narrow(0, 0, heads.query)?.to_dtype(DType::F32)?;
    let keys = spread(heads.query)?.to_dtype(DType::F32)?;
    let values = spread(heads.query + heads.key)?;
    let bias = how.bias.map(|bias| bias.of(group)).transpose()?;
    let positions = how
        .positions
        .map(|positions| positions.scores(&queries, &keys, group))
        .transpose()?;
    let mask = group.mask(how.span, own.device())?;
    // Padding follows a text, so with causal attention no token sees it.
    let padding = group.padding.as_ref().filter(|_| how.span.after > 0);
    let turned = keys.t()?;
    let mut blocks = Vec::new();
    for first in (0..n).step_by(group.block) {
        let count = group.block.min(n - first);
        let block = |all: &Tensor, dim: usize| all.narrow(dim, first, count);
        let mut scores = product(&block(&queries, 2)?.contiguous()?, &turned)?;
        if let Some(positions) = &positions {
            scores = (scores + block(positions, 2)?)?;
        }
        scores = (scores * f64::from(how.scale))?;
        if let Some(bias) = &bias {
            scores = scores.broadcast_add(&block(bias, 2)?)?;
        }
        if let Some(mask) = &mask {
            scores = scores.broadcast_add(&block(mask, 0)?)?;
        }
        if let Some(padding) = padding {
            scores = scores.broadcast_add(padding)?;
        }
        let shares = ops::softmax_last_dim(&scores)?.to_dtype(values.dtype())?;
        blocks.push(product(&shares, &values)?);
    }
    Tensor::cat(&blocks, 2)?
        .permute((1, 2, 0, 3))?
        .contiguous()?
        .reshape((texts * n, heads.query * width))
}
