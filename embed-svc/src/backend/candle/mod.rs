//! Any device of Candle, with tensors. The CPU has a faster backend ([`super::cpu`]), and Candle on
//! the CPU serves as a reference in tests. An NVIDIA GPU computes with our own kernels (`cuda.rs`),
//! and with Candle's for other operations.
//!
//! In 16 bits (`f16`, `bf16`) weights and states are rounded. Sums of products, scores,
//! normalisations, rotations, softmax and the pooling are computed in 32 bits.

mod attention;
#[cfg(feature = "cuda")]
mod cuda;
mod launch;
mod plan;
mod rotary;

use candle_core::{D, DType, Device, Tensor};
use candle_nn::ops;

pub use attention::{Bias, Positions};
use launch::counted;
pub use plan::Plan;
pub use rotary::Rotary;

use super::{
    Activation, Attention, Backend, Heads, Layers, NormWeights, Pairs, PositionWeights, Rotation, Rows, Sink, Span,
    Threads,
};
use crate::{batch::TokenBatch, device::Precision, error::EmbedError, weights};

/// Tensors on a device, in one element type.
#[derive(Debug, Clone)]
pub struct Candle {
    device: Device,
    dtype: DType,
    #[cfg(feature = "cuda")]
    gpu: Option<std::sync::Arc<cuda::Gpu>>,
}

/// Returns the result of our kernels, if the device is a GPU that supports them.
macro_rules! on_gpu {
    ($on:ident, $gpu:ident => $result:expr) => {
        #[cfg(feature = "cuda")]
        if let Some($gpu) = &$on.gpu {
            return $on.done($result);
        }
    };
}

/// A linear layer. The weight is `outputs × inputs` for our kernels; otherwise it is transposed.
#[derive(Debug)]
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

/// A normalisation, with its weights in 32 bits.
#[derive(Debug)]
pub struct Norm {
    gamma: Tensor,
    /// The offset of a layer normalisation.
    beta: Option<Tensor>,
    eps: f32,
}

impl Norm {
    fn rows(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let wide = x.to_dtype(DType::F32)?;
        match &self.beta {
            Some(beta) => ops::layer_norm(&wide, &self.gamma, beta, self.eps),
            None => ops::rms_norm(&wide, &self.gamma, self.eps),
        }?
        .to_dtype(x.dtype())
    }
}

/// `a · b` in their own type, summed in 32 bits.
fn product(a: &Tensor, b: &Tensor) -> candle_core::Result<Tensor> {
    wide_product(a, b)?.to_dtype(a.dtype())
}

/// `a · b` in 32 bits. On a GPU the library first rounds it to the type of the operands.
fn wide_product(a: &Tensor, b: &Tensor) -> candle_core::Result<Tensor> {
    let (outer, columns) = (a.dims(), b.dim(D::Minus1)?);
    counted(&[&outer[..outer.len().saturating_sub(1)], &[columns]].concat())?;
    if a.device().is_cpu() {
        return a.to_dtype(DType::F32)?.matmul(&b.to_dtype(DType::F32)?);
    }
    a.matmul(b)?.to_dtype(DType::F32)
}

fn activate(x: Tensor, activation: Activation) -> candle_core::Result<Tensor> {
    match activation {
        Activation::Identity => Ok(x),
        Activation::Gelu => x.gelu_erf(),
        Activation::GeluTanh => x.gelu(),
        Activation::Relu => x.relu(),
        Activation::Silu => x.silu(),
        Activation::Tanh => x.tanh(),
    }
}

impl Candle {
    /// A backend on this device, with this arithmetic.
    ///
    /// # Errors
    /// If the kernels cannot be loaded.
    pub fn new(device: Device, precision: Precision) -> Result<Self, EmbedError> {
        let dtype = match precision {
            Precision::F16 => DType::F16,
            Precision::Bf16 => DType::BF16,
            // The choice of a device has already refused integers.
            Precision::F32 | Precision::Int8 => DType::F32,
        };
        #[cfg_attr(not(feature = "cuda"), allow(unused_mut))]
        let mut on = Self {
            device,
            dtype,
            #[cfg(feature = "cuda")]
            gpu: None,
        };
        #[cfg(feature = "cuda")]
        if let Device::Cuda(device) = &on.device {
            on.gpu = Some(on.done(cuda::Gpu::new(device, dtype))?.into());
        }
        Ok(on)
    }

    /// Whether our own kernels compute this backend's layers.
    fn has_kernels(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.gpu.is_some();
        #[cfg(not(feature = "cuda"))]
        false
    }

