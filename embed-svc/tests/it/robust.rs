//! No external input may cause a panic, a hang or an invalid vector: files, texts, sizes, weights.

use std::{fs, path::Path, time::Duration};

use isomer_embed::{device::Device, model::Model, registry::memory_bytes, tokenise::Cut};
use isomer_proto::encoder::v1::{EncodeRequest, EncodeStreamRequest, Output, RerankRequest, Truncation};
use isomer_service_kit::Fault;
use proptest::prelude::*;
use serde_json::json;
use tonic::Code;

use crate::common::{
    self, HIDDEN, assembled, edit_json,
    harness::{Harness, request, rows},
    tensors, tiny, write_tensors,
};

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Loads a folder with arbitrary file contents. Success is allowed, and so is an error that names a
/// file and a remedy.
fn load(folder: &Path) -> Option<Model> {
    match Model::load(folder, &Device::Cpu) {
        Ok(model) => Some(model),
        Err(error) => {
            let fault = Fault::from(error);
            assert_eq!(fault.code, Code::FailedPrecondition, "{fault}");
            assert!(fault.hint.is_some_and(|hint| !hint.is_empty()));
            None
        }
    }
}

const TRANSFORMER: [&str; 7] = [
    "model.safetensors",
    "tokenizer.json",
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
];

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn random_bytes_as_any_file_are_an_error(file in prop::sample::select(&TRANSFORMER[..]), bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let folder = tempfile::tempdir().unwrap();
        tiny(folder.path());
        fs::write(folder.path().join(file), bytes).unwrap();
        prop_assert!(load(folder.path()).is_none());
    }

    #[test]
    fn a_file_with_a_few_bytes_changed_loads_or_is_refused(
        file in prop::sample::select(&TRANSFORMER[..]),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        tiny(folder.path());
        let path = folder.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        // Positions in the structure, not only among the numbers.
        let head = bytes.len().min(3000);
        for (place, value) in hits {
            bytes[place.index(head)] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(&path, bytes).unwrap();
        if let Some(model) = load(folder.path()) {
            // A model that loads must also be usable.
            let limit = model.max_tokens();
            let tokens = model.tokenise("", "some words, and more", Cut::Tail);
            if let Ok(tokens) = tokens {
                prop_assert!(tokens.ids.len() <= limit);
                prop_assert!(tokens.ids.iter().all(|id| (*id as usize) < model.vocabulary()));
                let _ = model.encode(&[tokens.ids]);
            }
        }
    }

    #[test]
    fn a_word_embeddings_folder_with_a_few_bytes_changed_loads_or_is_refused(
        name in prop::sample::select(&["words", "words-weighted", "model2vec", "static"][..]),
        number in any::<prop::sample::Index>(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let model = assembled(name, false, folder.path());
        let mut files: Vec<_> = fs::read_dir(&model).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file()).collect();
        files.sort();
        let file = &files[number.index(files.len())];
        let mut bytes = fs::read(file).unwrap();
        let head = bytes.len().min(1500);
        for (place, value) in hits {
            bytes[place.index(head)] = value;
        }
        fs::write(file, bytes).unwrap();
        if let Some(model) = load(&model)
            && let Ok(tokens) = model.tokenise("", "the cat sat on one", Cut::Tail)
        {
            let _ = model.encode(&[tokens.ids]);
        }
    }

    #[test]
    fn random_bytes_as_a_file_of_word_vectors_are_an_error_or_vectors(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vectors.txt");
        fs::write(&file, bytes).unwrap();
        if let Some(model) = load(&file) {
            prop_assert!(model.dimensions() > 0);
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    let strange = "[\u{0}-\u{10ffff}]{0,40}";
    let marks = "(\u{200d}|\u{feff}|\u{202e}|\u{0300}|[A-z ]|\\[CLS\\]|\\[SEP\\]|\u{1f469}|\u{fe0f}){0,60}";
    prop_oneof![strange, marks, Just(String::new()), Just("\u{0}".into())]
}

proptest! {
    #![proptest_config(cases(40))]
    #[test]
    fn any_text_has_a_finite_vector_that_its_batch_does_not_change(texts in prop::collection::vec(text(), 1..12)) {
        let folder = tempfile::tempdir().unwrap();
        tiny(folder.path());
        let transformer = Model::load(folder.path(), &Device::Cpu).unwrap();
        let words = Model::load(&assembled("words", false, folder.path()), &Device::Cpu).unwrap();
        for model in [&transformer, &words] {
            let ids: Vec<Vec<u32>> = texts.iter().map(|text| model.tokenise("", text, Cut::Tail).unwrap().ids).collect();
            let vectors = model.encode(&ids).unwrap();
            prop_assert!(vectors.iter().all(|value| value.is_finite()));
            for (ids, vector) in ids.iter().zip(vectors.chunks(model.dimensions())) {
                prop_assert_eq!(&model.encode(&[ids]).unwrap()[..], vector);
            }
        }
    }
}

#[tokio::test]
async fn a_text_of_a_megabyte_is_cut_counted_or_refused() {
    let mut harness = Harness::new(|_, config| config.max_text_bytes = 2 << 20).await;
    let long = "a b c d ".repeat(128 << 10);
    assert_eq!(long.len(), 1 << 20);
    let unbroken = "x".repeat(1 << 20);
    let response = harness.encode(request(&[&long, "a", &unbroken])).await;
    assert_eq!(response.truncated, [true, false, false]);
    assert_eq!(response.token_counts[0], (1 << 19) + 2);
    assert_eq!(rows(&response).len(), 3);
    let tail = EncodeRequest {
        truncation: Truncation::Head.into(),
        ..request(&[&long])
    };
    assert_eq!(harness.encode(tail).await.truncated, [true]);
    let strict = EncodeRequest {
        truncation: Truncation::Error.into(),
        ..request(&["a", &long])
    };
    let fault = harness.refuse(strict).await;
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("inputs[1].text"))
    );

    let folder = tempfile::tempdir().unwrap();
    let mut words = Harness::new(|_, config| {
        let model = assembled("words", false, folder.path());
        config.encoders.insert("tiny".into(), model);
        config.max_text_bytes = 2 << 20;
    })
    .await;
    let long = "the cat sat on one ".repeat(60_000);
    let response = words.encode(request(&[&long, "the cat sat on one"])).await;
    assert_eq!(response.truncated, [false, false], "word vectors have no such limit");
    let rows = rows(&response);
    let far = rows[0][..8]
        .iter()
        .zip(&rows[1][..8])
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(far < 1e-3, "the mean of a text repeated is the text's: {far}");
}

