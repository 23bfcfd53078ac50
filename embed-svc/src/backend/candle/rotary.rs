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

    /// The pairing of a head's elements.
    #[cfg(feature = "cuda")]
    pub(super) fn pairs(&self) -> Pairs {
        self.rotation.pairs
    }

    /// Cosines, sines, and for every token of a batch its row in both.
    pub(super) fn angles(&self, plan: &Plan) -> Result<[Tensor; 3]> {
        if !plan.ranges().iter().any(|range| self.rotation.is_beyond(range.len())) {
            return Ok([self.cos.clone(), self.sin.clone(), plan.positions()?]);
        }
        let own = std::ptr::from_ref(self) as usize;
        let mut known = plan.angles.borrow_mut();
        if let Some((_, angles)) = known.iter().find(|(rotary, _)| *rotary == own) {
            return Ok(angles.clone());
        }
        let mut all = Angles::default();
        for range in plan.ranges() {
            let own = self.rotation.angles(range.len());
            all.length += own.length;
            all.cos.extend(own.cos);
            all.sin.extend(own.sin);
        }
        let device = self.cos.device();
        let (cos, sin) = tensors(&all, device)?;
        let angles = [
            cos,
            sin,
            Tensor::arange(0, u32::try_from(all.length).unwrap_or(u32::MAX), device)?,
        ];
        known.push((own, angles.clone()));
        Ok(angles)
    }

    /// Cosines and sines of every row of a batch.
    fn rows(&self, plan: &Plan) -> Result<(Tensor, Tensor)> {
        let [cos, sin, rows] = self.angles(plan)?;
        Ok((cos.index_select(&rows, 0)?, sin.index_select(&rows, 0)?))
    }

    /// Rotates `tokens × heads × width`, computed in 32 bits.
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