    fn done<T>(&self, result: candle_core::Result<T>) -> Result<T, EmbedError> {
        result.map_err(|source| EmbedError::compute(format!("{:?}", self.device.location()), source))
    }

    /// `x · Wᵀ + b` in 32 bits.
    fn apply_linear(&self, x: &Tensor, layer: &Linear) -> candle_core::Result<Tensor> {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            return gpu.apply(x, layer, Activation::Identity, None)?.to_dtype(DType::F32);
        }
        let out = wide_product(x, &layer.weight)?;
        match &layer.bias {
            Some(bias) => out.broadcast_add(&bias.to_dtype(DType::F32)?),
            None => Ok(out),
        }
    }

    fn rows(&self, rows: &[u32]) -> candle_core::Result<Tensor> {
        Tensor::from_slice(rows, rows.len(), &self.device)
    }

    /// The rows of a table at these indices.
    fn find(&self, table: &Tensor, rows: &[u32]) -> candle_core::Result<Tensor> {
        counted(&[rows.len(), table.dim(1)?])?;
        table.index_select(&self.rows(rows)?, 0)
    }

    fn vector(&self, values: &[f32]) -> candle_core::Result<Tensor> {
        Tensor::from_slice(values, values.len(), &self.device)?.to_dtype(self.dtype)
    }

    /// The sums that a batch requests, in the order of its texts; zero for empty texts.
    fn sums(&self, x: &Tensor, batch: &TokenBatch, plan: &Plan, sink: &mut Sink<'_>) -> candle_core::Result<bool> {
        let Some(wanted) = batch.sums() else { return Ok(false) };
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            let sums = gpu.pool(x, plan, wanted)?.flatten_all()?;
            (sink.launched)();
            (sink.visit)(Rows::Sums(&sums.to_vec1()?));
            return Ok(true);
        }
        let (sums, order) = plan.sums(x, wanted)?;
        let row = wanted.count * sums.dim(1)?;
        let sums = sums.flatten_all()?;
        (sink.launched)();
        let found = sums.to_vec1::<f32>()?;
        let mut values = vec![0.0; batch.texts() * row];
        for (text, found) in order.into_iter().zip(found.chunks_exact(row)) {
            values[text * row..(text + 1) * row].copy_from_slice(found);
        }
        (sink.visit)(Rows::Sums(&values));
        Ok(true)
    }
}

impl Layers for Candle {
    type Linear = Linear;
    type Norm = Norm;
    type Table = Tensor;
    type Rotary = Rotary;
    type Bias = Bias;
    type Positions = Positions;

    fn linear(
        &self,
        weights: &[f32],
        bias: Option<&[f32]>,
        outputs: usize,
        inputs: usize,
    ) -> Result<Linear, EmbedError> {
        self.done((|| {
            counted(&[outputs, inputs])?;
            let weight = Tensor::from_slice(weights, (outputs, inputs), &self.device)?.to_dtype(self.dtype)?;
            Ok(Linear {
                weight: if self.has_kernels() {
                    weight
                } else {
                    weight.t()?.contiguous()?
                },
                bias: bias.map(|bias| self.vector(bias)).transpose()?,
            })
        })())
    }

    fn norm(&self, weights: NormWeights<'_>, eps: f32) -> Result<Norm, EmbedError> {
        self.done((|| {
            let vector = |values: &[f32]| Tensor::from_slice(values, values.len(), &self.device);
            let (gamma, beta) = match weights {
                NormWeights::Layer { gamma, beta } => {
                    let beta = match beta {
                        Some(beta) => vector(beta)?,
                        None => vector(gamma)?.zeros_like()?,
                    };
                    (gamma, Some(beta))
                }
                NormWeights::Rms { gamma } => (gamma, None),
            };
            Ok(Norm {
                gamma: vector(gamma)?,
                beta,
                eps,
            })
        })())
    }

    fn table(&self, table: weights::Table) -> Result<Tensor, EmbedError> {
        let shape = (table.rows(), table.width());
        let values = table.all()?;
        let table = || Tensor::from_slice(&values[..], shape, &self.device)?.to_dtype(self.dtype);
        self.done(counted(&[shape.0, shape.1]).and_then(|()| table()))
    }

    fn rotary(&self, rotation: Rotation, longest: usize) -> Result<Rotary, EmbedError> {
        self.done(Rotary::new(rotation, longest, &self.device))
    }

    fn bias(&self, by_distance: Vec<f32>, heads: usize, longest: usize) -> Result<Bias, EmbedError> {
        let by_distance = self.done(Tensor::from_vec(by_distance, (heads, 2 * longest - 1), &self.device))?;
        Ok(Bias { by_distance, longest })
    }

