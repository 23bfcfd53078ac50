//! Our vectors against sentence-transformers' on real models; token ids equal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

mod common;

use common::{cosine, read_npy, real_model, shared};
use isomer_embed::{device::Device, model::Model, pooling::normalise, tokenise::Cut};

fn agrees_with_sentence_transformers(id: &str) {
    let Some(golden) = shared().map(|shared| shared.join("goldens/encoders").join(id)) else {
        println!("skipped: no data");
        return;
    };
    let Some(folder) = real_model(id) else {
        println!("skipped: no model");
        return;
    };
    let read = |name: &str| std::fs::read(golden.join(name)).unwrap();
    let texts: Vec<String> = serde_json::from_slice(&read("texts.json")).unwrap();
    let ids: Vec<Vec<u32>> = serde_json::from_slice(&read("token_ids.json")).unwrap();
    let expected = read_npy(&golden.join("embeddings.npy"));

    let model = Model::load(&folder, &Device::Cpu).unwrap();
    let tokens: Vec<Vec<u32>> = texts
        .iter()
        .map(|text| model.tokenise("", text, Cut::Tail).unwrap().ids)
        .collect();
    assert_eq!(tokens, ids, "token ids");

    let width = model.dimensions();
    let mut together = model.encode(&tokens).unwrap();
    for (text, tokens) in together.chunks(width).zip(&tokens) {
        assert_eq!(
            text,
            model.encode(&[tokens]).unwrap(),
            "a text's vector is the same alone and in a batch"
        );
    }
    let backwards: Vec<&Vec<u32>> = tokens.iter().rev().collect();
    let reversed = model.encode(&backwards).unwrap();
    assert!(
        reversed.chunks(width).rev().eq(together.chunks(width)),
        "order does not matter"
    );

    if model.normalises() {
        together.chunks_mut(width).for_each(normalise);
    }
    let (mut worst, mut difference) = (1.0f64, 0.0f32);
    for ((got, want), text) in together.chunks(width).zip(expected.chunks(width)).zip(&texts) {
        let similarity = cosine(got, want);
        assert!(similarity >= 0.99999, "{similarity} on {text:?}");
        worst = worst.min(similarity);
        difference = got
            .iter()
            .zip(want)
            .map(|(a, b)| (a - b).abs())
            .fold(difference, f32::max);
    }
    println!(
        "{id}: {} texts, least cosine {worst:.9}, largest difference {difference:.2e}",
        texts.len()
    );
    assert!(difference < 2e-5, "elements differ by {difference}");
}

#[test]
fn all_minilm_l6_v2_agrees_with_sentence_transformers_on_every_golden_text() {
    agrees_with_sentence_transformers("all-MiniLM-L6-v2");
}

#[test]
fn paraphrase_minilm_l3_v2_agrees_with_sentence_transformers_on_every_golden_text() {
    agrees_with_sentence_transformers("paraphrase-MiniLM-L3-v2");
}
