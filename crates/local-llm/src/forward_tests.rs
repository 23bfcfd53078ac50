//! Tests the forward pass against its definition.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation
)]

use candle_core::{
    Device, Tensor,
    quantized::{GgmlDType, QTensor},
};
use isomer_kernels::quant::{QuantType, dequantize_row};

use crate::{
    Arithmetic,
    decoder::{Decoder, Scratch, Span},
    gguf::GgufFile,
    shape::Shape,
    tiny::{self, HEAD_DIM, HEADS, HIDDEN, KV_HEADS, LAYERS, TOKENS, TinyModel, WINDOW},
    tiny_tests::ARCHITECTURES,
};

pub(crate) fn decoder(model: &TinyModel, arithmetic: Arithmetic) -> Decoder {
    let (_folder, path) = model.written();
    let file = GgufFile::open(&path).unwrap();
    let shape = Shape::read(&file).unwrap();
    Decoder::new(file, shape, TOKENS, arithmetic).unwrap()
}

/// The decoder as defined in its papers, in double precision, one token after another.
fn reference_logits(model: &TinyModel, architecture: &str, tokens: &[u32]) -> Vec<f64> {
    let weight = |name: &str| -> Vec<f64> { model.weights[name].iter().map(|w| f64::from(*w)).collect() };
    let linear = |name: &str, x: &[f64]| -> Vec<f64> {
        let w = weight(&format!("{name}.weight"));
        let mut out: Vec<f64> = w
            .chunks(x.len())
            .map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum())
            .collect();
        if model.weights.contains_key(&format!("{name}.bias")) {
            out.iter_mut()
                .zip(weight(&format!("{name}.bias")))
                .for_each(|(o, b)| *o += b);
        }
        out
    };
    let norm = |name: &str, x: &[f64]| -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let w = weight(&format!("{name}.weight"));
        x.iter()
            .zip(w)
            .map(|(x, w)| x / (mean + f64::from(tiny::EPS)).sqrt() * w)
            .collect()
    };
    let gemma = architecture == "gemma3";
    let norms_heads = gemma || architecture == "qwen3";
    let mut keys: Vec<Vec<Vec<f64>>> = vec![Vec::new(); LAYERS];
    let mut values = keys.clone();
    let mut last = Vec::new();
    for (position, token) in tokens.iter().enumerate() {
        let table = weight("token_embd.weight");
        let scale = if gemma { (HIDDEN as f64).sqrt() } else { 1.0 };
        let mut x: Vec<f64> = table[*token as usize * HIDDEN..][..HIDDEN]
            .iter()
            .map(|e| e * scale)
            .collect();
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let normed = norm(&name("attn_norm"), &x);
            let turned = |part: &str| -> Vec<f64> {
                let mut all = linear(&name(part), &normed);
                for head in all.chunks_mut(HEAD_DIM) {
                    if norms_heads {
                        head.clone_from_slice(&norm(&name(&format!("{part}_norm")), head));
                    }
                    let before = head.to_vec();
                    for i in 0..HEAD_DIM / 2 {
                        let angle = position as f64 * 10_000f64.powf(-2.0 * i as f64 / HEAD_DIM as f64);
                        let (a, b) = if architecture == "llama" {
                            (2 * i, 2 * i + 1)
                        } else {
                            (i, i + HEAD_DIM / 2)
                        };
                        head[a] = before[a] * angle.cos() - before[b] * angle.sin();
                        head[b] = before[a] * angle.sin() + before[b] * angle.cos();
                    }
                }
                all
            };
            let query = turned("attn_q");
            keys[layer].push(turned("attn_k"));
            values[layer].push(linear(&name("attn_v"), &normed));
            let local = gemma && (layer + 1) % 6 != 0;
            let start = if local {
                (position + 1).saturating_sub(WINDOW)
            } else {
                0
            };
            let mut context = vec![0.0; HEADS * HEAD_DIM];
            for head in 0..HEADS {
                let column = head / (HEADS / KV_HEADS) * HEAD_DIM;
                let q = &query[head * HEAD_DIM..][..HEAD_DIM];
                let weights: Vec<f64> = (start..=position)
                    .map(|t| {
                        let dot: f64 = q.iter().zip(&keys[layer][t][column..]).map(|(q, k)| q * k).sum();
                        (dot / (HEAD_DIM as f64).sqrt()).exp()
                    })
                    .collect();
                let total: f64 = weights.iter().sum();
                for (t, weight) in (start..=position).zip(weights) {
                    for i in 0..HEAD_DIM {
                        context[head * HEAD_DIM + i] += weight / total * values[layer][t][column + i];
                    }
                }
            }
            let mut part = linear(&name("attn_output"), &context);
            if gemma {
                part = norm(&name("post_attention_norm"), &part);
            }
            x.iter_mut().zip(part).for_each(|(x, p)| *x += p);
            let normed = norm(&name("ffn_norm"), &x);
            let gate = linear(&name("ffn_gate"), &normed).into_iter().map(|g| {
                if gemma {
                    0.5 * g * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (g + 0.044_715 * g.powi(3))).tanh())
                } else {
                    g / (1.0 + (-g).exp())
                }
            });
            let inner: Vec<f64> = gate.zip(linear(&name("ffn_up"), &normed)).map(|(g, u)| g * u).collect();
            let mut part = linear(&name("ffn_down"), &inner);
            if gemma {
                part = norm(&name("post_ffw_norm"), &part);
            }
            x.iter_mut().zip(part).for_each(|(x, p)| *x += p);
        }
        last = x;
    }
    linear("token_embd", &norm("output_norm", &last))
}

