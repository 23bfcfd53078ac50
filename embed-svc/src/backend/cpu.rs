//! The CPU, on our own kernels: weights packed once, embedding tables read from the mapped file, buffers used again.

use std::{cell::RefCell, ops::Deref};

use isomer_kernels::{
    self as kernels, Epilogue, PackedMatrix,
    attention::{Scratch, Shape, self_attention},
};
use rayon::prelude::*;

use super::{Activation, Backend, Heads, Threads};
use crate::{batch::TokenBatch, error::EmbedError, weights::Floats};

/// Rows that one task normalises.
const NORM_ROWS: usize = 32;

/// Our kernels. See the module.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu;

/// A packed linear layer.
#[derive(Debug)]
pub struct Linear {
    weights: PackedMatrix,
    bias: Vec<f32>,
}

/// A layer normalisation.
#[derive(Debug)]
pub struct Norm {
    gamma: Vec<f32>,
    beta: Vec<f32>,
    eps: f32,
}

/// An embedding table.
#[derive(Debug)]
pub struct Table {
    values: Floats,
    width: usize,
}

impl Table {
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

/// One row a token.
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
        self.values.len / self.width
    }
}

/// Memory from this thread's pool: fresh pages for every layer would cost as much as some of the arithmetic.
#[derive(Debug)]
struct Buffer {
    memory: Vec<f32>,
    len: usize,
}

thread_local! {
    static FREE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Buffers that a thread keeps; a forward pass holds five at once.
const KEPT: usize = 6;

impl Buffer {
    /// `len` values that the caller will overwrite.
    fn take(len: usize) -> Self {
        let mut memory = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
        if memory.len() < len {
            memory.resize(len, 0.0);
        }
        Self { memory, len }
    }

    fn values_mut(&mut self) -> &mut [f32] {
        &mut self.memory[..self.len]
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        FREE.with_borrow_mut(|free| {
            if free.len() < KEPT {
                free.push(memory);
            }
        });
    }
}

impl Backend for Cpu {
    type Linear = Linear;
    type Norm = Norm;
    type Table = Table;
    type States = States;

    fn linear(&self, weights: &[f32], bias: &[f32], outputs: usize, inputs: usize) -> Result<Linear, EmbedError> {
        Ok(Linear {
            weights: PackedMatrix::pack(weights, outputs, inputs),
            bias: bias.to_vec(),
        })
    }

    fn norm(&self, gamma: &[f32], beta: &[f32], eps: f32) -> Result<Norm, EmbedError> {
        Ok(Norm {
            gamma: gamma.to_vec(),
            beta: beta.to_vec(),
            eps,
        })
    }

    fn table(&self, values: Floats, _rows: usize, width: usize) -> Result<Table, EmbedError> {
        Ok(Table { values, width })
    }

    fn embed(
        &self,
        batch: &TokenBatch,
        words: &Table,
        positions: &Table,
        types: &Table,
        threads: Threads,
    ) -> Result<States, EmbedError> {
        let mut states = States::new(batch.tokens(), words.width, threads);
        let rows = states.values.values_mut().chunks_exact_mut(words.width);
        for ((row, &id), position) in rows.zip(batch.ids()).zip(batch.positions()) {
            row.copy_from_slice(words.row(id as usize));
            // torch adds the token type first, then the position.
            kernels::rows::add(row, types.row(0));
            kernels::rows::add(row, positions.row(position));
        }
        Ok(states)
    }

    fn apply(
        &self,
        x: &States,
        layer: &Linear,
        activation: Activation,
        residual: Option<&States>,
    ) -> Result<States, EmbedError> {
        let rows = x.rows();
        let mut out = States::new(rows, layer.weights.n(), x.threads);
        let activation = match activation {
            Activation::Identity => kernels::Activation::Identity,
            Activation::Gelu => kernels::Activation::Gelu,
        };
        let epilogue = Epilogue {
            bias: Some(&layer.bias),
            activation,
            residual: residual.map(|r| &*r.values),
        };
        let product = match x.threads {
            Threads::One => kernels::gemm_serial,
            Threads::All => kernels::gemm_with,
        };
        product(&x.values, rows, &layer.weights, epilogue, out.values.values_mut());
        Ok(out)
    }

    fn normalise(&self, mut x: States, norm: &Norm) -> Result<States, EmbedError> {
        let Norm { gamma, beta, eps } = norm;
        let values = x.values.values_mut();
        match x.threads {
            Threads::One => kernels::rows::layer_norm(values, gamma, beta, *eps),
            Threads::All => values
                .par_chunks_mut(NORM_ROWS * gamma.len())
                .for_each(|rows| kernels::rows::layer_norm(rows, gamma, beta, *eps)),
        }
        Ok(x)
    }

    fn attention(&self, qkv: &States, batch: &TokenBatch, heads: Heads) -> Result<States, EmbedError> {
        let hidden = heads.count * heads.width;
        #[allow(clippy::cast_precision_loss)]
        let scale = 1.0 / (heads.width as f32).sqrt();
        let shape = Shape {
            heads: heads.count,
            head_dim: heads.width,
            scale,
        };
        let mut out = States::new(qkv.rows(), hidden, qkv.threads);
        let one_text = |range: std::ops::Range<usize>, out: &mut [f32]| {
            let text = &qkv.values[range.start * 3 * hidden..range.end * 3 * hidden];
            SCRATCH.with_borrow_mut(|scratch| self_attention(text, range.len(), shape, scratch, out));
        };
        let mut rest = out.values.values_mut();
        let mut texts = Vec::with_capacity(batch.texts());
        for range in batch.ranges() {
            let (text, after) = rest.split_at_mut(range.len() * hidden);
            texts.push((range, text));
            rest = after;
        }
        match qkv.threads {
            Threads::One => texts.into_iter().for_each(|(range, out)| one_text(range, out)),
            Threads::All => texts.into_par_iter().for_each(|(range, out)| one_text(range, out)),
        }
        Ok(out)
    }

    fn read(&self, x: &States, visit: &mut dyn FnMut(&[f32])) -> Result<(), EmbedError> {
        visit(&x.values);
        Ok(())
    }
}
