//! Flash attention of packed texts of any lengths (Dao 2023): no padding, no scores in memory.

use candle_core::{DType, Result, Tensor};
use candle_flash_attn::flash_attn_varlen_windowed;

use super::{Attention, Candle, plan::Plan};

/// Widths of heads that the kernels support.
const WIDTHS: [usize; 3] = [32, 64, 128];

/// Whether flash attention can compute this: on a GPU, in 16 bits, nothing added to the scores.
pub(super) fn serves(rows: &Tensor, how: &Attention<'_, Candle>) -> bool {
    rows.device().is_cuda()
        && matches!(rows.dtype(), DType::F16 | DType::BF16)
        && WIDTHS.contains(&how.heads.width)
        && how.bias.is_none()
        && how.positions.is_none()
}

/// `tokens × (queries, keys, values) × width` to `tokens × hidden`.
pub(super) fn attend(rows: &Tensor, plan: &Plan, how: &Attention<'_, Candle>) -> Result<Tensor> {
    let heads = how.heads;
    let queries = rows.narrow(1, 0, heads.query)?;
    let keys = rows.narrow(1, heads.query, heads.key)?;
    let values = rows.narrow(1, heads.query + heads.key, heads.key)?;
    let longest = plan.ranges().iter().map(std::ops::Range::len).max().unwrap_or(0);
    let reach = |span: usize| (span < longest).then_some(span);
    let offsets = plan.offsets()?;
    flash_attn_varlen_windowed(
        &queries,
        &keys,
        &values,
        &offsets,
        &offsets,
        longest,
        longest,
        how.scale,
        reach(how.span.before),
        reach(how.span.after),
    )?
    .reshape((rows.dim(0)?, heads.query * heads.width))
}
