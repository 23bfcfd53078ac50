//! Attention by our own kernels, including the normalisation and rotation of queries and keys.

use candle_core::{DType, Result, Tensor, cuda_backend::cudarc::driver::DeviceRepr};

use super::{
    super::{Attention, Candle, Norm, Pairs, Rotary, plan::Plan},
    Address, Gpu, Launch, address, arguments, count, optional, unwritten,
};

// These structs match those in `cuda/kernels.cu`.
arguments! {
    struct RotateArgs (80) {
        x: Address, cos: Address, sin: Address, rows: Address, query_gamma: Address, key_gamma: Address,
        query_eps: f32, key_eps: f32, query_heads: i32, key_heads: i32, width: i32, half: i32, neighbours: i32,
    }
    struct AttendArgs (64) {
        qkv: Address, out: Address, tiles: Address, bias: Address, query_heads: i32, key_heads: i32, width: i32,
        longest: i32, scale: f32, before: i32, after: i32,
    }
}

impl Gpu {
    /// Attention of packed rows, or `None` if no kernel supports it.
    pub(in super::super) fn attend(
        &self,
        qkv: &Tensor,
        plan: &Plan,
        how: &Attention<'_, Candle>,
    ) -> Result<Option<Tensor>> {
        let heads = how.heads;
        let Some(padded) = [32, 64, 128, 256].into_iter().find(|width| heads.width <= *width) else {
            return Ok(None);
        };
        let units = self.dtype != DType::F32 && heads.width.is_multiple_of(8);
        // The kernels find the maximum score before they apply the scale.
        if how.positions.is_some() || how.scale <= 0.0 || !(units || self.dtype == DType::F32) {
            return Ok(None);
        }
        let tokens = qkv.dim(0)?;
        // The rotation also normalises heads; every other normalisation is its own launch.
        let fused = |norm: Option<&'_ Norm>| {
            norm.is_some_and(|norm| {
                how.rotary.is_some() && norm.beta.is_none() && norm.gamma.elem_count() == heads.width
            })
        };
        let parts = [
            (how.query_norm, 0, heads.query),
            (how.key_norm, heads.query * heads.width, heads.key),
        ];
        for (norm, first, count) in parts {
            if let Some(norm) = norm.filter(|norm| !fused(Some(*norm))) {
                let parts = if norm.gamma.elem_count() == heads.width {
                    count
                } else {
                    1
                };
                self.norm(qkv, qkv, norm, first, parts)?;
            }
        }
        if let Some(rotary) = how.rotary {
            let [query, key] = [how.query_norm, how.key_norm].map(|norm| norm.filter(|norm| fused(Some(*norm))));
            self.rotate(qkv, plan, how, rotary, [query, key])?;
        }
        let context = unwritten((tokens, heads.query * heads.width), self.dtype, qkv.device())?;
        let (tiles, runs) = plan.tiles(units)?;
        let reach = |span: usize| i32::try_from(span).unwrap_or(i32::MAX).min(1 << 30);
        let first = address(&tiles)?;
        for run in runs {
            let queries = 16 * run.warps;
            let (name, threads, shared) = if units {
                // Measured on an H100: two tiles per warp are faster except for heads of 64
                // columns; for 256 there are too few registers.
                let tiles = if run.warps == 8 && matches!(padded, 32 | 128) {
                    2
                } else {
                    1
                };
                let (warps, keys) = (run.warps / tiles, queries.min(64));
                let shared = 2 * padded * (queries + 4 * keys) + 8 * (queries + keys);
                let name = format!("attend_{}_{padded}_{warps}x{tiles}", self.dtype.as_str());
                (name, 32 * warps, shared)
            } else {
                (
                    format!("attend_f32_{padded}"),
                    256,
                    4 * 64 * (2 * (padded + 4) + padded + 68),
                )
            };
            let launch = Launch {
                grid: (run.tiles.len(), heads.query),
                threads,
                shared,
            };
            let arguments = AttendArgs {
                qkv: address(qkv)?,
                out: address(&context)?,
                tiles: first + 12 * run.tiles.start as u64,
                bias: optional(how.bias.map(|bias| &bias.by_distance))?,
                query_heads: count(heads.query)?,
                key_heads: count(heads.key)?,
                width: count(heads.width)?,
                longest: count(how.bias.map_or(0, |bias| bias.longest))?,
                scale: how.scale,
                before: reach(how.span.before),
                after: reach(how.span.after),
            };
            self.launch(&name, launch, &arguments)?;
        }
        Ok(Some(context))
    }

    fn rotate(
        &self,
        qkv: &Tensor,
        plan: &Plan,
        how: &Attention<'_, Candle>,
        rotary: &Rotary,
        [query, key]: [Option<&Norm>; 2],
    ) -> Result<()> {
        let [cos, sin, rows] = rotary.angles(plan)?;
        let launch = Launch {
            grid: (qkv.dim(0)?, 1),
            threads: 128,
            shared: 0,
        };
        let arguments = RotateArgs {
            x: address(qkv)?,
            cos: address(&cos)?,
            sin: address(&sin)?,
            rows: address(&rows)?,
            query_gamma: optional(query.map(|norm| &norm.gamma))?,
            key_gamma: optional(key.map(|norm| &norm.gamma))?,
            query_eps: query.map_or(0.0, |norm| norm.eps),
            key_eps: key.map_or(0.0, |norm| norm.eps),
            query_heads: count(how.heads.query)?,
            key_heads: count(how.heads.key)?,
            width: count(how.heads.width)?,
            half: count(cos.dim(1)?)?,
            neighbours: i32::from(rotary.pairs() == Pairs::Neighbours),
        };
        self.launch(&self.named("rotate"), launch, &arguments)
    }
}
