//! The kinds that speak HTTP: what each is sent, to the last field, and what becomes of its answer.

use base64::{Engine, prelude::BASE64_STANDARD};
use isomer_adapters::check::{CheckOptions, check};
use isomer_proto::{
    encoder::v1::{Capability, CountTokensRequest, EncodeRequest, Input, RerankRequest, TokenIds, Truncation, input},
    gateway::v1::{Provider, ProviderKind},
};
use serde_json::{Value, json};

use crate::support::{
    Call, Reply, SECRET, Stub, connect, listed, literal, named, of, provider, rows, texts, vector, vectors, with_secret,
};

fn with_types(mut provider: Provider, types: &[(&str, &str)]) -> Provider {
    provider.input_types = types
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned()))
        .collect();
    provider
}

fn long(truncation: Truncation, request: EncodeRequest) -> EncodeRequest {
    EncodeRequest {
        truncation: truncation.into(),
        ..request
    }
}

fn rank(top_n: Option<u32>) -> RerankRequest {
    RerankRequest {
        encoder_id: "ours".into(),
        query: "which".into(),
        documents: vec!["first".into(), "second".into(), "third".into()],
        top_n,
        ..RerankRequest::default()
    }
}

/// Sent by everyone with a secret.
fn assert_posted(call: &Call) {
    assert_eq!(call.method, "POST");
    assert_eq!(call.headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(call.headers["content-type"], "application/json");
    assert_eq!(call.headers["x-project"], "search");
}

fn dressed(kind: ProviderKind, address: &str) -> (Provider, tempfile::NamedTempFile) {
    let mut provider = provider(kind, address);
    provider.headers.insert("x-project".into(), "search".into());
    with_secret(provider)
}

#[tokio::test]
async fn openai_is_sent_texts_or_tokens_and_answers_floats_or_base64() {
    let stub = Stub::start(|call| {
        let mut answer = listed(call);
        if call.body["model"] == "theirs" && call.body["dimensions"].is_null() {
            // As OpenAI does it when it is asked for base64.
            for item in answer["data"].as_array_mut().unwrap() {
                let values: Vec<f32> = serde_json::from_value(item["embedding"].clone()).unwrap();
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                item["embedding"] = BASE64_STANDARD.encode(bytes).into();
            }
        }
        Reply::ok(answer)
    })
    .await;
    let (provider, _secret) = dressed(ProviderKind::Openai, &stub.address);
    let backend = connect(&provider);
    let answer = backend.encode(of(&["one", "two"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one", "two"]));
    let space = answer.vector_space.unwrap();
    assert_eq!(
        (space.model_id.as_str(), space.pooling.as_str()),
        ("openai/theirs", "provider")
    );
    assert!(space.normalised && space.weights_digest.is_empty() && space.prompt.is_empty());
    let usage = answer.usage.unwrap();
    assert_eq!((usage.texts, usage.tokens, usage.tokens_estimated), (2, 14, false));
    assert_eq!(answer.token_counts.len(), 2);

    backend.encode(literal("query: ", &["one"]), None).await.unwrap();
    let shorter = EncodeRequest {
        dimensions: Some(4),
        ..long(Truncation::Error, of(&["one"]))
    };
    let answer = backend.encode(shorter, None).await.unwrap();
    assert_eq!(answer.truncated, [false]);
    let calls = stub.calls();
    assert_posted(&calls[0]);
    assert_eq!(calls[0].path, "/v1/embeddings");
    assert_eq!(
        calls[0].body,
        json!({"model": "theirs", "input": ["one", "two"], "encoding_format": "base64"})
    );
    assert_eq!(calls[1].body["input"], json!(["query: one"]));
    assert_eq!(
        calls[2].body,
        json!({"model": "theirs", "input": ["one"], "encoding_format": "base64", "dimensions": 4})
    );
}

#[tokio::test]
async fn openai_is_sent_token_ids_as_they_are() {
    let stub = Stub::start(|call| {
        let count = call.body["input"].as_array().unwrap().len();
        let data: Vec<Value> = (0..count)
            .map(|index| json!({"index": index, "embedding": [1.0, 0.0]}))
            .collect();
        Reply::ok(json!({"data": data}))
    })
    .await;
    let backend = connect(&provider(ProviderKind::Openai, &format!("{}/v1/", stub.address)));
    let ids = |ids: &[u32]| Input {
        input: Some(input::Input::TokenIds(TokenIds { ids: ids.to_vec() })),
    };
    let request = EncodeRequest {
        inputs: vec![ids(&[1, 2, 3]), ids(&[4])],
        ..literal("not put in front of ids", &[])
    };
    let answer = backend.encode(request, None).await.unwrap();
    let call = &stub.calls()[0];
    // A path that the address has already is not there twice.
    assert_eq!(call.path, "/v1/embeddings");
    assert!(!call.headers.contains_key("authorization"));
    assert_eq!(call.body["input"], json!([[1, 2, 3], [4]]));
    let usage = answer.usage.unwrap();
    assert_eq!((usage.tokens, usage.tokens_estimated), (4, true));
}

#[tokio::test]
async fn cohere_is_sent_a_kind_of_input_and_a_side_to_cut() {
    let stub = Stub::start(|call| match call.path.as_str() {
        "/v2/embed" => {
            let float: Vec<Vec<f32>> = texts(&call.body["texts"]).iter().map(|text| vector(text)).collect();
            Reply::ok(json!({
                "id": "1", "embeddings": {"float": float}, "texts": call.body["texts"],
                "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 9.0}},
            }))
        }
        "/v2/rerank" => Reply::ok(json!({
            "id": "1",
            "results": [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}],
            "meta": {"billed_units": {"search_units": 1}},
        })),
        _ => Reply::of(404, json!({"message": "not found"})),
    })
    .await;
    let (provider, _secret) = dressed(ProviderKind::CohereV2, &stub.address);
    let backend = connect(&with_types(
        provider,
        &[("", "search_document"), ("query", "search_query")],
    ));
    let answer = backend.encode(of(&["one", "two"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one", "two"]));
    assert_eq!(answer.usage.unwrap().tokens, 9);
    let document = answer.vector_space.unwrap();
    assert_eq!(document.prompt, "input_type:search_document");
    let head = EncodeRequest {
        dimensions: Some(4),
        ..long(Truncation::Head, named("query", &["one"]))
    };
    let query = backend.encode(head, None).await.unwrap().vector_space.unwrap();
    assert_eq!(query.prompt, "input_type:search_query");
    assert_ne!(document.digest, query.digest);
    backend
        .encode(long(Truncation::Error, literal("say: ", &["one"])), None)
        .await
        .unwrap();
    let calls = stub.calls();
    assert_posted(&calls[0]);
    assert_eq!(
        calls[0].body,
        json!({
            "model": "theirs", "texts": ["one", "two"], "input_type": "search_document",
            "embedding_types": ["float"], "truncate": "END",
        })
    );
    assert_eq!(
        calls[1].body,
        json!({
            "model": "theirs", "texts": ["one"], "input_type": "search_query",
            "embedding_types": ["float"], "truncate": "START", "output_dimension": 4,
        })
    );
    assert_eq!(
        (&calls[2].body["truncate"], &calls[2].body["texts"]),
        (&json!("NONE"), &json!(["say: one"]))
    );

    let ranked = backend.rerank(rank(Some(2)), None).await.unwrap();
    let found: Vec<(u32, f32)> = ranked
        .results
        .iter()
        .map(|result| (result.index, result.score))
        .collect();
    assert_eq!(found, [(2, 0.9), (0, 0.1)]);
    assert!(ranked.usage.unwrap().tokens_estimated);
    assert_eq!(
        stub.calls_of("/v2/rerank")[0].body,
        json!({"model": "theirs", "query": "which", "documents": ["first", "second", "third"], "top_n": 2})
    );
    backend.healthy().await.unwrap();
}

#[tokio::test]
async fn voyage_is_sent_what_its_reference_names() {
    let stub = Stub::start(|call| match call.path.as_str() {
        "/v1/embeddings" => Reply::ok(listed(call)),
        _ => Reply::ok(json!({
            "object": "list", "model": "theirs", "usage": {"total_tokens": 26},
            "data": [{"index": 1, "relevance_score": 0.8}, {"index": 0, "relevance_score": 0.4}, {"index": 2, "relevance_score": 0.5}],
        })),
    })
    .await;
    let (provider, _secret) = dressed(ProviderKind::Voyage, &stub.address);
    let backend = connect(&with_types(provider, &[("query", "query"), ("document", "document")]));
    let plain = backend.encode(of(&["one"]), None).await.unwrap();
    assert_eq!(plain.vector_space.unwrap().prompt, "");
    let asked = EncodeRequest {
        dimensions: Some(4),
        ..long(Truncation::Error, named("query", &["one", "two"]))
    };
    let answer = backend.encode(asked, None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one", "two"]));
    let calls = stub.calls();
    assert_posted(&calls[0]);
    assert_eq!(
        calls[0].body,
        json!({
            "model": "theirs", "input": ["one"], "truncation": true, "output_dtype": "float", "encoding_format": "base64",
        })
    );
    assert_eq!(
        calls[1].body,
        json!({
            "model": "theirs", "input": ["one", "two"], "input_type": "query", "truncation": false,
            "output_dimension": 4, "output_dtype": "float", "encoding_format": "base64",
        })
    );
    let ranked = backend.rerank(rank(None), None).await.unwrap();
    let order: Vec<u32> = ranked.results.iter().map(|result| result.index).collect();
    assert_eq!(order, [1, 2, 0]);
    assert_eq!(ranked.usage.unwrap().tokens, 26);
    assert_eq!(
        stub.calls_of("/v1/rerank")[0].body,
        json!({"model": "theirs", "query": "which", "documents": ["first", "second", "third"], "truncation": true})
    );
}

#[tokio::test]
async fn jina_is_sent_a_task_and_whether_to_scale() {
    let stub = Stub::start(|call| match call.path.as_str() {
        "/v1/embeddings" => Reply::ok(listed(call)),
        _ => Reply::ok(json!({
            "model": "theirs", "usage": {"total_tokens": 15},
            "results": [{"index": 0, "relevance_score": 0.8}],
        })),
    })
    .await;
    let (provider, _secret) = dressed(ProviderKind::Jina, &stub.address);
    let backend = connect(&with_types(provider, &[("query", "retrieval.query")]));
    let answer = backend.encode(named("query", &["one", "two"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one", "two"]));
    assert!(answer.vector_space.unwrap().normalised);
    let raw = EncodeRequest {
        normalise: Some(false),
        dimensions: Some(4),
        ..long(Truncation::Error, of(&["one"]))
    };
    assert!(
        !backend
            .encode(raw, None)
            .await
            .unwrap()
            .vector_space
            .unwrap()
            .normalised
    );
    let calls = stub.calls();
    assert_posted(&calls[0]);
    assert_eq!(
        calls[0].body,
        json!({
            "model": "theirs", "input": ["one", "two"], "task": "retrieval.query", "truncate": true, "normalized": true,
            "embedding_type": "base64",
        })
    );
    assert_eq!(
        calls[1].body,
        json!({
            "model": "theirs", "input": ["one"], "truncate": false, "dimensions": 4, "normalized": false,
            "embedding_type": "base64",
        })
    );
    let ranked = backend.rerank(rank(Some(1)), None).await.unwrap();
    assert_eq!(ranked.results.len(), 1);
    assert_eq!(
        stub.calls_of("/v1/rerank")[0].body,
        json!({
            "model": "theirs", "query": "which", "documents": ["first", "second", "third"], "top_n": 1,
            "return_documents": false,
        })
    );
}

#[tokio::test]
async fn ollama_tells_its_model_and_is_sent_truncate() {
    let stub = Stub::start(|call| match (call.method.as_str(), call.path.as_str()) {
        ("POST", "/api/show") => Reply::ok(json!({
            "details": {"family": "bert", "quantization_level": "F16"},
            "model_info": {"general.architecture": "bert", "bert.context_length": 512, "bert.embedding_length": 4},
            "capabilities": ["embedding"],
        })),
        ("GET", "/api/tags") => Reply::ok(json!({"models": [
            {"name": "other:latest", "digest": "0"}, {"name": "theirs:latest", "digest": "1b226e2802db"},
        ]})),
        ("POST", "/api/embed") => {
            let embeddings: Vec<Vec<f32>> = texts(&call.body["input"]).iter().map(|text| vector(text)).collect();
            Reply::ok(json!({"model": "theirs", "embeddings": embeddings, "total_duration": 1, "load_duration": 1, "prompt_eval_count": 8}))
        }
        ("GET", "/api/version") => Reply::ok(json!({"version": "0.13.0"})),
        _ => Reply::of(404, json!({"error": "no"})),
    })
    .await;
    let backend = connect(&provider(ProviderKind::Ollama, &stub.address));
    let answer = backend.encode(of(&["one", "two"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one", "two"]));
    assert_eq!(answer.usage.unwrap().tokens, 8);
    let space = answer.vector_space.unwrap();
    assert_eq!(
        (space.model_id.as_str(), space.pooling.as_str()),
        ("ollama/theirs@1b226e2802db", "f16>provider")
    );
    let asked = EncodeRequest {
        dimensions: Some(4),
        ..long(Truncation::Error, of(&["one"]))
    };
    backend.encode(asked, None).await.unwrap();
    let calls = stub.calls_of("/api/embed");
    assert_eq!(
        calls[0].body,
        json!({"model": "theirs", "input": ["one", "two"], "truncate": true})
    );
    assert_eq!(
        calls[1].body,
        json!({"model": "theirs", "input": ["one"], "truncate": false, "dimensions": 4})
    );
    let encoder = backend.get("ours").await.unwrap();
    assert_eq!(
        (encoder.dimensions, encoder.max_tokens, encoder.architecture.as_str()),
        (4, 512, "bert")
    );
    assert_eq!(encoder.vector_space.unwrap().digest, space.digest);
    backend.healthy().await.unwrap();
    assert_eq!(stub.calls_of("/api/show").len(), 1, "facts are kept");
}

fn tei(call: &Call, kind: &str, batch: u32) -> Reply {
    match call.path.as_str() {
        "/info" => Reply::ok(json!({
            "model_id": "theirs", "model_sha": "abc123", "model_dtype": "float16", "served_model_name": "alias",
            "model_type": {kind: {"pooling": "cls"}}, "max_concurrent_requests": 512, "max_input_length": 256,
            "max_batch_tokens": 16384, "max_client_batch_size": batch, "auto_truncate": false, "tokenization_workers": 4,
            "version": "1.9.0",
        })),
        "/embed" => {
            let texts = texts(&call.body["inputs"]);
            let vectors: Vec<Vec<f32>> = texts.iter().map(|text| vector(text)).collect();
            Reply::ok(json!(vectors)).header("x-compute-tokens", (5 * texts.len()).to_string())
        }
        "/tokenize" => {
            let token = json!({"id": 1, "text": "a", "special": false, "start": 0, "stop": 1});
            let lists: Vec<Vec<Value>> = texts(&call.body["inputs"])
                .iter()
                .map(|text| vec![token.clone(); text.len() + 2])
                .collect();
            Reply::ok(json!(lists))
        }
        "/rerank" => {
            let texts = texts(&call.body["texts"]);
            // Longer texts are more relevant.
            let mut ranks: Vec<(usize, usize)> = texts.iter().map(String::len).enumerate().collect();
            ranks.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
            let ranks: Vec<Value> = ranks
                .iter()
                .map(|(index, length)| json!({"index": index, "score": *length as f64 / 10.0}))
                .collect();
            Reply::ok(json!(ranks))
        }
        _ => Reply::of(404, json!({"error": "no", "error_type": "empty"})),
    }
}

#[tokio::test]
async fn tei_is_sent_its_fields_and_tells_its_limits() {
    let stub = Stub::start(|call| tei(call, "embedding", 2)).await;
    let (provider, _secret) = dressed(ProviderKind::TeiHttp, &stub.address);
    let backend = connect(&with_types(provider, &[("query", "query")]));
    let answer = backend.encode(of(&["one", "two", "three"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one", "two", "three"]));
    let usage = answer.usage.unwrap();
    assert_eq!((usage.tokens, usage.tokens_estimated), (15, false));
    let space = answer.vector_space.unwrap();
    assert_eq!(
        (space.model_id.as_str(), space.pooling.as_str()),
        ("tei/theirs@abc123", "float16>provider")
    );
    let calls = stub.calls_of("/embed");
    assert_eq!(calls.len(), 2, "two texts at once are what the server takes");
    assert_posted(&calls[0]);
    let plain = json!({"inputs": ["one", "two"], "normalize": true, "truncate": true, "truncation_direction": "Right"});
    assert!(calls.iter().any(|call| call.body == plain), "{calls:?}");
    let asked = EncodeRequest {
        normalise: Some(false),
        dimensions: Some(4),
        ..long(Truncation::Head, named("query", &["four"]))
    };
    backend.encode(asked, None).await.unwrap();
    assert_eq!(
        stub.calls_of("/embed")[2].body,
        json!({
            "inputs": ["four"], "normalize": false, "truncate": true, "truncation_direction": "Left",
            "prompt_name": "query", "dimensions": 4,
        })
    );
    let counted = CountTokensRequest {
        encoder_id: "ours".into(),
        texts: vec!["a".into(), "abc".into()],
        ..CountTokensRequest::default()
    };
    let counts = backend.count_tokens(counted, None).await.unwrap();
    assert_eq!(
        (counts.token_counts.as_slice(), counts.max_tokens),
        ([3, 5].as_slice(), 256)
    );
    assert_eq!(
        stub.calls_of("/tokenize")[0].body,
        json!({"inputs": ["a", "abc"], "add_special_tokens": true})
    );
    backend.healthy().await.unwrap();
}

#[tokio::test]
async fn tei_ranks_in_pieces_and_the_best_of_all_come_first() {
    let stub = Stub::start(|call| tei(call, "reranker", 2)).await;
    let backend = connect(&provider(ProviderKind::TeiHttp, &stub.address));
    let request = RerankRequest {
        documents: ["aa", "a", "aaaa", "aaa", "aaaaa"].map(str::to_owned).to_vec(),
        ..rank(Some(3))
    };
    let ranked = backend.rerank(request, None).await.unwrap();
    let order: Vec<u32> = ranked.results.iter().map(|result| result.index).collect();
    assert_eq!(order, [4, 2, 3]);
    let calls = stub.calls_of("/rerank");
    assert_eq!(calls.len(), 3);
    let first =
        json!({"query": "which", "texts": ["aa", "a"], "truncate": true, "raw_scores": false, "return_text": false});
    assert!(calls.iter().any(|call| call.body == first));
    let encoder = backend.get("ours").await.unwrap();
    assert_eq!(encoder.capabilities, [i32::from(Capability::Rerank)]);
    assert!(encoder.vector_space.is_none());
}

#[tokio::test]
async fn a_tei_server_with_another_model_than_said_is_refused() {
    let stub = Stub::start(|call| tei(call, "embedding", 32)).await;
    let mut other = provider(ProviderKind::TeiHttp, &stub.address);
    other.encoders.insert("ours".into(), "another".into());
    let fault = connect(&other).encode(of(&["one"]), None).await.unwrap_err();
    assert_eq!(fault.reason, "PROVIDER_OTHER_MODEL");
    assert!(
        fault.message.contains("`theirs`") && fault.message.contains("`another`"),
        "{fault}"
    );
    other.encoders.insert("ours".into(), "alias".into());
    connect(&other).encode(of(&["one"]), None).await.unwrap();
}

#[tokio::test]
async fn hugging_face_is_called_at_the_routers_path_or_at_an_endpoint() {
    let stub = Stub::start(|call| {
        let vectors: Vec<Vec<f32>> = texts(&call.body["inputs"]).iter().map(|text| vector(text)).collect();
        match call.path.contains("raw") {
            true => Reply::ok(json!([vectors])),
            false => Reply::ok(json!(vectors)),
        }
    })
    .await;
    let (mut router, _secret) = dressed(ProviderKind::HuggingFace, &stub.address);
    router.encoders.insert("ours".into(), "BAAI/bge-small-en".into());
    router.encoders.insert("raw".into(), "some/raw".into());
    let router = with_types(router, &[("query", "query")]);
    let answer = connect(&router)
        .encode(named("query", &["one", "two"]), None)
        .await
        .unwrap();
    assert_eq!(rows(&answer), vectors(&["one", "two"]));
    assert!(answer.usage.unwrap().tokens_estimated);
    let call = &stub.calls()[0];
    assert_posted(call);
    assert_eq!(
        call.path,
        "/hf-inference/models/BAAI/bge-small-en/pipeline/feature-extraction"
    );
    assert_eq!(
        call.body,
        json!({
            "inputs": ["one", "two"], "normalize": true, "truncate": true, "truncation_direction": "Right",
            "prompt_name": "query",
        })
    );
    let tokens = EncodeRequest {
        encoder_id: "raw".into(),
        ..of(&["one"])
    };
    let fault = connect(&router).encode(tokens, None).await.unwrap_err();
    assert_eq!(fault.reason, "NO_POOLING");

    let endpoint = provider(ProviderKind::HuggingFace, &format!("{}/endpoints/mine", stub.address));
    connect(&endpoint).encode(of(&["one"]), None).await.unwrap();
    assert_eq!(stub.calls().last().unwrap().path, "/endpoints/mine");
    let mut two = endpoint.clone();
    two.encoders.insert("second".into(), "second".into());
    let fault = crate::support::try_connect(&two).unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("provider.encoders"));
}

#[tokio::test]
async fn a_provider_of_another_kind_passes_the_check() {
    let stub = Stub::start(|call| match call.path.as_str() {
        "/v1/embeddings" => Reply::ok(listed(call)),
        _ => Reply::ok(json!({"data": []})),
    })
    .await;
    let backend = connect(&provider(ProviderKind::Openai, &stub.address));
    let report = check(backend.as_ref(), "ours", &CheckOptions::default()).await;
    let find = |name: &str| report.findings.iter().find(|finding| finding.name == name).unwrap();
    for name in [
        "dimension",
        "norm",
        "vector_space",
        "determinism",
        "batch_equals_single",
        "order_preserved",
        "errors_honest",
    ] {
        assert!(find(name).passed, "{:?}", find(name));
    }
}
