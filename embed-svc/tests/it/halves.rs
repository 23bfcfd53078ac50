//! 16-bit arithmetic on our kernels and on Candle's devices, and batches assembled on these, tested
//! on its CPU.

use std::path::PathBuf;

use isomer_embed::{
    batch::{RequestedOutputs, Sequence},
    device::{Device, Precision, Rounding},
    folder::Source,
    model::Model,
};

use crate::common::{self, cosine, fixtures, is_computed};

fn on(precision: Precision) -> Device {
    Device::Candle {
        device: candle_core::Device::Cpu,
        precision,
    }
}

/// Every fixture with text vectors.
fn families() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("golden.json").is_file() && folder.join("config.json").is_file())
        .filter(|folder| folder.join("modules.json").is_file() && folder.join("tokenizer.json").is_file())
        .filter(|folder| is_computed(folder))
        .collect();
    folders.sort();
    assert!(folders.len() >= 18, "the fixtures are not there");
    folders
}

fn texts(model: &Model) -> Vec<Vec<u32>> {
    let longest = model.max_tokens().min(60);
    let vocabulary = model.vocabulary().min(300);
    (0..24)
        .map(|i| {
            let length = 1 + (i * 37) % longest;
            (0..length)
                .map(|j| u32::try_from(10 + (i * 101 + j * 31) % (vocabulary - 10)).unwrap())
                .collect()
        })
        .collect()
}

#[test]
fn sixteen_bits_stay_close_to_thirty_two_and_say_so_in_the_space() {
    for folder in families() {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let exact = Model::load(&folder, &Device::Cpu).unwrap();
        if exact.architecture() == "t5" {
            // Refused, see `t5`.
            continue;
        }
        let texts = texts(&exact);
        let expected = exact.encode(&texts).unwrap();
        let width = exact.dimensions();
        // Mantissas of 10 and 7 bits: in fixtures with random weights nothing averages the errors
        // out, least of all after the sharp softmax over the latents of `nv_embed`. One text of
        // `new_en` has ten times the error of the others in f16 as well, so in bf16 each change of
        // an order of roundings moves it between 0.992 and 0.996.
        let (f16, bf16) = match name.as_str() {
            "nv_embed" => (0.999, 0.9),
            "new_en" => (0.9999, 0.99),
            _ => (0.9999, 0.998),
        };
        // Our kernels round the inputs of products only, not each result in between.
        let linear = bf16;
        for (device, word, least) in [
            (on(Precision::F16), "f16>", f16),
            (on(Precision::Bf16), "bf16>", bf16),
            (Device::CpuRounded(Rounding::Bf16), "bf16-linear>", linear),
        ] {
            let half = Model::load(&folder, &device).unwrap();
            let vectors = half.encode(&texts).unwrap();
            if half.folder().source != Source::Transformer {
                // Lookups use 32 bits on every device: the same space, and the same vectors.
                assert_eq!((half.pipeline(), &vectors), (exact.pipeline(), &expected), "{name}");
                continue;
            }
            assert_eq!(half.pipeline(), format!("{word}{}", exact.pipeline()));
            let rows = vectors.chunks(width).zip(expected.chunks(width));
            let cosines: Vec<f64> = rows.map(|(a, b)| cosine(a, b)).collect();
            let worst = cosines.iter().copied().fold(1.0, f64::min);
            let mean = cosines.iter().sum::<f64>() / cosines.len() as f64;
            println!("{name:<18} {word:<12} least cosine to f32 {worst:.6}, mean {mean:.6}");
            assert!(
                worst > least && cosines.iter().all(|cosine| !cosine.is_nan()),
                "{name} {word} {worst}"
            );
            assert!(vectors != expected, "{name} was not computed in 16 bits");
        }
    }
}

#[test]
fn company_moves_a_text_by_no_more_than_rounding() {
    for folder in families() {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let model = Model::load(&folder, &on(Precision::F32)).unwrap();
        let mut texts = texts(&model);
        texts.push(texts[3].clone());
        let together = model.encode(&texts).unwrap();
        let width = model.dimensions();
        for (text, vector) in texts.iter().zip(together.chunks(width)) {
            let alone = model.encode(&[text]).unwrap();
            assert!(cosine(&alone, vector) > 0.999_999_9, "{name}, {} tokens", text.len());
        }
    }
}

#[test]
fn what_is_pooled_on_the_device_is_what_its_tokens_would_give() {
    for family in ["labse", "mpnet", "qwen3", "modernbert"] {
        let folder = fixtures().join(family);
        let model = Model::load(&folder, &on(Precision::F32)).unwrap();
        let cpu = Model::load(&folder, &Device::Cpu).unwrap();
        let sequences = |prompt: usize, tokens: bool| -> Vec<Sequence> {
            let want = |ids: Vec<u32>, number: usize| Sequence {
                ids,
                prompt,
                want: RequestedOutputs {
                    token_vectors: tokens && number == 5,
                    ..RequestedOutputs::TEXT_VECTOR
                },
                ..Sequence::default()
            };
            let mut texts = texts(&model);
            texts.insert(7, Vec::new());
            texts
                .into_iter()
                .zip(0..)
                .map(|(ids, number)| want(ids, number))
                .collect()
        };
        // If some texts have token vectors, all texts come back unpooled and are pooled here.
        for (prompt, tokens) in [(0, false), (3, false), (0, true), (3, true)] {
            let sequences = sequences(prompt, tokens);
            let there = model.encode_sequences(sequences.iter()).unwrap();
            let here = cpu.encode_sequences(sequences.iter()).unwrap();
            for (there, here) in [
                (&there.text_vectors, &here.text_vectors),
                (&there.token_vectors, &here.token_vectors),
            ] {
                assert_eq!(there.len(), here.len());
                let apart = there.iter().zip(here).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(apart < 5e-5, "{family} {prompt} {tokens}: {apart}");
            }
        }
    }
}

#[test]
fn what_is_not_finite_in_one_text_does_not_reach_its_company() {
    let folder = tempfile::tempdir().unwrap();
    common::tiny(folder.path());
    let mut tensors = common::tensors("");
    let words = tensors.get_mut("embeddings.word_embeddings.weight").unwrap();
    words.1[9 * common::HIDDEN] = f32::NAN;
    common::write_tensors(&folder.path().join("model.safetensors"), &tensors);
    let model = Model::load(folder.path(), &on(Precision::F32)).unwrap();
    let texts = [
        vec![2u32, 10, 11, 3],
        vec![2, 9, 3],
        vec![2, 12, 3],
        vec![2, 13, 14, 15, 3],
    ];
    let vectors = model.encode(&texts).unwrap();
    let finite: Vec<bool> = vectors
        .chunks(common::HIDDEN)
        .map(|vector| vector.iter().all(|value| value.is_finite()))
        .collect();
    assert_eq!(finite, [true, false, true, true]);
}
