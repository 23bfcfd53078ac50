//! A tiny model with random weights, written as a GGUF file, for tests that must run without any
//! download.
//!
//! It needs only candle-core, rand, rand_chacha and tempfile, so that other crates' tests can
//! include it: `#[path = "…/local-llm/tests/support/tiny.rs"] mod tiny;`
#![allow(unreachable_pub)]
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
};

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

pub const HIDDEN: usize = 64;
pub const FEED_FORWARD: usize = 96;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const HEAD_DIM: usize = 16;
pub const LAYERS: usize = 7;
pub const CONTEXT: usize = 128;
pub const WINDOW: usize = 5;
pub const EPS: f32 = 1e-5;

/// Bytes as tokens, one merge, three control tokens.
pub const MERGED: u32 = 256;
pub const START: u32 = 257;
pub const END: u32 = 258;
pub const TOKENS: usize = 260;

const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}\
     {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The content of the file; tests change entries before they write it.
pub struct TinyModel {
    pub metadata: BTreeMap<String, Value>,
    /// Tensors after quantisation and dequantisation.
    pub weights: BTreeMap<String, Vec<f32>>,
    tensors: BTreeMap<String, QTensor>,
}

impl TinyModel {
    pub fn new(architecture: &str, seed: u64) -> Self {
        let mut model = Self {
            metadata: metadata(architecture),
            weights: BTreeMap::new(),
            tensors: BTreeMap::new(),
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let gemma = architecture == "gemma3";
        let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        model.add(&mut rng, "token_embd.weight", &[TOKENS, HIDDEN], GgmlDType::Q8_0);
        model.add(&mut rng, "output_norm.weight", &[HIDDEN], GgmlDType::F32);
        for layer in 0..LAYERS {
            let mut add = |name: &str, shape: &[usize], kind| {
                model.add(&mut rng, &format!("blk.{layer}.{name}"), shape, kind);
            };
            add("attn_norm.weight", &[HIDDEN], GgmlDType::F32);
            add("ffn_norm.weight", &[HIDDEN], GgmlDType::F32);
            add("attn_q.weight", &[q, HIDDEN], GgmlDType::Q5_0);
            add("attn_k.weight", &[kv, HIDDEN], GgmlDType::Q4_1);
            add("attn_v.weight", &[kv, HIDDEN], GgmlDType::Q8_0);
            add("attn_output.weight", &[HIDDEN, q], GgmlDType::Q4_0);
            add("ffn_gate.weight", &[FEED_FORWARD, HIDDEN], GgmlDType::Q5_1);
            add("ffn_up.weight", &[FEED_FORWARD, HIDDEN], GgmlDType::Q5_0);
            add("ffn_down.weight", &[HIDDEN, FEED_FORWARD], GgmlDType::F16);
            if architecture == "qwen2" {
                for (name, n) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv)] {
                    add(&format!("{name}.bias"), &[n], GgmlDType::F32);
                }
            }
            if gemma || architecture == "qwen3" {
                for name in ["attn_q_norm", "attn_k_norm"] {
                    add(&format!("{name}.weight"), &[HEAD_DIM], GgmlDType::F32);
                }
            }
            if gemma {
                for name in ["post_attention_norm", "post_ffw_norm"] {
                    add(&format!("{name}.weight"), &[HIDDEN], GgmlDType::F32);
                }
            }
        }
        model
    }

    /// Vectors are near one, like norms; matrices are centred.
    fn add(&mut self, rng: &mut ChaCha8Rng, name: &str, shape: &[usize], kind: GgmlDType) {
        let centre = if name.contains("norm") { 1.0 } else { 0.0 };
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| centre + rng.random_range(-0.4f32..0.4)).collect();
        self.put(name, values, shape, kind);
    }

    fn put(&mut self, name: &str, values: Vec<f32>, shape: &[usize], kind: GgmlDType) {
        let tensor = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
        let quantized = QTensor::quantize(&tensor, kind).unwrap();
        let back = quantized.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap();
        self.weights.insert(name.to_owned(), back.to_vec1().unwrap());
        self.tensors.insert(name.to_owned(), quantized);
    }

    /// Multiplies the output of attention in every layer. With a small factor the next token
    /// depends almost only on the last one, so that a greedy answer soon repeats itself.
    pub fn scale_attention(&mut self, factor: f32) {
        for layer in 0..LAYERS {
            let name = format!("blk.{layer}.attn_output.weight");
            let (kind, shape) = (self.tensors[&name].dtype(), self.tensors[&name].shape().dims().to_vec());
            let values = self.weights[&name].iter().map(|value| factor * value).collect();
            self.put(&name, values, &shape, kind);
        }
    }

    pub fn remove_tensor(&mut self, name: &str) {
        self.tensors.remove(name).unwrap();
    }

    /// Writes the file into a temporary folder, which is deleted when the handle is dropped.
    pub fn written(&self) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.gguf");
        self.write(&path);
        (folder, path)
    }

    pub fn write(&self, path: &Path) {
        let metadata: Vec<(&str, &Value)> = self.metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
        let tensors: Vec<(&str, &QTensor)> = self.tensors.iter().map(|(k, v)| (k.as_str(), v)).collect();
        gguf_file::write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
    }
}

/// One token per byte, written with the character that byte-level vocabularies use for it.
fn byte_tokens() -> Vec<String> {
    let mut spare = '\u{100}'..;
    (0..=255u8)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte).to_string(),
            _ => spare.next().unwrap().to_string(),
        })
        .collect()
}

fn metadata(architecture: &str) -> BTreeMap<String, Value> {
    let text = |s: &str| Value::String(s.to_owned());
    let texts = |items: &[String]| Value::Array(items.iter().map(|s| Value::String(s.clone())).collect());
    let mut tokens = byte_tokens();
    tokens.extend(["he", "<|im_start|>", "<|im_end|>", "<|endoftext|>"].map(str::to_owned));
    let kinds = (0..TOKENS as u32)
        .map(|id| Value::I32(if id >= START { 3 } else { 1 }))
        .collect();
    let mut all: BTreeMap<String, Value> = [
        ("general.architecture", text(architecture)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("gpt-2")),
        ("tokenizer.ggml.tokens", texts(&tokens)),
        ("tokenizer.ggml.token_type", Value::Array(kinds)),
        ("tokenizer.ggml.merges", texts(&["h e".to_owned()])),
        ("tokenizer.ggml.eos_token_id", Value::U32(END)),
        ("tokenizer.ggml.add_bos_token", Value::Bool(false)),
        ("tokenizer.chat_template", text(TEMPLATE)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    let counts = [
        ("block_count", LAYERS),
        ("embedding_length", HIDDEN),
        ("feed_forward_length", FEED_FORWARD),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", KV_HEADS),
        ("context_length", CONTEXT),
        ("attention.sliding_window", WINDOW),
    ];
    for (key, value) in counts {
        all.insert(format!("{architecture}.{key}"), Value::U32(value as u32));
    }
    all.insert(
        format!("{architecture}.attention.layer_norm_rms_epsilon"),
        Value::F32(EPS),
    );
    all.insert(format!("{architecture}.rope.freq_base"), Value::F32(10_000.0));
    all
}
