//! Cross-encoders against sentence-transformers' `CrossEncoder` (`tests/fixtures/*_reranker`,
//! `roberta_classifier`).

use std::path::PathBuf;

use isomer_embed::{batch::Sequence, device::Device, model::Model};
use isomer_proto::encoder::v1::{Activation, Capability, CountTokensRequest, GetEncoderRequest, RerankRequest};
use isomer_service_kit::Fault;
use isomer_stubs::promise::{promised, refusal};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use tonic::Code;

use crate::common::{copy, edit_json, fixtures, harness::Harness, harness::request};

struct Golden {
    pairs: Vec<(String, String)>,
    ids: Vec<Vec<u32>>,
    types: Vec<Vec<u32>>,
    logits: Vec<f32>,
    scores: Vec<f32>,
}

fn folder(name: &str) -> PathBuf {
    fixtures().join(name)
}

fn golden(name: &str) -> Golden {
    let read = |file: &str| std::fs::read(folder(name).join(file)).unwrap();
    let facts: Value = serde_json::from_slice(&read("golden.json")).unwrap();
    let texts: Vec<String> = serde_json::from_slice(&read("../texts.json")).unwrap();
    let pairs: Vec<(usize, usize)> = serde_json::from_value(facts["pairs"].clone()).unwrap();
    let bytes = read("golden.safetensors");
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: &str| -> Vec<f32> {
        let data = tensors.tensor(name).unwrap().data();
        data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    Golden {
        pairs: pairs
            .into_iter()
            .map(|(a, b)| (texts[a].clone(), texts[b].clone()))
            .collect(),
        ids: serde_json::from_value(facts["token_ids"].clone()).unwrap(),
        types: serde_json::from_value(facts["type_ids"].clone()).unwrap(),
        logits: floats("logits"),
        scores: floats("scores"),
    }
}

#[test]
fn scores_are_those_of_sentence_transformers() {
    for name in [
        "bert_reranker",
        "xlm_roberta_reranker",
        "roberta_classifier",
        "modernbert_reranker",
    ] {
        let model = Model::load(&folder(name), &Device::Cpu).unwrap_or_else(|error| panic!("{name}: {error}"));
        let golden = golden(name);
        let tokens: Vec<_> = golden
            .pairs
            .iter()
            .map(|(a, b)| model.tokenise_pair(&model.first_of_pairs(a).unwrap(), b).unwrap())
            .collect();
        for ((tokens, ids), types) in tokens.iter().zip(&golden.ids).zip(&golden.types) {
            assert_eq!(&tokens.ids, ids, "{name}");
            assert_eq!(tokens.second, types.iter().position(|kind| *kind == 1), "{name}");
        }
        let sequences: Vec<Sequence> = tokens.into_iter().map(Into::into).collect();
        let logits = model.encode_sequences(sequences.iter()).unwrap().text_vectors;
        assert_eq!(logits.len(), golden.logits.len(), "{name}");
        let alone: Vec<f32> = sequences
            .iter()
            .flat_map(|pair| model.encode_sequences([pair].into_iter()).unwrap().text_vectors)
            .collect();
        assert_eq!(logits, alone, "{name}: a pair's score is the same alone and in a batch");
        let apart = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let mut scores = logits.clone();
        model.score(&mut scores);
        let (of_logits, of_scores) = (apart(&logits, &golden.logits), apart(&scores, &golden.scores));
        println!("{name}: largest difference of logits {of_logits:.2e}, of scores {of_scores:.2e}");
        assert!(of_logits < 5e-5 && of_scores < 2e-5, "{name}: {of_logits} {of_scores}");
    }
}

async fn harness(name: &str) -> Harness {
    Harness::new(|model, _| {
        std::fs::remove_dir_all(model).unwrap();
        copy(&folder(name), model);
    })
    .await
}

fn ask(query: &str, documents: &[&str]) -> RerankRequest {
    RerankRequest {
        encoder_id: "tiny".into(),
        query: query.into(),
        documents: documents.iter().map(|text| (*text).to_owned()).collect(),
        ..RerankRequest::default()
    }
}

/// text-embeddings-inference applies a sigmoid whatever the model names; `bert_reranker` names
/// Identity.
#[tokio::test]
async fn scores_pass_through_the_function_that_a_request_names() {
    for (name, has_logits) in [("bert_reranker", true), ("xlm_roberta_reranker", false)] {
        let mut harness = harness(name).await;
        let mut score = async |activation: i32| {
            let request = RerankRequest {
                activation,
                ..ask("q", &["a"])
            };
            let answer = harness.client.rerank(request).await;
            answer.map(|answer| answer.into_inner().results[0].score)
        };
        let own = score(Activation::Unspecified.into()).await.unwrap();
        let logit = score(Activation::Identity.into()).await.unwrap();
        let sigmoid = score(Activation::Sigmoid.into()).await.unwrap();
        let expected = 1.0 / (1.0 + (-logit).exp());
        assert!((sigmoid - expected).abs() < 1e-6, "{name}: {sigmoid} {expected}");
        assert_eq!(own, if has_logits { logit } else { sigmoid }, "{name}");
        let refused = score(9).await.unwrap_err();
        assert_eq!(Fault::from_status(&refused).field.as_deref(), Some("activation"));
    }
}

#[tokio::test]
async fn documents_come_best_first_with_their_places_and_the_best_only_where_asked() {
    let mut harness = harness("xlm_roberta_reranker").await;
    let documents = ["one thing", "another thing", "", "the same again", "one thing"];
    let all = harness
        .client
        .rerank(ask("a query", &documents))
        .await
        .unwrap()
        .into_inner();
    let mut places: Vec<u32> = all.results.iter().map(|result| result.index).collect();
    assert!(all.results.is_sorted_by(|a, b| a.score >= b.score));
    assert!(all.results.iter().all(|result| (0.0..=1.0).contains(&result.score)));
    assert!(all.labels.is_empty() && all.results.iter().all(|result| result.label_scores.is_empty()));
    let place = |index| places.iter().position(|place| *place == index).unwrap();
    assert_eq!(place(0) + 1, place(4), "equal scores keep their order");
    let best = RerankRequest {
        top_n: Some(2),
        ..ask("a query", &documents)
    };
    let best = harness.client.rerank(best).await.unwrap().into_inner();
    assert_eq!(best.results, all.results[..2]);
    assert_eq!(best.usage, all.usage, "every document was scored");
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2, 3, 4]);
    let long = "word ".repeat(300);
    let cut = harness
        .client
        .rerank(ask("a query", &[&long]))
        .await
        .unwrap()
        .into_inner();
    assert!(cut.results[0].truncated && cut.results[0].token_count > 300);

    let got = harness
        .client
        .get_encoder(GetEncoderRequest { id: "tiny".into() })
        .await
        .unwrap()
        .into_inner()
        .encoder
        .unwrap();
    assert_eq!(got.capabilities, [i32::from(Capability::Rerank)]);
    assert_eq!((got.labels.len(), got.dimensions, got.max_tokens), (1, 0, 96));
    let count = CountTokensRequest {
        encoder_id: "tiny".into(),
        texts: vec!["a".into()],
        prompt: None,
    };
    assert!(harness.client.count_tokens(count).await.is_ok());
    let fault = harness.refuse(request(&["a"])).await;
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::Unimplemented, Some("encoder_id"))
    );
}