#[tokio::test]
async fn a_batch_of_a_hundred_thousand_is_refused_at_once_and_served_in_a_stream() {
    let mut harness = Harness::plain().await;
    let all: Vec<String> = (0..100_000u32)
        .map(|n| format!("{}", char::from(b'a' + (n % 26) as u8)))
        .collect();
    let refs: Vec<&str> = all.iter().map(String::as_str).collect();
    let fault = harness.refuse(request(&refs)).await;
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("inputs"))
    );
    assert!(
        fault.message.contains("100000") && fault.message.contains("4096"),
        "{fault}"
    );
    assert!(fault.hint.unwrap().contains("stream"));
    let messages: Vec<_> = (0u64..)
        .zip(refs.chunks(4096))
        .map(|(client_index, chunk)| EncodeStreamRequest {
            client_index,
            request: Some(request(chunk)),
        })
        .collect();
    let mut answers = harness
        .client
        .encode_stream(tokio_stream::iter(messages))
        .await
        .unwrap()
        .into_inner();
    let mut first = None;
    let mut count = 0;
    while let Some(answer) = answers.message().await.unwrap() {
        let rows = rows(&answer.response.unwrap());
        let first = first.get_or_insert_with(|| rows[0].clone());
        assert_eq!(&rows[(26 - count % 26) % 26], first, "the same letter, the same vector");
        count += rows.len();
    }
    assert_eq!(count, 100_000);
}

