//! Rotary positions on packed rows.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::rotary_emb::rope_thd;

use super::{Pairs, Rotation, plan::Plan};
use crate::backend::rotation::Angles;

/// A rotation with its cosines and sines, `positions × pairs`.
#[derive(Debug)]
pub struct Rotary {
    rotation: Rotation,
    cos: Tensor,
    sin: Tensor,
}

fn tensors(angles: &Angles, device: &Device) -> Result<(Tensor, Tensor)> {
    let shape = (angles.length, angles.cos.len() / angles.length.max(1));
    Ok((
        Tensor::from_slice(&angles.cos, shape, device)?,
        Tensor::from_slice(&angles.sin, shape, device)?,
    ))
}

impl Rotary {
    pub(super) fn new(rotation: Rotation, longest: usize, device: &Device) -> Result<Self> {
        let plain = rotation
            .beyond
            .as_ref()
            .map_or(longest, |beyond| longest.min(beyond.limit));
        let (cos, sin) = tensors(&rotation.angles(plain), device)?;
        Ok(Self { rotation, cos, sin })
    }

    /// Cosines and sines of every row of a batch.
    fn rows(&self, plan: &Plan) -> Result<(Tensor, Tensor)> {
        if plan.ranges().iter().any(|range| self.rotation.is_beyond(range.len())) {
            // Long texts have their own angles.
            let mut all = Angles::default();
            for range in plan.ranges() {
                let own = self.rotation.angles(range.len());
                all.length += own.length;
                all.cos.extend(own.cos);
                all.sin.extend(own.sin);
            }
            return tensors(&all, self.cos.device());
        }
        let positions = plan.positions()?;
        Ok((
            self.cos.index_select(&positions, 0)?,
            self.sin.index_select(&positions, 0)?,
        ))
    }

    /// Rotates `tokens × heads × width`, computing in 32 bits.
    pub(super) fn turn(&self, x: &Tensor, plan: &Plan) -> Result<Tensor> {
        let (cos, sin) = self.rows(plan)?;
        let (tokens, heads, width) = x.dims3()?;
        let half = self.rotation.frequencies.len();
        let full = x.to_dtype(DType::F32)?;
        if self.rotation.pairs == Pairs::Halves && 2 * half == width {
            let full = full.contiguous()?.reshape((1, tokens, heads, width))?;
            return rope_thd(&full, &cos, &sin)?
                .reshape((tokens, heads, width))?
                .to_dtype(x.dtype());
        }
        let (cos, sin) = (cos.unsqueeze(1)?, sin.unsqueeze(1)?);
        let turned = full.narrow(2, 0, 2 * half)?;
        let (a, b) = match self.rotation.pairs {
            Pairs::Halves => (turned.narrow(2, 0, half)?, turned.narrow(2, half, half)?),
            Pairs::Neighbours => {
                let pairs = turned.contiguous()?.reshape((tokens, heads, half, 2))?;
                (pairs.narrow(3, 0, 1)?.squeeze(3)?, pairs.narrow(3, 1, 1)?.squeeze(3)?)
            }
        };
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        let turned = match self.rotation.pairs {
            Pairs::Halves => Tensor::cat(&[first, second], 2)?,
            Pairs::Neighbours => Tensor::stack(&[first, second], 3)?.reshape((tokens, heads, 2 * half))?,
        };
        let turned = if 2 * half == width {
            turned
        } else {
            Tensor::cat(&[turned, full.narrow(2, 2 * half, width - 2 * half)?.contiguous()?], 2)?
        };
        turned.to_dtype(x.dtype())
    }
}
