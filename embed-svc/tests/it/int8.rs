//! Rounded linear layers: still a function of the text alone, close to the float path, and in a
//! separate space.

use std::path::Path;

use isomer_embed::{
    device::{CpuBackend, Device, Precision},
    model::Model,
    tokenise::Cut,
};
use proptest::prelude::*;

use crate::{
    common::{HIDDEN, POSITIONS, cosine, fetched_model, fixtures, other_model, tiny},
    parity::fixture_goldens,
};

fn load(folder: &Path, precision: Precision) -> Model {
    Model::load(folder, &Device::open("cpu", precision, CpuBackend::Kernels).unwrap()[0]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn batch_equals_single_bit_for_bit_on_any_number_of_threads(
        texts in prop::collection::vec(prop::collection::vec(0u32..61, 1..POSITIONS), 1..40),
        threads in 1usize..5,
    ) {
        let folder = tempfile::tempdir().unwrap();
        tiny(folder.path());
        for precision in [Precision::Int8, Precision::Bf16] {
            let model = load(folder.path(), precision);
            let alone: Vec<f32> = texts.iter().flat_map(|text| model.encode(&[text]).unwrap()).collect();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            prop_assert_eq!(pool.install(|| model.encode(&texts).unwrap()), alone);
        }
    }
}

#[test]
fn vectors_are_near_those_of_the_floats_but_not_the_same() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let texts: Vec<Vec<u32>> = (1..POSITIONS as u32)
        .map(|n| (0..n).map(|i| (i * 7 + n) % 61).collect())
        .collect();
    let floats = load(folder.path(), Precision::F32).encode(&texts).unwrap();
    for (precision, least) in [(Precision::Int8, 0.995), (Precision::Bf16, 0.9999)] {
        let rounded = load(folder.path(), precision).encode(&texts).unwrap();
        assert_ne!(floats, rounded);
        for (a, b) in floats.chunks(HIDDEN).zip(rounded.chunks(HIDDEN)) {
            assert!(cosine(a, b) > least, "{precision:?}: {}", cosine(a, b));
        }
    }
}

#[test]
fn the_pipeline_names_the_arithmetic_and_the_bits() {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    assert_eq!(load(folder.path(), Precision::F32).pipeline(), "mean");
    assert_eq!(load(folder.path(), Precision::Int8).pipeline(), "int8-8x7>mean");
    assert_eq!(load(folder.path(), Precision::Bf16).pipeline(), "bf16-linear>mean");
}

/// Compares with the texts and vectors of `make_real.py`. The bounds are those with which the loss
/// on sentence similarity was measured.
fn stays_near_sentence_transformers(folder: &Path, id: &str, precision: Precision, least_allowed: f64) {
    let model = load(folder, precision);
    for golden in fixture_goldens(&fixtures().join("real").join(id), &model) {
        let ids: Vec<Vec<u32>> = golden
            .texts
            .iter()
            .map(|text| model.tokenise("", text, Cut::Tail).unwrap().ids)
            .collect();
        let (vectors, width) = (model.encode(&ids).unwrap(), model.dimensions());
        let mut cosines: Vec<f64> = vectors
            .chunks(width)
            .zip(golden.vectors.chunks(width))
            .map(|(a, b)| cosine(a, b))
            .collect();
        cosines.sort_by(f64::total_cmp);
        let mean = cosines.iter().sum::<f64>() / cosines.len() as f64;
        println!(
            "{id} {precision:?}: {} texts, cosine least {:.5}, mean {mean:.5}",
            cosines.len(),
            cosines[0]
        );
        assert!(cosines[0] > least_allowed, "{id}: {}", cosines[0]);
    }
}

#[test]
fn the_fetched_real_model_stays_near_sentence_transformers() {
    let id = "all-MiniLM-L6-v2";
    if let Some(folder) = fetched_model(id) {
        stays_near_sentence_transformers(&folder, id, Precision::Int8, 0.98);
        stays_near_sentence_transformers(&folder, id, Precision::Bf16, 0.9995);
    }
}

#[test]
#[ignore = "tests/more models: a model of 0.4 GB"]
fn other_real_models_stay_near_sentence_transformers() {
    let id = "all-mpnet-base-v2";
    stays_near_sentence_transformers(&other_model(id), id, Precision::Int8, 0.97);
    stays_near_sentence_transformers(&other_model(id), id, Precision::Bf16, 0.9995);
}