#[tokio::test]
async fn weights_that_make_nan_or_infinity_are_an_error_that_names_the_input_in_every_delivery() {
    let broken: [fn(&Path); 3] = [
        |model| {
            let mut all = tensors("");
            all.get_mut("embeddings.word_embeddings.weight").unwrap().1[9 * HIDDEN] = f32::NAN;
            write_tensors(&model.join("model.safetensors"), &all);
        },
        |model| {
            let mut all = tensors("");
            all.get_mut("embeddings.word_embeddings.weight").unwrap().1[9 * HIDDEN] = f32::INFINITY;
            write_tensors(&model.join("model.safetensors"), &all);
        },
        |model| {
            let mut all = tensors("");
            for value in &mut all.get_mut("embeddings.LayerNorm.weight").unwrap().1 {
                *value = f32::MAX;
            }
            write_tensors(&model.join("model.safetensors"), &all);
        },
    ];
    for (number, damage) in broken.into_iter().enumerate() {
        let mut harness = Harness::new(|model, _| damage(model)).await;
        // Id 9 is the letter a: the first two kinds of damage affect only texts that contain it.
        let (inputs, hit) = if number < 2 { (["b", "c a"], 1) } else { (["b", "c"], 0) };
        for output in [Output::TextVector, Output::TokenVectors] {
            for dtype in 1..=4 {
                let asked = EncodeRequest {
                    output: output.into(),
                    output_dtype: dtype,
                    ..request(&inputs)
                };
                let fault = harness.refuse(asked).await;
                // Int8 needs ranges, whose absence is refused first.
                if dtype != 3 {
                    assert_eq!(fault.reason, "VECTOR_NOT_FINITE", "{number} {fault}");
                    assert_eq!(fault.field, Some(format!("inputs[{hit}]")));
                }
            }
        }
        if number < 2 {
            assert_eq!(harness.encode(request(&["b", "c"])).await.token_counts, [3, 3]);
        }
    }
}

#[tokio::test]
async fn a_cross_encoder_that_makes_nan_names_the_document() {
    let mut harness = Harness::new(|model, _| {
        fs::remove_dir_all(model).unwrap();
        common::copy(&common::fixtures().join("bert_reranker"), model);
        edit_json(&model.join("config.json"), |config| {
            config["layer_norm_eps"] = json!(-1e30)
        });
    })
    .await;
    let asked = RerankRequest {
        encoder_id: "tiny".into(),
        query: "a".into(),
        documents: vec!["b".into()],
        ..RerankRequest::default()
    };
    let fault = Fault::from_status(&harness.client.rerank(asked).await.unwrap_err());
    assert!(fault.code == Code::FailedPrecondition, "{fault}");
}

#[tokio::test]
async fn several_models_share_a_bound_and_one_that_works_never_goes() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = 0;
    let mut harness = Harness::new(|model, config| {
        bytes = memory_bytes(model, &Device::Cpu);
        for name in ["second", "third"] {
            let other = folder.path().join(name);
            common::copy(model, &other);
            config.encoders.insert(name.into(), other);
        }
        config.max_model_bytes = 2 * bytes;
    })
    .await;
    let ask = |id: &str| EncodeRequest {
        encoder_id: id.into(),
        ..request(&["a b"])
    };
    let loaded = async |harness: &mut Harness| {
        let page = harness
            .client
            .list_encoders(isomer_proto::encoder::v1::ListEncodersRequest::default());
        let encoders = page.await.unwrap().into_inner().encoders;
        encoders
            .into_iter()
            .filter(|e| e.loaded)
            .map(|e| e.id)
            .collect::<Vec<_>>()
    };
    let first = harness.encode(ask("tiny")).await;
    harness.encode(ask("second")).await;
    assert_eq!(loaded(&mut harness).await, ["second", "tiny"]);
    harness.encode(ask("tiny")).await;
    harness.encode(ask("third")).await;
    assert_eq!(
        loaded(&mut harness).await,
        ["third", "tiny"],
        "the one asked for longest ago went"
    );
    assert_eq!(
        harness.encode(ask("second")).await.embeddings,
        first.embeddings,
        "it comes back the same"
    );

    // Many concurrent requests for more models than fit: each is answered, or refused with a
    // request to retry.
    let tasks: Vec<_> = (0..30)
        .map(|n| {
            let (mut client, ask) = (harness.client.clone(), ask(["tiny", "second", "third"][n % 3]));
            tokio::spawn(async move {
                loop {
                    match client.encode(ask.clone()).await {
                        Ok(answer) => return answer.into_inner().embeddings,
                        Err(status) => {
                            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                            assert!(Fault::from_status(&status).retry_after.is_some());
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), first.embeddings);
    }
    assert!(loaded(&mut harness).await.len() <= 2);

    let mut small = Harness::new(|_, config| config.max_model_bytes = bytes - 1).await;
    let fault = small.refuse(ask("tiny")).await;
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::FailedPrecondition, "MODEL_TOO_LARGE")
    );
    assert!(fault.hint.unwrap().contains("max_model_bytes"));
}