#[tokio::test]
async fn a_classifier_ranks_by_the_label_that_is_named() {
    let mut harness = harness("roberta_classifier").await;
    let documents = ["one thing", "another thing", "a third"];
    let labelled = |label: &str| RerankRequest {
        label: label.into(),
        ..ask("a premise", &documents)
    };
    for (column, label) in ["contradiction", "entailment", "neutral"].into_iter().enumerate() {
        let answer = harness.client.rerank(labelled(label)).await.unwrap().into_inner();
        assert_eq!(answer.labels, ["contradiction", "entailment", "neutral"]);
        assert!(answer.results.is_sorted_by(|a, b| a.score >= b.score));
        for result in answer.results {
            assert_eq!(
                (result.label_scores.len(), result.label_scores[column]),
                (3, result.score)
            );
        }
    }
    for label in ["", "nonsense"] {
        let fault = Fault::from_status(&harness.client.rerank(labelled(label)).await.unwrap_err());
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::InvalidArgument, Some("label"))
        );
        assert!(fault.hint.unwrap().contains("entailment"));
    }
}

#[tokio::test]
async fn what_cannot_be_ranked_is_refused_by_field() {
    let mut plain = Harness::plain().await;
    let mut refuse =
        async |request: RerankRequest| Fault::from_status(&plain.client.rerank(request).await.unwrap_err());
    promised(
        "EncoderService.Rerank UNIMPLEMENTED NOT_SERVED_YET encoder_id",
        &refuse(ask("q", &["d"])).await,
    );
    for documents in [vec![], vec!["d"; 5000]] {
        let fault = refuse(ask("q", &documents)).await;
        assert_eq!(refusal(&fault), "INVALID_ARGUMENT documents");
    }
    let none = RerankRequest {
        top_n: Some(0),
        ..ask("q", &["d"])
    };
    assert_eq!(refusal(&refuse(none).await), "INVALID_ARGUMENT top_n");
}

#[test]
fn heads_that_do_not_fit_are_refused_by_file() {
    let refusal = |name: &str, edit: fn(&mut Value)| {
        let place = tempfile::tempdir().unwrap();
        copy(&folder(name), place.path());
        edit_json(&place.path().join("config.json"), edit);
        Model::load(place.path(), &Device::Cpu)
            .err()
            .expect("must be refused")
            .to_string()
    };
    let text = refusal("bert_reranker", |config| {
        config["sbert_ce_default_activation_function"] = json!("evil.Code")
    });
    assert!(text.contains("evil.Code") && text.contains("Sigmoid"), "{text}");
    let text = refusal("roberta_classifier", |config| {
        config["id2label"] = json!({"0": "a", "1": "b"})
    });
    assert!(text.contains("2 labels") && text.contains('3'), "{text}");
}
