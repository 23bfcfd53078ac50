//! Sparse vectors of the kinds that have them, against stubs that answer as the published sources
//! of these servers do: text-embeddings-inference 1.9 (`router/src/http/server.rs`,
//! `core/src/infer.rs`) and vLLM 0.19 (`vllm/entrypoints/pooling/pooling/serving.py`,
//! `vllm/model_executor/layers/pooler/special.py`).

use isomer_adapters::check::{CheckOptions, check};
use isomer_proto::{
    ProtoEnum,
    common::v1::Dtype,
    encoder::v1::{Capability, CountTokensRequest, EncodeRequest, EncodeResponse, Output, Truncation},
    gateway::v1::ProviderKind,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::support::{
    Call, Reply, Stub, assert_posted, connect, dressed, long, named, of, provider, texts, try_connect, with_types,
};

fn sparse(request: EncodeRequest) -> EncodeRequest {
    EncodeRequest {
        output: Output::Sparse.into(),
        ..request
    }
}

fn entries(answer: &EncodeResponse) -> Vec<Vec<(u32, f32)>> {
    let pairs = answer.sparse_embeddings.iter();
    pairs
        .map(|vector| {
            vector
                .indices
                .iter()
                .copied()
                .zip(vector.values.iter().copied())
                .collect()
        })
        .collect()
}

/// A weight for each letter: its number of times in the text.
fn letters(text: &str) -> Vec<f32> {
    let mut weights = vec![0.0; 64];
    for byte in text.bytes() {
        weights[usize::from(byte) % 64] += 1.0;
    }
    weights
}

fn tei(call: &Call, pooling: &str) -> Reply {
    let refused = |message: &str| Reply::of(424, json!({"error": message, "error_type": "Backend"}));
    match call.path.as_str() {
        "/info" => Reply::ok(json!({
            "model_id": "theirs", "model_sha": "abc123", "model_dtype": "float16", "served_model_name": "theirs",
            "model_type": {"embedding": {"pooling": pooling}}, "max_input_length": 256, "max_client_batch_size": 2,
        })),
        "/embed_sparse" if pooling == "splade" => {
            let texts = texts(&call.body["inputs"]);
            let sparsify = |text: &String| -> Vec<Value> {
                let weights = letters(text)
                    .into_iter()
                    .enumerate()
                    .filter(|(_, weight)| *weight != 0.0);
                weights
                    .map(|(index, value)| json!({"index": index, "value": value}))
                    .collect()
            };
            let vectors: Vec<Vec<Value>> = texts.iter().map(sparsify).collect();
            Reply::ok(json!(vectors)).header("x-compute-tokens", (5 * texts.len()).to_string())
        }
        "/embed_sparse" => refused("Model is not an embedding model with SPLADE pooling"),
        "/embed" => refused("`normalize` is not available for SPLADE models"),
        _ => Reply::of(404, json!({"error": "no", "error_type": "empty"})),
    }
}

#[tokio::test]
async fn tei_with_splade_gives_sparse_vectors_alone() {
    let stub = Stub::start(|call| tei(call, "splade")).await;
    let (provider, _secret) = dressed(ProviderKind::TeiHttp, &stub.address);
    let backend = connect(&with_types(provider, &[("query", "query")]));
    let answer = backend.encode(sparse(of(&["aab", "", "ba"])), None).await.unwrap();
    assert_eq!(
        entries(&answer),
        [vec![(33, 2.0), (34, 1.0)], vec![], vec![(33, 1.0), (34, 1.0)]]
    );
    let usage = answer.usage.unwrap();
    assert_eq!((usage.texts, usage.tokens, usage.tokens_estimated), (3, 15, false));
    let space = answer.sparse_vector_space.unwrap();
    assert_eq!(
        (space.model_id.as_str(), space.pooling.as_str(), space.dtype()),
        ("tei/theirs@abc123", "float16>provider>sparse", Dtype::F32)
    );
    assert!(answer.embeddings.is_none() && answer.vector_space.is_none());
    let calls = stub.calls_of("/embed_sparse");
    assert_eq!(calls.len(), 2, "the server accepts two texts at once");
    assert_posted(&calls[0]);
    let plain = json!({"inputs": ["aab", ""], "truncate": true, "truncation_direction": "Right"});
    assert!(calls.iter().any(|call| call.body == plain), "{calls:?}");

    let asked = EncodeRequest {
        max_active_dimensions: Some(1),
        ..long(Truncation::Head, named("query", &["abb"]))
    };
    let answer = backend.encode(sparse(asked), None).await.unwrap();
    assert_eq!(entries(&answer), [vec![(34, 2.0)]]);
    assert_ne!(answer.sparse_vector_space.unwrap().digest, space.digest);
    assert_eq!(
        stub.calls_of("/embed_sparse")[2].body,
        json!({"inputs": ["abb"], "truncate": true, "truncation_direction": "Left", "prompt_name": "query"})
    );

    let encoder = backend.get("ours").await.unwrap();
    assert_eq!(encoder.capabilities, [i32::from(Capability::Sparse)]);
    let fault = backend.encode(of(&["a"]), None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::Unimplemented, "NOT_IN_MODEL")
    );
    assert!(stub.calls_of("/embed").is_empty());
}

