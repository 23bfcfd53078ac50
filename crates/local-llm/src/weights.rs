//! The tensors of a model, packed for the kernels.

use isomer_kernels::quant::{Int8Rows, QuantMatrix, dequantize_row, gemm_quant, gemm_quant_int8};

use crate::{
    LocalError,
    gguf::{GgufFile, Tensor},
    ops,
    shape::{Architecture, Shape},
};

/// The arithmetic of quantised layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// Inputs are rounded to eight bits, 32 at a time, and multiplied as integers, like in
    /// llama.cpp. This is the fastest.
    #[default]
    Int8,
    /// Weights are unpacked to `f32`, which follows the file exactly; two to three times slower.
    F32,
}

#[derive(Debug)]
pub(crate) struct Linear {
    weights: QuantMatrix,
    bias: Option<Vec<f32>>,
}

impl Linear {
    fn read(file: &GgufFile, name: &str, n: usize, k: usize, with_bias: bool) -> Result<Self, LocalError> {
        let full_name = format!("{name}.weight");
        let tensor = file.tensor(&full_name)?;
        expect_shape(&full_name, tensor, n, k)?;
        let weights = QuantMatrix::pack(tensor.kind, file.bytes(tensor), n, k).map_err(|e| LocalError::BadTensor {
            name: full_name,
            message: e.to_string(),
        })?;
        let bias = if with_bias {
            Some(vector(file, &format!("{name}.bias"), n)?)
        } else {
            None
        };
        Ok(Self { weights, bias })
    }

    /// Outputs.
    pub(crate) fn n(&self) -> usize {
        self.weights.n()
    }

    /// `out = x · Wᵀ + b` for `m` rows; `out` is resized.
    pub(crate) fn forward(
        &self,
        x: &[f32],
        m: usize,
        arithmetic: Arithmetic,
        scratch: &mut Int8Rows,
        out: &mut Vec<f32>,
    ) {
        out.resize(m * self.n(), 0.0);
        match arithmetic {
            Arithmetic::Int8 => gemm_quant_int8(x, m, &self.weights, scratch, out),
            Arithmetic::F32 => gemm_quant(x, m, &self.weights, out),
        }
        if let Some(bias) = &self.bias {
            for row in out.chunks_exact_mut(bias.len()) {
                ops::add(row, bias);
            }
        }
    }
}

/// One decoder layer; parts that an architecture does not have are `None`.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    pub(crate) query_norm: Option<Vec<f32>>,
    pub(crate) key_norm: Option<Vec<f32>>,
    pub(crate) attention_out: Linear,
    pub(crate) post_attention_norm: Option<Vec<f32>>,
    pub(crate) ffn_norm: Vec<f32>,
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) post_ffn_norm: Option<Vec<f32>>,
}

/// All layers.
#[derive(Debug)]
pub(crate) struct Weights {
    /// Read row by row.
    pub(crate) embedding: Tensor,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Vec<f32>,
    pub(crate) head: Linear,
    /// Factors that divide rotation frequencies (Llama 3.1), if the file has them.
    pub(crate) rope_factors: Option<Vec<f32>>,
}

impl Weights {
    pub(crate) fn read(file: &GgufFile, shape: &Shape, vocabulary: usize) -> Result<Self, LocalError> {
        let embedding_name = "token_embd.weight";
        let embedding = file.tensor(embedding_name)?.clone();
        expect_shape(embedding_name, &embedding, vocabulary, shape.hidden)?;
        // Models with tied embeddings store one matrix for input and output.
        let head = if file.find_tensor("output.weight").is_some() {
            "output"
        } else {
            "token_embd"
        };
        let rope_factors = match file.find_tensor("rope_freqs.weight") {
            Some(_) => Some(vector(file, "rope_freqs.weight", shape.rope_dims / 2)?),
            None => None,
        };
        Ok(Self {
            embedding,
            layers: (0..shape.layers)
                .map(|index| Layer::read(file, shape, index))
                .collect::<Result<_, _>>()?,
            norm: vector(file, "output_norm.weight", shape.hidden)?,
            head: Linear::read(file, head, vocabulary, shape.hidden, false)?,
            rope_factors,
        })
    }
}

impl Layer {
    fn read(file: &GgufFile, shape: &Shape, index: usize) -> Result<Self, LocalError> {
        let linear = |name: &str, n, k, bias| Linear::read(file, &format!("blk.{index}.{name}"), n, k, bias);
        let norm = |name: &str, len| vector(file, &format!("blk.{index}.{name}.weight"), len);
        let (hidden, ffn) = (shape.hidden, shape.feed_forward);
        let (q, kv) = (shape.query_width(), shape.kv_width());
        let biased = shape.architecture == Architecture::Qwen2;
        let gemma = shape.architecture == Architecture::Gemma3;
        let norms_heads = gemma || shape.architecture == Architecture::Qwen3;
        let head_norm = |name: &str| {
            if norms_heads {
                norm(name, shape.head_dim).map(Some)
            } else {
                Ok(None)
            }
        };
        let gemma_norm = |name: &str, len| if gemma { norm(name, len).map(Some) } else { Ok(None) };
        Ok(Self {
            attention_norm: norm("attn_norm", hidden)?,
            query: linear("attn_q", q, hidden, biased)?,
            key: linear("attn_k", kv, hidden, biased)?,
            value: linear("attn_v", kv, hidden, biased)?,
            query_norm: head_norm("attn_q_norm")?,
            key_norm: head_norm("attn_k_norm")?,
            attention_out: linear("attn_output", hidden, q, false)?,
            post_attention_norm: gemma_norm("post_attention_norm", hidden)?,
            ffn_norm: norm("ffn_norm", hidden)?,
            gate: linear("ffn_gate", ffn, hidden, false)?,
            up: linear("ffn_up", ffn, hidden, false)?,
            down: linear("ffn_down", hidden, ffn, false)?,
            post_ffn_norm: gemma_norm("post_ffw_norm", hidden)?,
        })
    }
}

fn expect_shape(name: &str, tensor: &Tensor, rows: usize, cols: usize) -> Result<(), LocalError> {
    if (tensor.rows, tensor.cols) == (rows, cols) {
        return Ok(());
    }
    Err(LocalError::BadTensor {
        name: name.to_owned(),
        message: format!(
            "is {} x {}, the metadata says {rows} x {cols}",
            tensor.rows, tensor.cols
        ),
    })
}

fn vector(file: &GgufFile, name: &str, len: usize) -> Result<Vec<f32>, LocalError> {
    let tensor = file.tensor(name)?;
    expect_shape(name, tensor, 1, len)?;
    let mut out = vec![0.0; len];
    dequantize_row(tensor.kind, file.bytes(tensor), &mut out);
    Ok(out)
}
