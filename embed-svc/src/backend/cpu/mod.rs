//! The CPU, on our own kernels: weights packed once (as floats, or rounded), embedding
//! tables read row by row, buffers reused.

mod attention;
mod buffer;

use std::{borrow::Cow, sync::OnceLock};

use isomer_kernels::{
    self as kernels, Epilogue, PackedMatrix,
    bf16::{Bf16Matrix, gemm_bf16, gemm_bf16_serial},
    int8::{Int8Matrix, MAX_DEPTH, Widths, gemm_int8, gemm_int8_serial},
};
use rayon::prelude::*;

use buffer::Buffer;

use super::{
    Activation, Attention, Backend, Heads, Layers, NormWeights, PositionWeights, Rotation, Rows, Sink, Threads,
    rotation::Angles,
};
use crate::{batch::TokenBatch, device::Rounding, error::EmbedError, weights::Table};

/// Rows that one task normalises.
const NORM_ROWS: usize = 32;

/// Our kernels on the CPU. See the module.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    rounding: Option<Rounding>,
}

impl Cpu {
    /// A backend whose linear layers are rounded.
    pub fn rounded(rounding: Rounding) -> Self {
        Self {
            rounding: Some(rounding),
        }
    }
}

/// Bits of the codes under [`Rounding::Int8`]. They are the same on every machine, so that its
/// vectors are one space. docs/reference/precision.md has the figures behind the choice. These
/// widths are part of a vector space's name.
pub const INT8_WIDTHS: Widths = Widths::EIGHT_SEVEN;

/// A packed linear layer.
#[derive(Debug)]
pub struct Linear {
    weights: LinearWeights,
    bias: Option<Vec<f32>>,
}

#[derive(Debug)]
enum LinearWeights {
    Floats(PackedMatrix),
    Halves(Bf16Matrix),
    Integers(Int8Matrix),
}

impl LinearWeights {
    fn outputs(&self) -> usize {
        match self {
            Self::Floats(weights) => weights.n(),
            Self::Halves(weights) => weights.n(),
            Self::Integers(weights) => weights.n(),
        }
    }

    /// `x · Wᵀ` and its epilogue.
    fn multiply(&self, x: &States, epilogue: Epilogue<'_>, out: &mut [f32]) {
        let (values, rows) = (&x.values, x.rows());
        match (self, x.threads) {
            (Self::Floats(weights), Threads::One) => kernels::gemm_serial(values, rows, weights, epilogue, out),
            (Self::Floats(weights), Threads::All) => kernels::gemm_with(values, rows, weights, epilogue, out),
            (Self::Halves(weights), Threads::One) => gemm_bf16_serial(values, rows, weights, epilogue, out),
            (Self::Halves(weights), Threads::All) => gemm_bf16(values, rows, weights, epilogue, out),
            (Self::Integers(weights), Threads::One) => gemm_int8_serial(values, rows, weights, epilogue, out),
            (Self::Integers(weights), Threads::All) => gemm_int8(values, rows, weights, epilogue, out),
        }
    }
}

/// A normalisation.
#[derive(Debug)]
pub struct Norm {
    gamma: Vec<f32>,
    /// The offset of a layer normalisation.
    beta: Option<Vec<f32>>,
    eps: f32,
}

impl Norm {
    fn rows(&self, values: &mut [f32]) {
        match &self.beta {
            Some(beta) => kernels::rows::layer_norm(values, &self.gamma, beta, self.eps),
            None => kernels::rows::rms_norm(values, &self.gamma, self.eps),
        }
    }
}

/// A rotation. Its angles are computed once per power of two among the texts' lengths.
#[derive(Debug)]
pub struct Rotary {
    rotation: Rotation,
    longest: usize,
    tables: Vec<OnceLock<Angles>>,
}

