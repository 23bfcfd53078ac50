//! Fixed vectors, one per word or token: no transformer runs, and a token's vector is looked up.

pub mod text_file;

use crate::{
    arch::Architecture,
    backend::{Rows, Sink, Threads},
    batch::TokenBatch,
    error::EmbedError,
    weights::{Table, Weights},
};

pub struct StaticVectors {
    name: &'static str,
    table: Table,
    /// The row of each token id, if ids share rows (Model2Vec with a quantised vocabulary).
    mapping: Option<Vec<u32>>,
    /// A factor for each token id (Model2Vec).
    factors: Option<Vec<f64>>,
}

impl StaticVectors {
    pub fn new(name: &'static str, table: Table) -> Self {
        Self {
            name,
            table,
            mapping: None,
            factors: None,
        }
    }

    /// The table of a `WordEmbeddings` module.
    ///
    /// # Errors
    /// If a tensor is missing or not a matrix; the error names it.
    pub fn of_words(weights: &Weights) -> Result<Self, EmbedError> {
        Self::read("word-embeddings", weights, "emb_layer.weight")
    }

    /// The table of a `StaticEmbedding` module, in the format of sentence-transformers or
    /// model2vec.
    ///
    /// # Errors
    /// Those of [`StaticVectors::of_words`]; also if a mapping points beyond the table.
    pub fn of_tokens(weights: &Weights) -> Result<Self, EmbedError> {
        const NAME: &str = "static-embedding";
        if weights.has("embedding.weight") {
            return Self::read(NAME, weights, "embedding.weight");
        }
        let mut vectors = Self::read(NAME, weights, "embeddings")?;
        if weights.has("mapping") {
            let mapping = weights.integers("mapping")?;
            let rows = mapping
                .iter()
                .map(|&row| {
                    u32::try_from(row)
                        .ok()
                        .filter(|&row| (row as usize) < vectors.table.rows())
                })
                .collect::<Option<Vec<_>>>();
            vectors.mapping = Some(rows.ok_or_else(|| {
                EmbedError::file(
                    weights.file(),
                    format!(
                        "tensor `mapping` leads beyond the {} rows of `embeddings`",
                        vectors.table.rows()
                    ),
                    "fetch the model again",
                )
            })?);
        }
        if weights.has("weights") {
            vectors.factors = Some(weights.doubles("weights", &[vectors.ids()])?);
        }
        Ok(vectors)
    }

    fn read(name: &'static str, weights: &Weights, tensor: &str) -> Result<Self, EmbedError> {
        let Some(shape) = weights.shape(tensor) else {
            return Err(weights.missing(&[tensor.to_owned()]));
        };
        let &[rows, width] = shape else {
            return Err(EmbedError::file(
                weights.file(),
                format!("tensor `{tensor}` has shape {shape:?}, a table of vectors has two dimensions"),
                "fetch the model again",
            ));
        };
        Ok(Self::new(name, weights.table(tensor, rows, width)?))
    }

    fn ids(&self) -> usize {
        self.mapping.as_ref().map_or(self.table.rows(), Vec::len)
    }
}

impl Architecture for StaticVectors {
    fn name(&self) -> &'static str {
        self.name
    }

    fn hidden_size(&self) -> usize {
        self.table.width()
    }

    fn max_positions(&self) -> usize {
        usize::MAX
    }

    fn vocabulary(&self) -> usize {
        self.ids()
    }

    fn forward(&self, batch: &TokenBatch, _threads: Threads, sink: &mut Sink<'_>) -> Result<(), EmbedError> {
        let mut states = Vec::with_capacity(batch.tokens() * self.table.width());
        for &id in batch.ids() {
            let id = id as usize;
            let row = self.mapping.as_ref().map_or(id, |mapping| mapping[id] as usize);
            let first = states.len();
            states.extend_from_slice(self.table.row(row)?);
            if let Some(factors) = &self.factors {
                let factor = factors[id];
                for value in &mut states[first..] {
                    #[allow(clippy::cast_possible_truncation)]
                    {
                        *value = (f64::from(*value) * factor) as f32;
                    }
                }
            }
        }
        (sink.visit)(Rows::Tokens(&states));
        Ok(())
    }
}
