//! Properties of every architecture: long texts are computed alike on both backends, and neither
//! threads nor other texts change a bit.

use std::{collections::BTreeSet, fs, path::Path};

use isomer_embed::{device::Device, model::Model};
use serde_json::Value;

use crate::common::{cosine, is_computed};

/// Fixtures whose positions extend beyond the texts of their golden values, with the columns of
/// their vectors.
const LONG: [&str; 12] = [
    "gemma3",
    "jina_bert",
    "jina_bert_qk",
    "llama",
    "mistral",
    "modernbert",
    "new",
    "new_en",
    "nomic_bert",
    "nv_embed",
    "qwen2",
    "qwen3",
];
const SHORT: [&str; 8] = [
    "deberta_v2",
    "distilbert",
    "gtr",
    "labse",
    "mpnet",
    "roberta",
    "sentence_t5",
    "xlm_roberta",
];

fn load(family: &str, device: &Device) -> Model {
    let folder = Path::new(".").join("tests/fixtures").join(family);
    Model::load(&folder, device).unwrap()
}

/// Ids that are not special tokens, from a linear congruential generator.
fn text(seed: u32, length: usize) -> Vec<u32> {
    let mut state = seed;
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *state >> 16
    };
    (0..length).map(|_| 10 + next(&mut state) % 300).collect()
}

/// `model_type` of a fixture; `None` for static vectors and for models that are not transformers.
fn model_type(folder: &Path) -> Option<String> {
    let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).ok()?).unwrap();
    let kind = config["model_type"].as_str().map(str::to_owned);
    kind.filter(|kind| kind != "model2vec")
}

#[test]
fn the_lists_have_every_architecture_that_has_a_fixture() {
    let fixtures = Path::new(".").join("tests/fixtures");
    let listed = LONG.into_iter().chain(SHORT);
    let listed: BTreeSet<String> = listed.filter_map(|family| model_type(&fixtures.join(family))).collect();
    let folders = fs::read_dir(&fixtures).unwrap().map(|folder| folder.unwrap().path());
    let all: BTreeSet<String> = folders.filter_map(|folder| model_type(&folder)).collect();
    assert_eq!(listed, all);
}

#[test]
fn long_texts_are_computed_alike_on_the_kernels_and_on_candle() {
    for family in LONG {
        let texts = [text(1, 1), text(2, 130), text(3, 700), text(4, 1025)];
        let ours = load(family, &Device::Cpu);
        let width = ours.dimensions();
        let ours = ours.encode(&texts).unwrap();
        let candle = load(family, &Device::candle(candle_core::Device::Cpu))
            .encode(&texts)
            .unwrap();
        for ((a, b), text) in ours.chunks(width).zip(candle.chunks(width)).zip(&texts) {
            let cosine = cosine(a, b);
            assert!(cosine > 0.999_999_9, "{family}, {} tokens: {cosine}", text.len());
        }
    }
}

#[test]
fn neither_threads_nor_company_change_a_bit() {
    for family in LONG
        .into_iter()
        .chain(SHORT)
        .filter(|family| is_computed(Path::new(family)))
    {
        let model = load(family, &Device::Cpu);
        let mut texts: Vec<Vec<u32>> = (0..40u32).map(|i| text(i, 1 + (i as usize * 37) % 90)).collect();
        if LONG.contains(&family) {
            texts.push(text(99, 350));
        }
        let alone: Vec<f32> = texts.iter().flat_map(|text| model.encode(&[text]).unwrap()).collect();
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let together = pool.install(|| model.encode(&texts).unwrap());
            assert_eq!(together, alone, "{family} on {threads} threads");
            // If a long text is alone on many threads, its heads are distributed among them.
            let last = &texts[texts.len() - 1..];
            let single = pool.install(|| model.encode(last).unwrap());
            assert!(together.ends_with(&single), "{family}, one text on {threads} threads");
        }
    }
}
