//! `embed.backend`: Candle on the CPU compared with our kernels, and the separation of their
//! vectors.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use isomer_embed::device::CpuBackend;
use isomer_proto::encoder::v1::{EncodeRequest, RerankRequest};

use crate::common::{
    cosine, fixtures,
    harness::{Harness, request, rows, texts},
    is_computed,
};

/// Bounds on the differences between the vectors of the two backends, in f32. Each is within 2e-5
/// of the reference (`parity`), and the fixture shows errors of 6e-5 or more.
const DIFFERENCE: f32 = 2e-5;
const COSINE: f64 = 0.999_999;

/// Every fixture that is a transformer, by name; `pairs` picks the cross-encoders.
fn transformers(pairs: bool) -> BTreeMap<String, PathBuf> {
    let folders = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let is_transformer = |folder: &Path| {
        let config = fs::read_to_string(folder.join("config.json")).unwrap_or_default();
        config.contains("\"model_type\"") && !config.contains("\"model2vec\"")
    };
    folders
        .filter(|folder| folder.join("golden.json").is_file() && is_transformer(folder))
        .filter(|folder| folder.join("modules.json").is_file() != pairs)
        .filter(|folder| is_computed(folder))
        .map(|folder| (folder.file_name().unwrap().to_str().unwrap().to_owned(), folder))
        .collect()
}

/// A service with this backend, named as in a configuration file.
async fn service(backend: &str) -> Harness {
    Harness::new(|_, config| {
        *config =
            serde_json::from_value(serde_json::json!({ "backend": backend, "encoders": config.encoders })).unwrap();
        config.encoders.extend(transformers(false));
        config.encoders.extend(transformers(true));
    })
    .await
}

fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[tokio::test]
async fn candle_computes_every_fixture_as_the_kernels_do() {
    let all: Vec<String> = serde_json::from_slice(&fs::read(fixtures().join("texts.json")).unwrap()).unwrap();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let (mut kernels, mut candle) = (service("kernels").await, service("candle").await);
    let encoders = transformers(false);
    assert!(encoders.len() >= 19, "the fixtures are not there");
    let mut other_bits = 0;
    for name in encoders.keys() {
        let request = EncodeRequest {
            encoder_id: name.clone(),
            inputs: texts(&all),
            ..EncodeRequest::default()
        };
        let ours = rows(&kernels.encode(request.clone()).await);
        let theirs = rows(&candle.encode(request).await);
        other_bits += usize::from(ours != theirs);
        for (text, (a, b)) in all.iter().zip(ours.iter().zip(&theirs)) {
            assert!(apart(a, b) <= DIFFERENCE, "{name}, {text:?}: {}", apart(a, b));
            assert!(cosine(a, b) >= COSINE, "{name}, {text:?}: {}", cosine(a, b));
        }
    }
    assert!(
        other_bits > encoders.len() / 2,
        "both services compute alike: {other_bits}"
    );
    for encoder_id in transformers(true).into_keys() {
        let request = RerankRequest {
            encoder_id: encoder_id.clone(),
            query: all[1].to_owned(),
            documents: all[..20].iter().map(|&text| text.to_owned()).collect(),
            // A classifier with several labels scores by one of them.
            label: if encoder_id.ends_with("classifier") {
                "entailment"
            } else {
                ""
            }
            .to_owned(),
            ..RerankRequest::default()
        };
        let scores = |answer: isomer_proto::encoder::v1::RerankResponse| {
            let mut results: Vec<_> = answer.results.iter().map(|one| (one.index, one.score)).collect();
            results.sort_by_key(|(index, _)| *index);
            results.into_iter().map(|(_, score)| score).collect::<Vec<f32>>()
        };
        let ours = scores(kernels.client.rerank(request.clone()).await.unwrap().into_inner());
        let theirs = scores(candle.client.rerank(request).await.unwrap().into_inner());
        assert_eq!(ours.len(), 20, "{encoder_id}");
        assert!(
            apart(&ours, &theirs) <= DIFFERENCE,
            "{encoder_id}: {}",
            apart(&ours, &theirs)
        );
    }
}

#[tokio::test]
async fn a_cache_never_gives_one_backend_the_vectors_of_the_other() {
    let cache = tempfile::tempdir().unwrap();
    let service = |backend| {
        Harness::new(move |_, config| {
            config.backend = backend;
        })
    };
    let with_cache = |backend| {
        let cache = cache.path().to_path_buf();
        Harness::new(move |_, config| {
            config.backend = backend;
            config.cache_dir = Some(cache);
        })
    };
    let inputs = ["a b", "c d e", "query"];
    for backend in [CpuBackend::Kernels, CpuBackend::Candle, CpuBackend::Kernels] {
        let uncached = service(backend).await.encode(request(&inputs)).await;
        let first = with_cache(backend).await.encode(request(&inputs)).await;
        let again = with_cache(backend).await.encode(request(&inputs)).await;
        assert_eq!(again.usage.as_ref().unwrap().cached_texts, 3);
        assert_eq!(again.embeddings, first.embeddings);
        // Cached or computed, the bits are those of the configured backend.
        assert_eq!(first.embeddings, uncached.embeddings, "{backend:?}");
    }
    let spaces = fs::read_dir(cache.path()).unwrap().count();
    assert_eq!(spaces, 2, "one folder for each backend");
}

#[tokio::test]
async fn a_service_refuses_a_backend_that_lacks_its_arithmetic() {
    use isomer_embed::{EmbedConfig, EmbedService, device::Precision};
    let home = tempfile::tempdir().unwrap();
    let config = EmbedConfig {
        backend: CpuBackend::Candle,
        precision: Precision::Int8,
        ..EmbedConfig::default()
    };
    let error = EmbedService::new(config, crate::common::resolver(home.path()))
        .err()
        .unwrap();
    assert!(matches!(&error, isomer_embed::EmbedError::Config(error) if error.field() == "embed.backend"));
    assert!(
        error.to_string().contains("give embed.backend = \"kernels\""),
        "{error}"
    );
}
