//! Commercial providers: the request that each is sent, in every field, and how its answer is read.

use base64::{Engine, prelude::BASE64_STANDARD};
use isomer_proto::{
    encoder::v1::{EncodeRequest, Input, TokenIds, Truncation, input},
    gateway::v1::ProviderKind,
};
use serde_json::{Value, json};

use crate::support::{
    Reply, Stub, assert_posted, connect, dressed, listed, literal, long, named, of, provider, rank, rows, texts,
    vector, vectors, with_types,
};

#[tokio::test]
async fn openai_is_sent_texts_or_tokens_and_answers_floats_or_base64() {
    let stub = Stub::start(|call| {
        let mut answer = listed(call);
        if call.body["model"] == "theirs" && call.body["dimensions"].is_null() {
            // As OpenAI answers when base64 is requested.
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
        ..literal("not prepended to ids", &[])
    };
    let answer = backend.encode(request, None).await.unwrap();
    let call = &stub.calls()[0];
    // A path that is part of the address is not added a second time.
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
