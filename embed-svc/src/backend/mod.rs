//! Where an architecture's layers are computed.
//!
//! An architecture is written once, over [`Backend`]. [`cpu::Cpu`] runs on our own kernels; [`candle::Candle`] runs on any
//! device that Candle knows.

pub mod candle;
pub mod cpu;

use crate::{batch::TokenBatch, error::EmbedError, weights::Floats};

/// Element-wise function after a linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// None.
    Identity,
    /// Exact GELU.
    Gelu,
}

/// Shape of a multi-head attention.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Number of heads.
    pub count: usize,
    /// Width of each.
    pub width: usize,
}

/// How many threads a forward pass may use. On the CPU a batch of many texts is shared out as a whole, one piece a
/// thread without barriers; a small one is computed by all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The calling one.
    One,
    /// All of the current pool.
    All,
}

/// Layers on packed tokens. `States` is `tokens × width`.
///
/// Every method computes a row from that row and, in [`Backend::attention`], from the rows of the same text: so a text's
/// result does not depend on its batch.
pub trait Backend: Send + Sync + Sized + 'static {
    /// A linear layer.
    type Linear: Send + Sync;
    /// A layer normalisation.
    type Norm: Send + Sync;
    /// An embedding table.
    type Table: Send + Sync;
    /// One vector a token.
    type States;

    /// A linear layer from `outputs × inputs` weights.
    fn linear(&self, weights: &[f32], bias: &[f32], outputs: usize, inputs: usize) -> Result<Self::Linear, EmbedError>;
    /// A layer normalisation.
    fn norm(&self, gamma: &[f32], beta: &[f32], eps: f32) -> Result<Self::Norm, EmbedError>;
    /// An embedding table of `rows × width`.
    fn table(&self, values: Floats, rows: usize, width: usize) -> Result<Self::Table, EmbedError>;

    /// Sum of the tokens' rows of `words`, their positions' rows of `positions` and row 0 of `types`. Ids and positions
    /// must lie inside their tables.
    fn embed(
        &self,
        batch: &TokenBatch,
        words: &Self::Table,
        positions: &Self::Table,
        types: &Self::Table,
        threads: Threads,
    ) -> Result<Self::States, EmbedError>;
    /// `activation(x · Wᵀ + b) + residual`.
    fn apply(
        &self,
        x: &Self::States,
        layer: &Self::Linear,
        activation: Activation,
        residual: Option<&Self::States>,
    ) -> Result<Self::States, EmbedError>;
    /// Layer normalisation of each row.
    fn normalise(&self, x: Self::States, norm: &Self::Norm) -> Result<Self::States, EmbedError>;
    /// Bidirectional attention inside each text; rows hold queries, keys and values side by side.
    fn attention(&self, qkv: &Self::States, batch: &TokenBatch, heads: Heads) -> Result<Self::States, EmbedError>;
    /// Hands the rows to `visit` on the CPU.
    fn read(&self, x: &Self::States, visit: &mut dyn FnMut(&[f32])) -> Result<(), EmbedError>;
}