#[tokio::test]
async fn tei_with_another_pooling_is_not_asked_for_sparse_vectors() {
    let stub = Stub::start(|call| tei(call, "cls")).await;
    let backend = connect(&provider(ProviderKind::TeiHttp, &stub.address));
    let fault = backend.encode(sparse(of(&["a"])), None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str(), fault.field.as_deref()),
        (Code::Unimplemented, "NOT_IN_MODEL", Some("outputs"))
    );
    assert!(stub.calls_of("/embed_sparse").is_empty());
}

#[tokio::test]
async fn an_encoder_with_sparse_vectors_alone_passes_its_check() {
    let stub = Stub::start(|call| tei(call, "splade")).await;
    let backend = connect(&provider(ProviderKind::TeiHttp, &stub.address));
    let report = check(&*backend, "ours", &CheckOptions::default()).await;
    assert!(report.usable, "{:?}", report.findings);
    let names: Vec<&str> = report.findings.iter().map(|finding| finding.name.as_str()).collect();
    for name in ["sparse_vectors", "distinct", "determinism", "order_preserved"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(report.fingerprint.is_none());
}

#[tokio::test]
async fn a_sparse_answer_that_does_not_fit_is_refused_with_its_text() {
    let entry = |index: i64, value: f64| json!({"index": index, "value": value});
    for (second, found) in [
        (json!([entry(7, -0.5)]), "text 1"),
        (json!([entry(7, 0.0)]), "text 1"),
        (json!([entry(7, 1e300)]), "cannot be read"),
        (json!([entry(7, 0.5), entry(7, 0.25)]), "text 1"),
        (json!([entry(-1, 0.5)]), "cannot be read"),
        (json!([entry(1 << 32, 0.5)]), "cannot be read"),
    ] {
        let stub = Stub::start(move |call| match call.path.as_str() {
            "/embed_sparse" => Reply::ok(json!([[entry(1, 0.5)], second])),
            _ => tei(call, "splade"),
        })
        .await;
        let backend = connect(&provider(ProviderKind::TeiHttp, &stub.address));
        let fault = backend.encode(sparse(of(&["a", "b"])), None).await.unwrap_err();
        assert_eq!((fault.code, fault.reason.as_str()), (Code::DataLoss, "PROVIDER_ANSWER"));
        assert!(fault.message.contains(found), "{fault}");
    }
    let stub = Stub::start(|call| match call.path.as_str() {
        "/embed_sparse" => Reply::ok(json!([[{"index": 1, "value": 0.5}]])),
        _ => tei(call, "splade"),
    })
    .await;
    let backend = connect(&provider(ProviderKind::TeiHttp, &stub.address));
    let fault = backend.encode(sparse(of(&["a", "b"])), None).await.unwrap_err();
    assert_eq!(fault.reason, "PROVIDER_ANSWER", "one vector for two texts: {fault}");
}

#[derive(Clone, Copy, PartialEq)]
enum ServedModel {
    /// `BgeM3EmbeddingModel` with the task `token_classify`.
    Lexical,
    /// `BertSpladeSparseEmbeddingModel`.
    Splade,
    /// A model of dense vectors.
    Dense,
}

/// Ids of a text: a byte is a token, between 0 and 2.
fn ids(text: &str) -> Vec<u32> {
    let bytes = text.bytes().map(u32::from);
    std::iter::once(0).chain(bytes).chain([2]).collect()
}

fn vllm(call: &Call, served: ServedModel) -> Reply {
    match (call.path.as_str(), call.body["task"].as_str()) {
        ("/tokenize", None) => {
            let tokens = ids(call.body["prompt"].as_str().unwrap());
            Reply::ok(json!({"count": tokens.len(), "max_model_len": 512, "tokens": tokens, "token_strs": null}))
        }
        ("/pooling", Some("token_classify")) if served == ServedModel::Lexical => {
            let inputs: Vec<Vec<u32>> = serde_json::from_value(call.body["input"].clone()).unwrap();
            let weights = |ids: &Vec<u32>| -> Vec<f32> {
                let inner = &ids[1..ids.len() - 1];
                // Ids below 97 have no weight, and later tokens have more.
                let weight = |(at, id): (usize, &u32)| if *id < 97 { 0.0 } else { 0.25 * (at + 1) as f32 };
                inner.iter().enumerate().map(weight).collect()
            };
            pooled(inputs.iter().map(weights).collect(), 5)
        }
        ("/pooling", Some("embed")) if served != ServedModel::Lexical => {
            let vector = |text: &String| match served {
                ServedModel::Splade => letters(text),
                _ => vec![0.5, -0.5, 0.5, 0.5],
            };
            pooled(texts(&call.body["input"]).iter().map(vector).collect(), 4)
        }
        ("/pooling", Some(task)) => Reply::of(
            400,
            json!({"error": {"message": format!("Unsupported task: {task:?}"), "type": "BadRequestError", "code": 400}}),
        ),
        _ => Reply::of(404, json!({"detail": "Not Found"})),
    }
}

/// The answer lists its items backwards: adapters go by the index.
fn pooled(vectors: Vec<Vec<f32>>, tokens: usize) -> Reply {
    let count = vectors.len();
    let items = vectors.into_iter().enumerate().rev();
    let data: Vec<Value> = items
        .map(|(index, data)| json!({"index": index, "object": "pooling", "data": data}))
        .collect();
    let tokens = tokens * count;
    Reply::ok(json!({
        "id": "pool-1", "object": "list", "created": 1, "model": "theirs", "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }))
}

#[tokio::test]
async fn vllm_pairs_the_weights_of_bge_m3_with_token_ids() {
    let stub = Stub::start(|call| vllm(call, ServedModel::Lexical)).await;
    let (provider, _secret) = dressed(ProviderKind::Vllm, &stub.address);
    let backend = connect(&provider);
    let answer = backend.encode(sparse(of(&["aba!", ""])), None).await.unwrap();
    assert_eq!(entries(&answer), [vec![(97, 0.75), (98, 0.5)], vec![]]);
    assert_eq!(answer.usage.unwrap().tokens, 10);
    let space = answer.sparse_vector_space.unwrap();
    assert_eq!(
        (space.model_id.as_str(), space.pooling.as_str()),
        ("vllm/theirs", "provider>sparse")
    );
    let pooling = &stub.calls_of("/pooling")[0];
    assert_posted(pooling);
    assert_eq!(
        pooling.body,
        json!({
            "model": "theirs", "task": "token_classify", "encoding_format": "float",
            "input": [[0, 97, 98, 97, 33, 2], [0, 2]],
        })
    );
    assert_eq!(
        stub.calls_of("/tokenize")[0].body,
        json!({"model": "theirs", "prompt": "aba!"})
    );
    let counted = CountTokensRequest {
        encoder_id: "ours".into(),
        texts: vec!["aba!".into(), String::new()],
        ..CountTokensRequest::default()
    };
    let counts = backend.count_tokens(counted, None).await.unwrap();
    assert_eq!(counts.token_counts, [6, 2]);
}

#[tokio::test]
async fn vllm_gives_the_vocabulary_of_a_splade_model_and_remembers_its_task() {
    let stub = Stub::start(|call| vllm(call, ServedModel::Splade)).await;
    let backend = connect(&provider(ProviderKind::Vllm, &stub.address));
    for _ in 0..2 {
        let answer = backend.encode(sparse(of(&["aab", "b"])), None).await.unwrap();
        assert_eq!(entries(&answer), [vec![(33, 2.0), (34, 1.0)], vec![(34, 1.0)]]);
        assert_eq!(answer.usage.unwrap().tokens, 8);
    }
    let tasks: Vec<Value> = stub
        .calls_of("/pooling")
        .iter()
        .map(|call| call.body["task"].clone())
        .collect();
    assert_eq!(tasks, ["token_classify", "embed", "embed"]);
}

#[tokio::test]
async fn vllm_with_a_dense_model_gives_no_sparse_vectors() {
    let stub = Stub::start(|call| vllm(call, ServedModel::Dense)).await;
    let backend = connect(&provider(ProviderKind::Vllm, &stub.address));
    let fault = backend.encode(sparse(of(&["a"])), None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str(), fault.field.as_deref()),
        (Code::Unimplemented, "NOT_IN_MODEL", Some("outputs"))
    );
}

#[tokio::test]
async fn vllm_is_at_the_root_of_its_address() {
    let fault = try_connect(&provider(ProviderKind::Vllm, "http://127.0.0.1:8000/v1/")).unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("provider.address"));
}

#[tokio::test]
async fn results_that_a_kind_cannot_give_are_refused_by_name() {
    let several = |outputs: &[Output]| EncodeRequest {
        outputs: outputs.iter().map(|output| i32::from(*output)).collect(),
        ..of(&["a"])
    };
    let (text, tokens) = (Output::TextVector, Output::TokenVectors);
    for kind in isomer_adapters::kinds().filter(|kind| kind.value != ProviderKind::Isomer) {
        let scheme = if kind.grpc { "grpc" } else { "http" };
        let mut provider = provider(kind.value, &format!("{scheme}://127.0.0.1:9"));
        if kind.needs_input_types() {
            provider.input_types.insert(String::new(), "search_query".to_owned());
        }
        let backend = connect(&provider);
        let has_sparse = kind.capabilities().contains(&("sparse vectors", "yes".to_owned()));
        for (request, field) in [
            (several(&[text, tokens]), "outputs"),
            (several(&[text, Output::Sparse]), "outputs"),
            (sparse(of(&["a"])), "output"),
        ] {
            let fault = backend.encode(request, None).await.unwrap_err();
            let lacks = fault.reason == "NOT_IN_PROTOCOL" && fault.field.as_deref() == Some(field);
            let served = has_sparse && field == "output";
            assert_eq!(lacks, !served, "{}: {fault}", kind.value.dashed());
        }
        let scaled = EncodeRequest {
            normalise: Some(true),
            ..sparse(of(&["a"]))
        };
        let fault = backend.encode(scaled, None).await.unwrap_err();
        if has_sparse {
            assert_eq!(fault.field.as_deref(), Some("normalise"), "{fault}");
        }
    }
}
