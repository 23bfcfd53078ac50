//! Any device of Candle, in tensors. The CPU has a faster way ([`super::cpu`]); here it serves as a second opinion in tests
//! of what a GPU will run.

use candle_core::{Device, Tensor};
use candle_nn::ops;

use super::{
    Activation, Attention, Backend, Heads, Layers, NormWeights, Pairs, PositionWeights, Rotation, Span, Threads,
    rotation::Angles,
};
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
    bias: Option<Tensor>,
}

/// A normalisation.
#[derive(Debug)]
pub struct Norm {
    gamma: Tensor,
    /// Of a layer normalisation.
    beta: Option<Tensor>,
    eps: f32,
}

impl Norm {
    fn rows(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        match &self.beta {
            Some(beta) => ops::layer_norm(x, &self.gamma, beta, self.eps),
            None => ops::rms_norm(x, &self.gamma, self.eps),
        }
    }
}

/// A rotation with its cosines and sines, `positions × pairs`.
#[derive(Debug)]
pub struct Rotary {
    rotation: Rotation,
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    fn tensors(angles: &Angles, device: &Device) -> candle_core::Result<(Tensor, Tensor)> {
        let shape = (angles.length, angles.cos.len() / angles.length.max(1));
        Ok((
            Tensor::from_slice(&angles.cos, shape, device)?,
            Tensor::from_slice(&angles.sin, shape, device)?,
        ))
    }

    /// Turns `heads × n × width`.
    fn turn(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let (heads, n, width) = x.dims3()?;
        let (cos, sin) = if self.rotation.is_beyond(n) {
            Self::tensors(&self.rotation.angles(n), x.device())?
        } else {
            (self.cos.narrow(0, 0, n)?, self.sin.narrow(0, 0, n)?)
        };
        let half = self.rotation.frequencies.len();
        let turned = x.narrow(2, 0, 2 * half)?;
        let (a, b) = match self.rotation.pairs {
            Pairs::Halves => (turned.narrow(2, 0, half)?, turned.narrow(2, half, half)?),
            Pairs::Neighbours => {
                let pairs = turned.reshape((heads, n, half, 2))?;
                (pairs.narrow(3, 0, 1)?.squeeze(3)?, pairs.narrow(3, 1, 1)?.squeeze(3)?)
            }
        };
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        let turned = match self.rotation.pairs {
            Pairs::Halves => Tensor::cat(&[first, second], 2)?,
            Pairs::Neighbours => Tensor::stack(&[first, second], 3)?.reshape((heads, n, 2 * half))?,
        };
        if 2 * half == width {
            return Ok(turned);
        }
        Tensor::cat(&[turned, x.narrow(2, 2 * half, width - 2 * half)?], 2)
    }
}

/// Values by head and distance, `heads × (2 · longest - 1)`.
#[derive(Debug)]
pub struct Bias {
    by_distance: Tensor,
    longest: usize,
}

impl Bias {
    /// `heads × n × n`.
    fn of_length(&self, n: usize) -> candle_core::Result<Tensor> {
        let index = |query: usize| (0..n).map(move |key| self.longest - 1 + key - query);
        let columns: Vec<u32> = (0..n)
            .flat_map(index)
            .filter_map(|column| u32::try_from(column).ok())
            .collect();
        let columns = Tensor::from_vec(columns, n * n, self.by_distance.device())?;
        let heads = self.by_distance.dim(0)?;
        self.by_distance.index_select(&columns, 1)?.reshape((heads, n, n))
    }
}

/// Learnt positions, `heads × rows × width`.
#[derive(Debug)]
pub struct Positions {
    keys: Tensor,
    queries: Tensor,
    row: Vec<u32>,
    longest: usize,
}

