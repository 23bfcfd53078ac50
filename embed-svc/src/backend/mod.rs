//! The backends that compute an architecture's layers.
//!
//! An architecture is written once, over [`Layers`] (loaded data) and [`Backend`] (operations on
//! them). [`cpu::Cpu`] runs on our own kernels; [`candle::Candle`] runs on any device that Candle
//! supports.

pub mod candle;
pub mod cpu;
pub mod rotation;

pub use isomer_kernels::{Activation, attention::Span, rotary::Pairs};
pub use rotation::Rotation;

use crate::{batch::TokenBatch, error::EmbedError, weights};

/// Shape of a multi-head attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    pub query: usize,
    /// Number of key and value heads, a divisor of `query`.
    pub key: usize,
    pub width: usize,
}

impl Heads {
    /// Heads with as many keys as queries.
    pub fn equal(count: usize, width: usize) -> Self {
        Self {
            query: count,
            key: count,
            width,
        }
    }

    /// Columns of queries, keys and values side by side.
    pub fn columns(&self) -> usize {
        (self.query + 2 * self.key) * self.width
    }

    /// `1 / sqrt(width)`.
    #[allow(clippy::cast_precision_loss)]
    pub fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }
}

/// The parameters of an attention: the preparation of queries and keys, the keys that a query sees,
/// and the terms added to the scores.
pub struct Attention<'a, L: Layers> {
    pub heads: Heads,
    /// Factor on the scores.
    pub scale: f32,
    /// The keys that a query sees.
    pub span: Span,
    /// Normalisation of the queries, before the rotation: of each head if it is as wide as a head,
    /// else of all heads together.
    pub query_norm: Option<&'a L::Norm>,
    /// Normalisation of the keys, in the same way.
    pub key_norm: Option<&'a L::Norm>,
    /// Rotation of queries and keys.
    pub rotary: Option<&'a L::Rotary>,
    /// Bias added to the scores.
    pub bias: Option<&'a L::Bias>,
    /// Term of the learnt positions, added to the scores before the scale.
    pub positions: Option<&'a L::Positions>,
}

impl<L: Layers> Attention<'_, L> {
    /// Plain bidirectional attention.
    pub fn plain(heads: Heads) -> Self {
        Self {
            heads,
            scale: heads.scale(),
            span: Span::ALL,
            query_norm: None,
            key_norm: None,
            rotary: None,
            bias: None,
            positions: None,
        }
    }
}

/// Weights of a normalisation.
#[derive(Debug, Clone, Copy)]
pub enum NormWeights<'a> {
    /// Layer normalisation, `(x - mean) / sqrt(variance + eps) · gamma + beta`.
    Layer {
        /// Factor of each column.
        gamma: &'a [f32],
        /// Added to each column; zero if `None`.
        beta: Option<&'a [f32]>,
    },
    /// Root-mean-square normalisation, `x / sqrt(mean(x²) + eps) · gamma`.
    Rms {
        /// Factor of each column.
        gamma: &'a [f32],
    },
}

/// Learnt positions of a disentangled attention (He et al. 2021).
#[derive(Debug, Clone, Default)]
pub struct PositionWeights {
    /// Positions as keys, `rows × heads · width`.
    pub keys: Vec<f32>,
    /// Positions as queries, of the same shape.
    pub queries: Vec<f32>,
    pub rows: usize,
    /// Row of each distance: element `longest - 1 + query position - key position`.
    pub row: Vec<u32>,
    /// Maximum text length in tokens.
    pub longest: usize,
}

/// The number of threads for a forward pass. On the CPU a batch of many texts is divided into one
/// piece per thread, without barriers; all threads together compute a small batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread only.
    One,
    /// All threads of the current pool.
    All,
}

/// The result of a forward pass.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// One vector per token.
    Tokens(&'a [f32]),
    /// The weighted sums that the batch requests ([`TokenBatch::sums`]), text by text, instead of
    /// the tokens' vectors; zero for empty texts. Only backends for which the sums are cheaper
    /// return them.
    Sums(&'a [f32]),
}

/// Receives the result of a forward pass, and is called during the pass.
pub struct Sink<'a> {
    /// Called when all work has been submitted to a device and only its completion is awaited; at
    /// most once.
    pub launched: &'a mut (dyn FnMut() + Send),
    /// Called once, at the end.
    pub visit: &'a mut dyn FnMut(Rows<'_>),
    /// Called before each layer; may block.
    pub between: &'a (dyn Fn() + Sync),
}