#[test]
fn the_forward_pass_equals_the_definition_of_each_architecture() {
    let tokens: Vec<u32> = (0..13).map(|i| i * 37 % 256).collect();
    for architecture in ARCHITECTURES {
        let model = TinyModel::new(architecture, 1);
        let expected = reference_logits(&model, architecture, &tokens);
        let length = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
        let size = length(&mut expected.iter().copied());
        // Rounding inputs to eight bits moves the logits of a random model, whose layers all have
        // large outputs, by a few per cent.
        for (arithmetic, tolerance) in [(Arithmetic::F32, 1e-5), (Arithmetic::Int8, 0.1)] {
            let decoder = decoder(&model, arithmetic);
            let mut cache = decoder.cache();
            let span = Span {
                cache: &mut cache,
                tokens: &tokens,
                logits: 1,
            };
            let mut scratch = Scratch::default();
            let found = decoder.forward(&mut [span], &mut scratch);
            let error = length(&mut found.iter().zip(&expected).map(|(f, e)| f64::from(*f) - e)) / size;
            println!("{architecture} {arithmetic:?}: relative error {error:.2e}");
            assert!(error < tolerance, "{architecture} {arithmetic:?}: {error}");
        }
    }
}

#[test]
fn a_prompt_in_pieces_beside_others_gives_the_bits_of_the_prompt_at_once() {
    let tokens: Vec<u32> = (0..20).map(|i| i * 11 % 256).collect();
    for architecture in ARCHITECTURES {
        let decoder = decoder(&TinyModel::new(architecture, 2), Arithmetic::Int8);
        let (mut whole, mut pieces, mut other) = (decoder.cache(), decoder.cache(), decoder.cache());
        let mut scratch = Scratch::default();
        let at_once = Span {
            cache: &mut whole,
            tokens: &tokens,
            logits: 1,
        };
        let expected = decoder.forward(&mut [at_once], &mut scratch).to_vec();
        for (start, end) in [(0, 7), (7, 8), (8, 20)] {
            let mut spans = [
                Span {
                    cache: &mut other,
                    tokens: &tokens[start / 2..end / 2 + 1],
                    logits: 1,
                },
                Span {
                    cache: &mut pieces,
                    tokens: &tokens[start..end],
                    logits: usize::from(end == 20),
                },
            ];
            let logits = decoder.forward(&mut spans, &mut scratch);
            if end == 20 {
                assert_eq!(logits[TOKENS..], expected, "{architecture}");
            }
        }
    }
}

#[test]
fn nested_formats_unpack_as_candle_unpacks_them() {
    let values: Vec<f32> = (0..1024u16)
        .map(|i| (f32::from(i) * 0.37).sin() * f32::from(i % 90))
        .collect();
    let tensor = Tensor::new(values, &Device::Cpu).unwrap();
    for (theirs, ours) in [
        (GgmlDType::Q4K, QuantType::Q4K),
        (GgmlDType::Q5K, QuantType::Q5K),
        (GgmlDType::Q6K, QuantType::Q6K),
    ] {
        let packed = QTensor::quantize(&tensor, theirs).unwrap();
        let expected: Vec<f32> = packed.dequantize(&Device::Cpu).unwrap().to_vec1().unwrap();
        let mut found = vec![0.0; 1024];
        dequantize_row(ours, &packed.data().unwrap(), &mut found);
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() <= 1e-5 * expected.abs().max(1.0),
                "{ours:?}: {found} {expected}"
            );
        }
    }
}
