//! The self-hosted kinds over HTTP, and Hugging Face's, which uses the protocol of one of them.

use isomer_adapters::check::{CheckOptions, check};
use isomer_proto::{
    encoder::v1::{
        Activation, Capability, CountTokensRequest, DetokenizeRequest, EncodeRequest, RerankRequest, TokenizeRequest,
        Truncation,
    },
    gateway::v1::ProviderKind,
};
use isomer_stubs::promise::promised;
use serde_json::{Value, json};

use crate::support::{
    Call, Reply, Stub, assert_posted, connect, dressed, listed, long, named, of, provider, rank, rows, texts, vector,
    vectors, with_types,
};

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
    assert_eq!(calls.len(), 2, "the server accepts two texts at once");
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
    // The protocol has this call, but this kind does not offer it yet.
    let told = backend.tokenize(TokenizeRequest::default(), None).await;
    let read = backend.detokenize(DetokenizeRequest::default(), None).await;
    promised(
        "EncoderService.Tokenize UNIMPLEMENTED NOT_SERVED_YET",
        &told.unwrap_err(),
    );
    promised(
        "EncoderService.Detokenize UNIMPLEMENTED NOT_SERVED_YET",
        &read.unwrap_err(),
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
    for (activation, raw_scores) in [(Activation::Sigmoid, false), (Activation::Identity, true)] {
        let request = RerankRequest {
            activation: activation.into(),
            ..rank(None)
        };
        backend.rerank(request, None).await.unwrap();
        assert_eq!(stub.calls_of("/rerank").last().unwrap().body["raw_scores"], raw_scores);
    }
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