/// Layers that hold weights, and their construction from a checkpoint's tensors.
pub trait Layers: Clone + Send + Sync + Sized + 'static {
    type Linear: Send + Sync;
    /// A normalisation.
    type Norm: Send + Sync;
    type Table: Send + Sync;
    /// A rotation of queries and keys by their positions.
    type Rotary: Send + Sync;
    /// Values added to attention scores by head and distance.
    type Bias: Send + Sync;
    /// Learnt positions added to attention scores.
    type Positions: Send + Sync;

    /// A linear layer from `outputs × inputs` weights.
    fn linear(
        &self,
        weights: &[f32],
        bias: Option<&[f32]>,
        outputs: usize,
        inputs: usize,
    ) -> Result<Self::Linear, EmbedError>;
    /// A normalisation.
    fn norm(&self, weights: NormWeights<'_>, eps: f32) -> Result<Self::Norm, EmbedError>;
    fn table(&self, table: weights::Table) -> Result<Self::Table, EmbedError>;
    /// A rotation, for texts of up to `longest` tokens.
    fn rotary(&self, rotation: Rotation, longest: usize) -> Result<Self::Rotary, EmbedError>;
    /// A bias for texts of up to `longest` tokens: `heads × (2 · longest - 1)`, element `longest -
    /// 1 + key position - query position` of a head's row.
    fn bias(&self, by_distance: Vec<f32>, heads: usize, longest: usize) -> Result<Self::Bias, EmbedError>;
    /// Learnt positions for heads of this shape.
    fn positions(&self, weights: PositionWeights, heads: Heads) -> Result<Self::Positions, EmbedError>;
}

/// Operations on packed tokens. `States` is `tokens × width`.
///
/// Every method computes a row from that row and, in [`Backend::attention`], from the rows of the
/// same text, so a text's result does not depend on its batch. On [`cpu::Cpu`], and on an NVIDIA
/// GPU with our kernels, the bits are equal. Elsewhere on [`candle::Candle`] the underlying
/// libraries choose their order of summation by the size of the batch, so results are equal up to
/// rounding.
pub trait Backend: Layers {
    /// One vector per token.
    type States;
    /// Data about a batch that the layers share.
    type Plan;

    /// Makes the plan, once per batch.
    fn plan(&self, batch: &TokenBatch) -> Self::Plan;

    /// The rows `rows` of a table; all of them must exist.
    fn gather(&self, table: &Self::Table, rows: &[u32], threads: Threads) -> Result<Self::States, EmbedError>;
    /// Adds the rows `rows` of a table, one to each row of `x`.
    fn add_rows(&self, x: Self::States, table: &Self::Table, rows: &[u32]) -> Result<Self::States, EmbedError>;
    /// `x · factor`.
    fn scale(&self, x: Self::States, factor: f32) -> Result<Self::States, EmbedError>;
    /// `x + other`.
    fn add(&self, x: Self::States, other: &Self::States) -> Result<Self::States, EmbedError>;
    /// `activation(x · Wᵀ + b) + residual`.
    fn apply(
        &self,
        x: &Self::States,
        layer: &Self::Linear,
        activation: Activation,
        residual: Option<&Self::States>,
    ) -> Result<Self::States, EmbedError>;
    /// `activation(gate(x)) · up(x)`, the first half of a gated feed-forward (Shazeer 2020).
    fn gated(
        &self,
        x: &Self::States,
        gate: &Self::Linear,
        up: &Self::Linear,
        activation: Activation,
    ) -> Result<Self::States, EmbedError>;
    /// Normalisation of each row, in place.
    fn normalise(&self, x: Self::States, norm: &Self::Norm) -> Result<Self::States, EmbedError>;
    /// Normalisation of each row into a new value; `x` is unchanged.
    fn normalised(&self, x: &Self::States, norm: &Self::Norm) -> Result<Self::States, EmbedError>;
    /// Softmax over each group of `width` columns of `x · Wᵀ + b`, which are kept in 32 bits until
    /// then; `width` must divide the number of columns.
    fn shares(&self, x: &Self::States, scores: &Self::Linear, width: usize) -> Result<Self::States, EmbedError>;
    /// Attention inside each text; rows hold queries, keys and values side by side.
    fn attention(
        &self,
        qkv: Self::States,
        batch: &TokenBatch,
        plan: &Self::Plan,
        how: &Attention<'_, Self>,
    ) -> Result<Self::States, EmbedError>;
    /// Passes the rows, or the sums that the batch requests, to the sink.
    fn read(
        &self,
        x: &Self::States,
        batch: &TokenBatch,
        plan: &Self::Plan,
        sink: &mut Sink<'_>,
    ) -> Result<(), EmbedError>;
}