impl Positions {
    /// What is added to the scores of `heads × n × width` queries and keys.
    fn scores(&self, queries: &Tensor, keys: &Tensor) -> candle_core::Result<Tensor> {
        let (heads, n, _) = queries.dims3()?;
        let index = |sign: bool| {
            let of = |i: usize, j: usize| {
                self.row[if sign {
                    self.longest - 1 + i - j
                } else {
                    self.longest - 1 + j - i
                }]
            };
            let rows: Vec<u32> = (0..n * n).map(|at| of(at / n, at % n)).collect();
            Tensor::from_vec(rows, (1, n, n), queries.device())?
                .broadcast_as((heads, n, n))?
                .contiguous()
        };
        let own = queries
            .matmul(&self.keys.t()?.contiguous()?)?
            .gather(&index(true)?, 2)?;
        let other = keys
            .matmul(&self.queries.t()?.contiguous()?)?
            .gather(&index(false)?, 2)?;
        own + other.t()?
    }
}

/// `n × n`: 0 where a query sees a key, -∞ elsewhere.
fn mask(span: Span, n: usize, device: &Device) -> candle_core::Result<Tensor> {
    let hidden =
        |query: usize, key: usize| query.saturating_sub(key) > span.before || key.saturating_sub(query) > span.after;
    let values: Vec<f32> = (0..n * n)
        .map(|i| if hidden(i / n, i % n) { f32::NEG_INFINITY } else { 0.0 })
        .collect();
    Tensor::from_vec(values, (n, n), device)
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

    fn product(x: &Tensor, layer: &Linear, activation: Activation) -> candle_core::Result<Tensor> {
        let mut out = x.matmul(&layer.weight)?;
        if let Some(bias) = &layer.bias {
            out = out.broadcast_add(bias)?;
        }
        activate(out, activation)
    }

    fn rows(&self, rows: &[u32]) -> candle_core::Result<Tensor> {
        Tensor::from_slice(rows, rows.len(), &self.device)
    }

    /// One text: `n × columns` to `n × hidden`.
    fn attend(text: &Tensor, how: &Attention<'_, Self>) -> candle_core::Result<Tensor> {
        let (n, _) = text.dims2()?;
        let heads = how.heads;
        let part = |first: usize, count: usize, norm: Option<&Norm>, turned: bool| {
            let mut part = text.narrow(1, first * heads.width, count * heads.width)?;
            if let Some(norm) = norm {
                let width = norm.gamma.elem_count();
                let rows = part.contiguous()?.reshape((n * count * heads.width / width, width))?;
                part = norm.rows(&rows)?;
            }
            let part = part.reshape((n, count, heads.width))?.transpose(0, 1)?.contiguous()?;
            match how.rotary.filter(|_| turned) {
                Some(rotary) => rotary.turn(&part),
                None => Ok(part),
            }
        };
        // Consecutive query heads share a key head.
        let spread = |part: Tensor| {
            let group = heads.query / heads.key;
            if group == 1 {
                return Ok(part);
            }
            part.unsqueeze(1)?
                .broadcast_as((heads.key, group, n, heads.width))?
                .contiguous()?
                .reshape((heads.query, n, heads.width))
        };
        let queries = part(0, heads.query, how.query_norm, true)?.contiguous()?;
        let keys = spread(part(heads.query, heads.key, how.key_norm, true)?)?;
        let values = spread(part(heads.query + heads.key, heads.key, None, false)?)?;
        let mut scores = queries.matmul(&keys.t()?.contiguous()?)?;
        if let Some(positions) = how.positions {
            scores = (scores + positions.scores(&queries, &keys)?)?;
        }
        scores = (scores * f64::from(how.scale))?;
        if let Some(bias) = how.bias {
            scores = (scores + bias.of_length(n)?)?;
        }
        if how.span.before < n || how.span.after < n {
            scores = scores.broadcast_add(&mask(how.span, n, text.device())?)?;
        }
        let context = ops::softmax_last_dim(&scores)?.matmul(&values)?;
        context.transpose(0, 1)?.reshape((n, heads.query * heads.width))
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
            Ok(Linear {
                weight: Tensor::from_slice(weights, (outputs, inputs), &self.device)?
                    .t()?
                    .contiguous()?,
                bias: bias
                    .map(|bias| Tensor::from_slice(bias, outputs, &self.device))
                    .transpose()?,
            })
        })())
    }

    fn norm(&self, weights: NormWeights<'_>, eps: f32) -> Result<Norm, EmbedError> {
        let vector = |values: &[f32]| Tensor::from_slice(values, values.len(), &self.device);
        self.done((|| {
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

    fn table(&self, values: Floats, rows: usize, width: usize) -> Result<Tensor, EmbedError> {
        self.done(Tensor::from_slice(&values[..], (rows, width), &self.device))
    }

    fn rotary(&self, rotation: Rotation, longest: usize) -> Result<Rotary, EmbedError> {
        let plain = rotation
            .beyond
            .as_ref()
            .map_or(longest, |beyond| longest.min(beyond.limit));
        let (cos, sin) = self.done(Rotary::tensors(&rotation.angles(plain), &self.device))?;
        Ok(Rotary { rotation, cos, sin })
    }

    fn bias(&self, by_distance: Vec<f32>, heads: usize, longest: usize) -> Result<Bias, EmbedError> {
        let by_distance = self.done(Tensor::from_vec(by_distance, (heads, 2 * longest - 1), &self.device))?;
        Ok(Bias { by_distance, longest })
    }

    fn positions(&self, weights: PositionWeights, heads: Heads) -> Result<Positions, EmbedError> {
        let split = |values: &[f32]| {
            Tensor::from_slice(values, (weights.rows, heads.query, heads.width), &self.device)?
                .transpose(0, 1)?
                .contiguous()
        };
        Ok(Positions {
            keys: self.done(split(&weights.keys))?,
            queries: self.done(split(&weights.queries))?,
            row: weights.row,
            longest: weights.longest,
        })
    }
}

impl Backend for Candle {
    type States = Tensor;

    fn gather(&self, table: &Tensor, rows: &[u32], _threads: Threads) -> Result<Tensor, EmbedError> {
        self.done(self.rows(rows).and_then(|rows| table.index_select(&rows, 0)))
    }

    fn add_rows(&self, x: Tensor, table: &Tensor, rows: &[u32]) -> Result<Tensor, EmbedError> {
        self.done(self.rows(rows).and_then(|rows| x + table.index_select(&rows, 0)?))
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
        self.done((|| {
            let out = Self::product(x, layer, activation)?;
            match residual {
                Some(residual) => out + residual,
                None => Ok(out),
            }
        })())
    }

    fn gated(&self, x: &Tensor, gate: &Linear, up: &Linear, activation: Activation) -> Result<Tensor, EmbedError> {
        self.done((|| {
            Self::product(x, gate, activation)? * Self::product(x, up, Activation::Identity)?
        })())
    }

    fn normalise(&self, x: Tensor, norm: &Norm) -> Result<Tensor, EmbedError> {
        self.normalised(&x, norm)
    }

    fn normalised(&self, x: &Tensor, norm: &Norm) -> Result<Tensor, EmbedError> {
        self.done(norm.rows(x))
    }

    fn softmax(&self, x: Tensor, width: usize) -> Result<Tensor, EmbedError> {
        self.done((|| {
            let (rows, columns) = x.dims2()?;
            let groups = x.reshape((rows * (columns / width), width))?;
            ops::softmax_last_dim(&groups)?.reshape((rows, columns))
        })())
    }

    fn attention(&self, qkv: Tensor, batch: &TokenBatch, how: &Attention<'_, Self>) -> Result<Tensor, EmbedError> {
        self.done((|| {
            let mut texts = Vec::with_capacity(batch.texts());
            for range in batch.ranges().filter(|range| !range.is_empty()) {
                texts.push(Self::attend(&qkv.narrow(0, range.start, range.len())?, how)?);
            }
            Tensor::cat(&texts, 0)
        })())
    }

    fn read(&self, x: &Tensor, visit: &mut dyn FnMut(&[f32])) -> Result<(), EmbedError> {
        let values = self.done(x.flatten_all().and_then(|flat| flat.to_vec1::<f32>()))?;
        visit(&values);
        Ok(())
    }
}
