//! Any device of Candle, in tensors. The CPU has a faster way ([`super::cpu`]); here it serves as a second opinion in tests
//! of what a GPU will run.

use candle_core::{Device, Tensor};
use candle_nn::ops;

use super::{Activation, Backend, Heads, Threads};
use crate::{batch::TokenBatch, error::EmbedError, weights::Floats};

/// Tensors on a device.
#[derive(Debug, Clone)]
pub struct Candle {
    device: Device,
}

/// A linear layer; the weight is transposed, `inputs × outputs`.
#[derive(Debug)]
pub struct Linear {
    weight: Tensor,
    bias: Tensor,
}

/// A layer normalisation.
#[derive(Debug)]
pub struct Norm {
    gamma: Tensor,
    beta: Tensor,
    eps: f32,
}

impl Candle {
    /// On this device.
    pub fn new(device: Device) -> Self {
        Self { device }
    }

    fn done<T>(&self, result: candle_core::Result<T>) -> Result<T, EmbedError> {
        result.map_err(|source| EmbedError::Compute {
            device: format!("{:?}", self.device.location()),
            source,
        })
    }

    fn attend(&self, qkv: &Tensor, batch: &TokenBatch, heads: Heads) -> candle_core::Result<Tensor> {
        let hidden = heads.count * heads.width;
        #[allow(clippy::cast_precision_loss)]
        let scale = 1.0 / (heads.width as f64).sqrt();
        let mut texts = Vec::with_capacity(batch.texts());
        for range in batch.ranges().filter(|range| !range.is_empty()) {
            let text = qkv.narrow(0, range.start, range.len())?;
            let part = |number: usize| {
                text.narrow(1, number * hidden, hidden)?
                    .reshape((range.len(), heads.count, heads.width))?
                    .transpose(0, 1)?
                    .contiguous()
            };
            let (queries, keys, values) = (part(0)?, part(1)?, part(2)?);
            let scores = (queries.matmul(&keys.t()?)? * scale)?;
            let context = ops::softmax_last_dim(&scores)?.matmul(&values)?;
            texts.push(context.transpose(0, 1)?.reshape((range.len(), hidden))?);
        }
        Tensor::cat(&texts, 0)
    }
}

impl Backend for Candle {
    type Linear = Linear;
    type Norm = Norm;
    type Table = Tensor;
    type States = Tensor;

    fn linear(&self, weights: &[f32], bias: &[f32], outputs: usize, inputs: usize) -> Result<Linear, EmbedError> {
        self.done((|| {
            Ok(Linear {
                weight: Tensor::from_slice(weights, (outputs, inputs), &self.device)?
                    .t()?
                    .contiguous()?,
                bias: Tensor::from_slice(bias, outputs, &self.device)?,
            })
        })())
    }

    fn norm(&self, gamma: &[f32], beta: &[f32], eps: f32) -> Result<Norm, EmbedError> {
        self.done((|| {
            Ok(Norm {
                gamma: Tensor::from_slice(gamma, gamma.len(), &self.device)?,
                beta: Tensor::from_slice(beta, beta.len(), &self.device)?,
                eps,
            })
        })())
    }

    fn table(&self, values: Floats, rows: usize, width: usize) -> Result<Tensor, EmbedError> {
        self.done(Tensor::from_slice(&values[..], (rows, width), &self.device))
    }

    fn embed(
        &self,
        batch: &TokenBatch,
        words: &Tensor,
        positions: &Tensor,
        types: &Tensor,
        _threads: Threads,
    ) -> Result<Tensor, EmbedError> {
        let places: Vec<u32> = batch
            .positions()
            .filter_map(|position| u32::try_from(position).ok())
            .collect();
        self.done((|| {
            let ids = Tensor::from_slice(batch.ids(), batch.tokens(), &self.device)?;
            let places = Tensor::from_slice(&places, batch.tokens(), &self.device)?;
            let states = words.index_select(&ids, 0)?.broadcast_add(&types.narrow(0, 0, 1)?)?;
            states + positions.index_select(&places, 0)?
        })())
    }

    fn apply(
        &self,
        x: &Tensor,
        layer: &Linear,
        activation: Activation,
        residual: Option<&Tensor>,
    ) -> Result<Tensor, EmbedError> {
        self.done((|| {
            let mut out = x.matmul(&layer.weight)?.broadcast_add(&layer.bias)?;
            if activation == Activation::Gelu {
                out = out.gelu_erf()?;
            }
            match residual {
                Some(residual) => out + residual,
                None => Ok(out),
            }
        })())
    }

    fn normalise(&self, x: Tensor, norm: &Norm) -> Result<Tensor, EmbedError> {
        self.done(ops::layer_norm(&x, &norm.gamma, &norm.beta, norm.eps))
    }

    fn attention(&self, qkv: &Tensor, batch: &TokenBatch, heads: Heads) -> Result<Tensor, EmbedError> {
        self.done(self.attend(qkv, batch, heads))
    }

    fn read(&self, x: &Tensor, visit: &mut dyn FnMut(&[f32])) -> Result<(), EmbedError> {
        let values = self.done(x.flatten_all().and_then(|flat| flat.to_vec1::<f32>()))?;
        visit(&values);
        Ok(())
    }
}
