//! Every family against its reference, in one table: the tiny checkpoints of `fixtures/` (see
//! `make.py` there) and the real models of the cache (`make_real.py`), token ids included. `just
//! parity` prints it.

use std::path::{Path, PathBuf};

use isomer_embed::{batch::Sequence, device::Device, model::Model, pooling::normalise, tokenise::Cut};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::common::{cosine, fetched_model, fixtures, is_computed, other_model};

/// Minimum cosine, and maximum difference of an element: the smallest value that a fixture's
/// `tells_apart` shows is 6e-5.
const COSINE: f64 = 0.999_999;
const DIFFERENCE: f64 = 2e-5;

/// Texts of one prompt, with the reference's ids and results.
pub struct Golden {
    label: String,
    prompt: String,
    pub texts: Vec<String>,
    ids: Vec<Vec<u32>>,
    pub vectors: Vec<f32>,
    normalised: bool,
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn list<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// The content of `golden.json` and `golden.safetensors` of a fixture: all texts without prompt,
/// some with each prompt.
pub fn fixture_goldens(folder: &Path, model: &Model) -> Vec<Golden> {
    let facts = json(&folder.join("golden.json"));
    let bytes = std::fs::read(folder.join("golden.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let vectors = |name: &str| -> Vec<f32> {
        let data = tensors.tensor(name).unwrap().data();
        data.chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    };
    // Texts of real models already include the prefix.
    let prefix = facts["prefix"].as_str().unwrap_or_default();
    let texts: Vec<String> = list(&json(&folder.join(facts["texts"].as_str().unwrap())));
    let texts: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
    let name = folder.file_name().unwrap().to_str().unwrap();
    let normalised = facts["normalised"].as_bool().unwrap_or(model.normalises());
    // Static vectors have no ids: the vector shows which rows were looked up.
    let ids = match &facts["token_ids"] {
        Value::Null => texts
            .iter()
            .map(|text| model.tokenise("", text, Cut::Tail).unwrap().ids)
            .collect(),
        ids => list(ids),
    };
    let mut all = vec![Golden {
        label: name.to_owned(),
        prompt: String::new(),
        ids,
        vectors: vectors("embeddings"),
        texts: texts.clone(),
        normalised,
    }];
    for (key, value) in facts["prompts"].as_object().into_iter().flatten() {
        let prompts = json(&folder.join("config_sentence_transformers.json"))["prompts"].clone();
        let prompt = value["prompt_name"].as_str().unwrap();
        let ids: Vec<Vec<u32>> = list(&value["token_ids"]);
        all.push(Golden {
            label: format!("{name}, {prompt}"),
            prompt: prompts[prompt].as_str().unwrap().to_owned(),
            texts: texts[..ids.len()].to_vec(),
            ids,
            vectors: vectors(key),
            normalised,
        });
    }
    all
}

/// Vectors of tokenised texts, of which the first `prompt` tokens are not pooled.
fn encode(model: &Model, texts: &[impl AsRef<[u32]>], prompt: usize) -> Vec<f32> {
    let sequence = |ids: &[u32]| Sequence {
        ids: ids.to_vec(),
        prompt,
        ..Sequence::default()
    };
    let sequences: Vec<Sequence> = texts.iter().map(|ids| sequence(ids.as_ref())).collect();
    model.encode_sequences(sequences.iter()).unwrap().text_vectors
}

/// Compares and prints a row; errors are added to `wrong`.
fn row(model: &Model, candle: Option<&Model>, golden: &Golden, wrong: &mut Vec<String>) {
    let mut fail = |problem: String| wrong.push(format!("{}: {problem}", golden.label));
    let tokens: Vec<Vec<u32>> = golden
        .texts
        .iter()
        .map(|text| model.tokenise(&golden.prompt, text, Cut::Tail).unwrap().ids)
        .collect();
    let mut rows = tokens.iter().zip(&golden.ids).zip(&golden.texts);
    if let Some(((ours, theirs), text)) = rows.find(|((ours, theirs), _)| ours != theirs) {
        let text: String = text.chars().take(60).collect();
        fail(format!("ids of {text:?} are {ours:?}, not {theirs:?}"));
    }
    // Compared on the reference's ids, so that an error in ids does not hide one in numbers.
    let width = model.dimensions();
    let prompt = model.unpooled(&golden.prompt).unwrap();
    let raw = encode(model, &golden.ids, prompt);
    let single = golden
        .ids
        .iter()
        .zip(raw.chunks(width))
        .all(|(ids, vector)| encode(model, &[ids], prompt) == vector);
    let mut turned: Vec<&Vec<u32>> = golden.ids.iter().rev().collect();
    turned.rotate_left(golden.ids.len() / 3);
    let mut any_order = encode(model, &turned, prompt);
    any_order.rotate_right(golden.ids.len() / 3 * width);
    let any_order = any_order.chunks(width).rev().eq(raw.chunks(width));
    if !single || !any_order {
        fail(format!("batch = single is {single}, any order is {any_order}"));
    }
    let compare = |mut vectors: Vec<f32>| {
        if golden.normalised {
            vectors.chunks_mut(width).for_each(normalise);
        }
        assert_eq!(vectors.len(), golden.vectors.len(), "{}", golden.label);
        let rows = vectors.chunks(width).zip(golden.vectors.chunks(width));
        let least = rows
            .filter(|(_, want)| want.iter().any(|value| *value != 0.0))
            .map(|(got, want)| cosine(got, want))
            .fold(1.0, |least: f64, cosine| {
                if cosine < least || cosine.is_nan() {
                    cosine
                } else {
                    least
                }
            });
        let apart = vectors
            .iter()
            .zip(&golden.vectors)
            .map(|(a, b)| f64::from((a - b).abs()));
        (least, apart.fold(0.0, f64::max))
    };
    let (least, apart) = compare(raw);
    if least.is_nan() || least < COSINE || apart > DIFFERENCE {
        fail(format!("least cosine {least}, largest difference {apart:e}"));
    }
    let other = candle.map(|candle| compare(encode(candle, &golden.ids, prompt)).0);
    if other.is_some_and(|other| other.is_nan() || other < COSINE) {
        fail(format!("least cosine on Candle {other:?}"));
    }
    let yes = |yes: bool| if yes { "yes" } else { "NO" };
    println!(
        "{:<38} {:>5} {least:>13.9} {apart:>12.2e} {:>14} {:>9} {:>13}",
        golden.label,
        golden.texts.len(),
        yes(single),
        yes(any_order),
        other.map_or("-".to_owned(), |other| format!("{other:.9}")),
    );
}

fn head() {
    println!(
        "{:<38} {:>5} {:>13} {:>12} {:>14} {:>9} {:>13}",
        "family", "texts", "least cosine", "max |a - b|", "batch = single", "any order", "cosine Candle"
    );
}

fn families() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("golden.json").is_file() && folder.join("modules.json").is_file())
        .filter(|folder| is_computed(folder))
        .collect();
    folders.sort();
    folders
}