impl Rotary {
    fn angles(&self, length: usize) -> Cow<'_, Angles> {
        if self.rotation.is_beyond(length) {
            return Cow::Owned(self.rotation.angles(length));
        }
        let size = length.next_power_of_two();
        match self.tables.get(size.trailing_zeros() as usize) {
            // If a limit lies between two powers of two, the last table ends at the limit.
            Some(table) => {
                let limit = self
                    .rotation
                    .beyond
                    .as_ref()
                    .map_or(self.longest, |beyond| beyond.limit);
                Cow::Borrowed(table.get_or_init(|| self.rotation.angles(size.min(limit.max(length)))))
            }
            None => Cow::Owned(self.rotation.angles(length)),
        }
    }
}

/// Values by head and distance.
#[derive(Debug)]
pub struct Bias {
    by_distance: Vec<f32>,
    longest: usize,
}

/// Learnt positions, packed for each head.
#[derive(Debug)]
pub struct Positions {
    keys: Vec<PackedMatrix>,
    queries: Vec<PackedMatrix>,
    row: Vec<u32>,
    longest: usize,
}

/// One row per token.
#[derive(Debug)]
pub struct States {
    values: Buffer,
    width: usize,
    threads: Threads,
}

impl States {
    fn new(rows: usize, width: usize, threads: Threads) -> Self {
        Self {
            values: Buffer::take(rows * width),
            width,
            threads,
        }
    }

    fn rows(&self) -> usize {
        self.values.len() / self.width
    }
}

impl Layers for Cpu {
    type Linear = Linear;
    type Norm = Norm;
    type Table = Table;
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
        Ok(Linear {
            weights: match self.rounding {
                Some(Rounding::Int8) if inputs > MAX_DEPTH => {
                    return Err(EmbedError::Device {
                        device: "cpu".into(),
                        problem: format!("a layer of {inputs} inputs is too wide for int8; give precision `f32`"),
                    });
                }
                Some(Rounding::Int8) => {
                    LinearWeights::Integers(Int8Matrix::quantise(weights, outputs, inputs, INT8_WIDTHS))
                }
                Some(Rounding::Bf16) => LinearWeights::Halves(Bf16Matrix::pack(weights, outputs, inputs)),
                None => LinearWeights::Floats(PackedMatrix::pack(weights, outputs, inputs)),
            },
            bias: bias.map(<[f32]>::to_vec),
        })
    }

    fn norm(&self, weights: NormWeights<'_>, eps: f32) -> Result<Norm, EmbedError> {
        let (gamma, beta) = match weights {
            NormWeights::Layer { gamma, beta } => {
                let beta = beta.map_or_else(|| vec![0.0; gamma.len()], <[f32]>::to_vec);
                (gamma, Some(beta))
            }
            NormWeights::Rms { gamma } => (gamma, None),
        };
        Ok(Norm {
            gamma: gamma.to_vec(),
            beta,
            eps,
        })
    }

    fn table(&self, table: Table) -> Result<Table, EmbedError> {
        Ok(table)
    }

    fn rotary(&self, rotation: Rotation, longest: usize) -> Result<Rotary, EmbedError> {
        let tables = longest.next_power_of_two().trailing_zeros() as usize + 1;
        Ok(Rotary {
            rotation,
            longest,
            tables: (0..tables).map(|_| OnceLock::new()).collect(),
        })
    }

    fn bias(&self, by_distance: Vec<f32>, _heads: usize, longest: usize) -> Result<Bias, EmbedError> {
        Ok(Bias { by_distance, longest })
    }

    fn positions(&self, weights: PositionWeights, heads: Heads) -> Result<Positions, EmbedError> {
        let pack = |all: &[f32]| {
            let one = |head: usize| {
                let columns = head * heads.width..(head + 1) * heads.width;
                let rows = all.chunks_exact(heads.query * heads.width);
                let own: Vec<f32> = rows.flat_map(|row| &row[columns.clone()]).copied().collect();
                PackedMatrix::pack(&own, weights.rows, heads.width)
            };
            (0..heads.query).map(one).collect()
        };
        Ok(Positions {
            keys: pack(&weights.keys),
            queries: pack(&weights.queries),
            row: weights.row,
            longest: weights.longest,
        })
    }
}