    fn positions(&self, weights: PositionWeights, heads: Heads) -> Result<Positions, EmbedError> {
        let split = |values: &[f32]| {
            Tensor::from_slice(values, (weights.rows, heads.query, heads.width), &self.device)?
                .to_dtype(self.dtype)?
                .permute((1, 2, 0))?
                .contiguous()
        };
        Ok(Positions {
            keys: self.done(split(&weights.keys))?,
            queries: self.done(split(&weights.queries))?,
            row: self.done(self.rows(&weights.row))?,
            longest: weights.longest,
        })
    }
}

impl Backend for Candle {
    type States = Tensor;
    type Plan = Plan;

    fn plan(&self, batch: &TokenBatch) -> Plan {
        Plan::new(batch, &self.device)
    }

    fn gather(&self, table: &Tensor, rows: &[u32], _threads: Threads) -> Result<Tensor, EmbedError> {
        on_gpu!(self, gpu => self.rows(rows).and_then(|rows| gpu.gather(table, &rows, None)));
        self.done(self.find(table, rows))
    }

    fn add_rows(&self, x: Tensor, table: &Tensor, rows: &[u32]) -> Result<Tensor, EmbedError> {
        on_gpu!(self, gpu => self.rows(rows).and_then(|rows| gpu.gather(table, &rows, Some(x))));
        self.done(self.find(table, rows).and_then(|found| x + found))
    }

    fn scale(&self, x: Tensor, factor: f32) -> Result<Tensor, EmbedError> {
        self.done(x * f64::from(factor))
    }

    fn add(&self, x: Tensor, other: &Tensor) -> Result<Tensor, EmbedError> {
        self.done(x + other)
    }

    fn apply(
        &self,
        x: &Tensor,
        layer: &Linear,
        activation: Activation,
        residual: Option<&Tensor>,
    ) -> Result<Tensor, EmbedError> {
        on_gpu!(self, gpu => gpu.apply(x, layer, activation, residual));
        self.done((|| {
            let mut out = activate(self.apply_linear(x, layer)?, activation)?;
            if let Some(residual) = residual {
                out = (out + residual.to_dtype(DType::F32)?)?;
            }
            out.to_dtype(x.dtype())
        })())
    }

    fn gated(&self, x: &Tensor, gate: &Linear, up: &Linear, activation: Activation) -> Result<Tensor, EmbedError> {
        on_gpu!(self, gpu => gpu.gated(x, gate, up, activation));
        self.done((|| {
            let gate = activate(self.apply_linear(x, gate)?, activation)?;
            (gate * self.apply_linear(x, up)?)?.to_dtype(x.dtype())
        })())
    }

    fn normalise(&self, x: Tensor, norm: &Norm) -> Result<Tensor, EmbedError> {
        on_gpu!(self, gpu => gpu.normalise(x, norm));
        self.normalised(&x, norm)
    }

    fn normalised(&self, x: &Tensor, norm: &Norm) -> Result<Tensor, EmbedError> {
        on_gpu!(self, gpu => gpu.normalised(x, norm));
        self.done(norm.rows(x))
    }

    fn shares(&self, x: &Tensor, scores: &Linear, width: usize) -> Result<Tensor, EmbedError> {
        self.done((|| {
            let wide = |tensor: &Tensor| tensor.to_dtype(DType::F32);
            let scores = Linear {
                weight: wide(&scores.weight)?,
                bias: scores.bias.as_ref().map(wide).transpose()?,
            };
            let scores = self.apply_linear(&wide(x)?, &scores)?;
            let (rows, columns) = scores.dims2()?;
            ops::softmax_last_dim(&scores.reshape((rows * (columns / width), width))?)?
                .reshape((rows, columns))?
                .to_dtype(x.dtype())
        })())
    }

    fn attention(
        &self,
        qkv: Tensor,
        _batch: &TokenBatch,
        plan: &Plan,
        how: &Attention<'_, Self>,
    ) -> Result<Tensor, EmbedError> {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu
            && let Some(context) = self.done(gpu.attend(&qkv, plan, how))?
        {
            return Ok(context);
        }
        self.done(attention::attend(&qkv, plan, how))
    }

    fn read(&self, x: &Tensor, batch: &TokenBatch, plan: &Plan, sink: &mut Sink<'_>) -> Result<(), EmbedError> {
        if self.done(self.sums(x, batch, plan, sink))? {
            return Ok(());
        }
        let flat = self.done(x.to_dtype(DType::F32).and_then(|x| x.flatten_all()))?;
        (sink.launched)();
        let values = self.done(flat.to_vec1::<f32>())?;
        (sink.visit)(Rows::Tokens(&values));
        Ok(())
    }
}