#[test]
fn every_fixture_agrees_with_its_reference() {
    let mut wrong = Vec::new();
    let folders = families();
    assert!(folders.len() >= 23, "the fixtures are not there");
    println!();
    head();
    for folder in folders {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        match Model::load(&folder, &Device::Cpu) {
            Ok(model) => {
                let candle = Model::load(&folder, &Device::candle(candle_core::Device::Cpu)).unwrap();
                for golden in fixture_goldens(&folder, &model) {
                    row(&model, Some(&candle), &golden, &mut wrong);
                }
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    for file in ["glove.txt", "word2vec.txt"] {
        let folder = fixtures().join("glove_text");
        let model = Model::load(&folder.join(file), &Device::Cpu).unwrap();
        for golden in fixture_goldens(&folder, &model) {
            let label = format!("{}, {file}", golden.label);
            row(&model, None, &Golden { label, ..golden }, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Compares models with the output of `make_real.py`.
fn real(models: impl IntoIterator<Item = (PathBuf, &'static str)>) {
    println!();
    head();
    let mut wrong = Vec::new();
    for (folder, golden) in models {
        let model = Model::load(&folder, &Device::Cpu).unwrap();
        for golden in fixture_goldens(&fixtures().join("real").join(golden), &model) {
            row(&model, None, &golden, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn fetched_real_models_agree_with_sentence_transformers() {
    let ids = ["all-MiniLM-L6-v2", "paraphrase-MiniLM-L3-v2"];
    real(ids.into_iter().filter_map(|id| Some((fetched_model(id)?, id))));
}

#[test]
#[ignore = "tests/more models: two models of 0.9 GB"]
fn other_real_models_agree_with_sentence_transformers() {
    let e5 = other_model("multilingual-e5-small-q4");
    real([
        (other_model("all-mpnet-base-v2"), "all-mpnet-base-v2"),
        (e5.clone(), "multilingual-e5-small-q4"),
        (e5, "multilingual-e5-small-q4-query"),
    ]);
}