impl Cpu {
    fn product(x: &States, layer: &Linear, epilogue: Epilogue<'_>) -> States {
        let mut out = States::new(x.rows(), layer.weights.outputs(), x.threads);
        let epilogue = Epilogue {
            bias: layer.bias.as_deref(),
            ..epilogue
        };
        layer.weights.multiply(x, epilogue, out.values.values_mut());
        out
    }
}

impl Backend for Cpu {
    type States = States;
    type Plan = ();

    fn plan(&self, _batch: &TokenBatch) {}

    fn gather(&self, table: &Table, rows: &[u32], threads: Threads) -> Result<States, EmbedError> {
        let mut states = States::new(rows.len(), table.width(), threads);
        let out = states.values.values_mut().chunks_exact_mut(table.width());
        for (out, &row) in out.zip(rows) {
            out.copy_from_slice(table.row(row as usize)?);
        }
        Ok(states)
    }

    fn add_rows(&self, mut x: States, table: &Table, rows: &[u32]) -> Result<States, EmbedError> {
        for (out, &row) in x.values.values_mut().chunks_exact_mut(table.width()).zip(rows) {
            kernels::rows::add(out, table.row(row as usize)?);
        }
        Ok(x)
    }

    fn scale(&self, mut x: States, factor: f32) -> Result<States, EmbedError> {
        x.values.values_mut().iter_mut().for_each(|value| *value *= factor);
        Ok(x)
    }

    fn add(&self, mut x: States, other: &States) -> Result<States, EmbedError> {
        kernels::rows::add(x.values.values_mut(), &other.values);
        Ok(x)
    }

    fn apply(
        &self,
        x: &States,
        layer: &Linear,
        activation: Activation,
        residual: Option<&States>,
    ) -> Result<States, EmbedError> {
        let epilogue = Epilogue {
            activation,
            residual: residual.map(|r| &*r.values),
            ..Epilogue::default()
        };
        Ok(Self::product(x, layer, epilogue))
    }

    fn gated(&self, x: &States, gate: &Linear, up: &Linear, activation: Activation) -> Result<States, EmbedError> {
        let gate = self.apply(x, gate, activation, None)?;
        let epilogue = Epilogue {
            factor: Some(&gate.values),
            ..Epilogue::default()
        };
        Ok(Self::product(x, up, epilogue))
    }

    fn normalise(&self, mut x: States, norm: &Norm) -> Result<States, EmbedError> {
        let values = x.values.values_mut();
        match x.threads {
            Threads::One => norm.rows(values),
            Threads::All => values
                .par_chunks_mut(NORM_ROWS * norm.gamma.len())
                .for_each(|rows| norm.rows(rows)),
        }
        Ok(x)
    }

    fn normalised(&self, x: &States, norm: &Norm) -> Result<States, EmbedError> {
        let mut copy = States::new(x.rows(), x.width, x.threads);
        copy.values.values_mut().copy_from_slice(&x.values);
        self.normalise(copy, norm)
    }

    fn shares(&self, x: &States, scores: &Linear, width: usize) -> Result<States, EmbedError> {
        let mut x = self.apply(x, scores, Activation::Identity, None)?;
        let row = x.width;
        let values = x.values.values_mut();
        let rows = |values: &mut [f32]| kernels::rows::softmax(values, width, 1.0);
        match x.threads {
            Threads::One => rows(values),
            Threads::All => values.par_chunks_mut(NORM_ROWS * row).for_each(rows),
        }
        Ok(x)
    }

    fn attention(
        &self,
        qkv: States,
        batch: &TokenBatch,
        _plan: &(),
        how: &Attention<'_, Self>,
    ) -> Result<States, EmbedError> {
        Ok(attention::attend(qkv, batch, how))
    }

    fn read(&self, x: &States, _batch: &TokenBatch, _plan: &(), sink: &mut Sink<'_>) -> Result<(), EmbedError> {
        (sink.visit)(Rows::Tokens(&x.values));
        Ok(())
    }
}
