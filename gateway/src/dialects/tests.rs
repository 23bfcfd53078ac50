//! Tests the routes over the stub encoder of OpenAI's tests: a text's vector is (its length, 1), a
//! document's relevance is its length.
#![allow(clippy::unwrap_used)]

use http::StatusCode;
use serde_json::{Value, json};

use super::routes;
use crate::{
    openai::tests::{Response, backends, backends_over, backends_with, get, partly_installed, post, stub},
    routing::RoutingConfig,
};

async fn front() -> axum::Router {
    routes(&backends().await)
}

fn refused(answered: &Response, status: StatusCode, key: &str, why: &str) {
    assert_eq!(answered.status, status, "{}", answered.json);
    let message = answered.json[key].as_str().unwrap_or_default();
    assert!(message.contains(why), "{message}");
}

#[tokio::test]
async fn cohere_embeds_in_both_versions() {
    let front = front().await;
    let old = json!({ "model": "one", "texts": ["four", ""], "truncate": null });
    let answered = post(&front, "/v1/embed", old).await;
    assert_eq!(answered.status, StatusCode::OK, "{}", answered.json);
    assert_eq!(answered.json["embeddings"], json!([[4.0, 1.0], [0.0, 1.0]]));
    assert_eq!(answered.json["response_type"], "embeddings_floats");
    let new = json!({
        "model": "one", "texts": ["four"], "input_type": "search_document", "embedding_types": ["float", "base64", "ubinary", "binary"],
        "priority": 1,
    });
    let answered = post(&front, "/v2/embed", new).await;
    assert_eq!(answered.status, StatusCode::OK, "{}", answered.json);
    let by_type = &answered.json["embeddings"];
    assert_eq!(by_type["float"], json!([[4.0, 1.0]]));
    // Both values are above 0: the two highest bits of a byte are set. The signed form is that byte
    // minus 128.
    assert_eq!(
        (&by_type["ubinary"], &by_type["binary"]),
        (&json!([[192]]), &json!([[64]]))
    );
    assert_eq!(by_type["base64"][0], "AACAQAAAgD8=");
    assert_eq!(answered.json["meta"]["billed_units"]["input_tokens"], 7);
}

#[tokio::test]
async fn cohere_is_told_what_is_not_offered() {
    let front = front().await;
    let asked = |more: Value| {
        let mut body = json!({ "model": "one", "texts": ["four"], "input_type": "search_query" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (more, why) in [
        (json!({ "embedding_types": ["int8"] }), "calibration"),
        (json!({ "images": ["data:…"] }), "images: encoders here read texts"),
        (json!({ "input_type": null }), "input_type is missing"),
        (json!({ "texts": [] }), "texts is empty"),
        (json!({ "textss": [] }), "textss"),
    ] {
        let answered = post(&front, "/v2/embed", asked(more)).await;
        refused(&answered, StatusCode::BAD_REQUEST, "message", why);
    }
    let unknown = json!({ "model": "two", "texts": ["four"], "input_type": "clustering" });
    refused(
        &post(&front, "/v2/embed", unknown).await,
        StatusCode::NOT_FOUND,
        "message",
        "model: no encoder `two`",
    );
}

#[tokio::test]
async fn cohere_reranks_in_version_two() {
    let front = front().await;
    let mut body = json!({ "model": "one", "query": "q", "documents": ["bb", "dddd", "a"], "top_n": 2, "max_tokens_per_doc": null });
    let expected = json!([{ "index": 1, "relevance_score": 4.0 }, { "index": 0, "relevance_score": 2.0 }]);
    // The stub's texts have at most 128 tokens, so a limit of 128 changes nothing.
    for (limit, rank_fields) in [
        (json!(null), json!(null)),
        (json!(128), json!(["text"])),
        (json!(4096), json!([])),
    ] {
        body["max_tokens_per_doc"] = limit;
        body["rank_fields"] = rank_fields;
        let answered = post(&front, "/v2/rerank", body.clone()).await;
        assert_eq!(answered.json["results"], expected, "{}", answered.json);
    }
    body["return_documents"] = json!(true);
    let with_documents = post(&front, "/v2/rerank", body.clone()).await;
    assert_eq!(with_documents.json["results"][0]["document"], json!({ "text": "dddd" }));
    let mut cut = body;
    cut["max_tokens_per_doc"] = json!(10);
    refused(
        &post(&front, "/v2/rerank", cut).await,
        StatusCode::BAD_REQUEST,
        "message",
        "max_tokens_per_doc",
    );
}

#[tokio::test]
async fn ollama_embeds_one_text_or_several() {
    let front = front().await;
    for (input, expected) in [
        (json!("four"), json!([[4.0, 1.0]])),
        (json!(["four", "a"]), json!([[4.0, 1.0], [1.0, 1.0]])),
    ] {
        let body = json!({ "model": "one:latest", "input": input, "keep_alive": "5m", "options": { "num_gpu": 0, "num_ctx": null } });
        let answered = post(&front, "/api/embed", body).await;
        assert_eq!(answered.status, StatusCode::OK, "{}", answered.json);
        assert_eq!(
            (&answered.json["embeddings"], &answered.json["prompt_eval_count"]),
            (&expected, &json!(7))
        );
        assert_eq!(answered.json["model"], "one:latest");
    }
    let old = post(&front, "/api/embeddings", json!({ "model": "one", "prompt": "four" })).await;
    assert_eq!(old.json, json!({ "embedding": [4.0, 1.0] }));
    let nothing = post(&front, "/api/embed", json!({ "model": "one", "input": [] })).await;
    assert_eq!(nothing.json["embeddings"], json!([]));
}

/// Options of Ollama's clients: `@llamaindex/ollama` sends `num_ctx` with each request.
#[tokio::test]
async fn ollamas_options_are_ignored_unless_they_cut_texts() {
    let front = front().await;
    for options in [
        json!({ "num_ctx": 4096 }),
        json!({ "num_ctx": 128, "use_mmap": true, "use_mlock": false, "typical_p": 0.5, "vocab_only": false }),
        json!({ "num_gpu": 1, "stop": ["x"], "of_a_later_version": {} }),
    ] {
        let body = json!({ "model": "one:latest", "input": "four", "options": options, "of_a_later_version": 1 });
        let answered = post(&front, "/api/embed", body).await;
        assert_eq!(answered.json["embeddings"], json!([[4.0, 1.0]]), "{}", answered.json);
    }
    for (options, field) in [
        (json!({ "num_ctx": 127 }), "options.num_ctx is 127"),
        (json!({ "num_ctx": "4096" }), "options.num_ctx should be a whole number"),
    ] {
        for (path, texts) in [("/api/embed", "input"), ("/api/embeddings", "prompt")] {
            let body = json!({ "model": "one", texts: "four", "options": options });
            let answered = post(&front, path, body).await;
            refused(&answered, StatusCode::BAD_REQUEST, "error", field);
        }
    }
}

#[tokio::test]
async fn ollama_lists_and_shows_encoders() {
    let front = front().await;
    let names: Vec<Value> = get(&front, "/api/tags").await.json["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["name"].clone())
        .collect();
    assert_eq!(names, ["one", "org/two"]);
    let partly = routes(&backends_over(partly_installed()).await);
    let models = get(&partly, "/api/tags").await.json["models"].clone();
    assert_eq!(
        (models.as_array().unwrap().len(), &models[0]["name"]),
        (1, &json!("here"))
    );
    let shown = post(&front, "/api/show", json!({ "model": "org/two" })).await;
    assert_eq!(
        shown.json["model_info"]["encoder.embedding_length"], 2,
        "{}",
        shown.json
    );
    assert_eq!(shown.json["capabilities"], json!(["embedding"]));
    refused(
        &post(&front, "/api/show", json!({})).await,
        StatusCode::BAD_REQUEST,
        "error",
        "model is missing",
    );
    assert!(get(&front, "/api/version").await.json["version"].is_string());
}

#[tokio::test]
async fn tei_embeds_with_the_encoder_that_the_address_names() {
    let front = front().await;
    for path in ["/tei/one/embed", "/embed?model=one", "/tei/one", "/?model=one"] {
        let answered = post(
            &front,
            path,
            json!({ "inputs": ["four", ""], "truncate": true, "normalize": false }),
        )
        .await;
        assert_eq!(answered.json, json!([[4.0, 1.0], [0.0, 1.0]]), "{path}");
    }
    let unnamed = post(&front, "/embed", json!({ "inputs": "four" })).await;
    refused(&unnamed, StatusCode::BAD_REQUEST, "error", "this server has 2 encoders");
    assert_eq!(unnamed.json["error_type"], "Validation");
    // As in text-embeddings-inference, a text that is too long is refused unless `truncate` is set.
    let long = "a text of more than twenty letters";
    let whole = post(&front, "/tei/one/embed", json!({ "inputs": long })).await;
    refused(&whole, StatusCode::BAD_REQUEST, "error", "is too long");
    let cut = post(&front, "/tei/one/embed", json!({ "inputs": long, "truncate": true })).await;
    assert_eq!(cut.status, StatusCode::OK, "{}", cut.json);
    let sparse = post(
        &front,
        "/tei/one/embed_sparse",
        json!({ "inputs": ["four", "a"], "truncate": true }),
    )
    .await;
    let entry = |index: u32, value: f32| json!({ "index": index, "value": value });
    let expected = json!([[entry(4, 0.5), entry(30_000, 4.0)], [entry(1, 0.5), entry(30_000, 1.0)]]);
    assert_eq!(sparse.json, expected);
    for (field, value) in [("normalize", json!(true)), ("dimensions", json!(2))] {
        let body = json!({ "inputs": "four", field: value });
        let answered = post(&front, "/tei/one/embed_sparse", body).await;
        refused(&answered, StatusCode::BAD_REQUEST, "error", field);
    }
    let failed = post(&front, "/tei/one/embed_sparse", json!({ "inputs": "thirteen abcd" })).await;
    refused(&failed, StatusCode::BAD_REQUEST, "error", "thirteen");
}

#[tokio::test]
async fn tei_reranks_and_compares() {
    let front = front().await;
    let body = json!({ "query": "q", "texts": ["bb", "dddd"], "return_text": true, "raw_scores": false });
    let ranked = post(&front, "/tei/one/rerank", body).await;
    let expected = json!([{ "index": 1, "text": "dddd", "score": 4.0 }, { "index": 0, "text": "bb", "score": 2.0 }]);
    assert_eq!(ranked.json, expected);
    let raw = post(
        &front,
        "/tei/one/rerank",
        json!({ "query": "q", "texts": ["b"], "raw_scores": true }),
    )
    .await;
    assert_eq!(raw.json, json!([{ "index": 0, "score": 101.0 }]));
    for path in ["/tei/one/similarity", "/tei/one"] {
        let body = json!({ "inputs": { "source_sentence": "four", "sentences": ["four", "a"] } });
        let cosines = post(&front, path, body).await;
        // The stub does not normalise: the scores are 4·4 + 1 and 4·1 + 1.
        assert_eq!(cosines.json, json!([17.0, 5.0]), "{path}");
    }
    let single = post(&front, "/tei/one/predict", json!({ "inputs": "a text" })).await;
    refused(&single, StatusCode::BAD_REQUEST, "error", "a pair of texts");
    let pair = post(&front, "/tei/one/predict", json!({ "inputs": ["a", "bb"] })).await;
    assert_eq!(pair.json, json!([{ "score": 2.0, "label": "LABEL_0" }]));
    let raw = post(
        &front,
        "/tei/one/predict",
        json!({ "inputs": ["a", "bb"], "raw_scores": true }),
    )
    .await;
    assert_eq!(raw.json, json!([{ "score": 102.0, "label": "LABEL_0" }]));
    let pairs = post(
        &front,
        "/tei/one/predict",
        json!({ "inputs": [["a", "bb"], ["a", "ccc"]] }),
    )
    .await;
    assert_eq!(pairs.json[1], json!([{ "score": 3.0, "label": "LABEL_0" }]));
}

#[tokio::test]
async fn tei_says_what_the_encoder_is() {
    let front = front().await;
    let info = get(&front, "/tei/one/info").await;
    assert_eq!(
        (&info.json["model_id"], &info.json["max_input_length"]),
        (&json!("one"), &json!(128))
    );
    assert!(info.json["model_type"]["embedding"].is_object());
    assert_eq!(get(&front, "/health").await.status, StatusCode::OK);
}

#[tokio::test]
async fn tei_tells_tokens_and_reads_them_back() {
    let front = front().await;
    let told = post(
        &front,
        "/tei/one/tokenize",
        json!({ "inputs": ["a bb", ""], "prompt_name": null }),
    )
    .await;
    let expected = json!([
        [
            { "id": 100, "text": "[CLS]", "special": true, "start": null, "stop": null },
            { "id": 1, "text": "a", "special": false, "start": 0, "stop": 1 },
            { "id": 2, "text": "bb", "special": false, "start": 2, "stop": 4 },
        ],
        [{ "id": 100, "text": "[CLS]", "special": true, "start": null, "stop": null }],
    ]);
    assert_eq!(told.json, expected);
    let bare = post(
        &front,
        "/tokenize?model=one",
        json!({ "inputs": "a", "add_special_tokens": false }),
    )
    .await;
    assert_eq!(
        bare.json,
        json!([[{ "id": 1, "text": "a", "special": false, "start": 0, "stop": 1 }]])
    );
    let read = post(&front, "/tei/one/decode", json!({ "ids": [[100, 7], [8]] })).await;
    assert_eq!(read.json, json!(["7", "8"]));
    let whole = post(
        &front,
        "/tei/one/decode",
        json!({ "ids": [100, 7], "skip_special_tokens": false }),
    )
    .await;
    assert_eq!(whole.json, json!(["100 7"]));
    for (path, body, why) in [
        ("/tei/one/tokenize", json!({ "inputs": [] }), "inputs should be a text"),
        ("/tei/one/tokenize", json!({ "inputs": [1] }), "inputs should be a text"),
        ("/tei/one/decode", json!({ "ids": [] }), "ids should be a list"),
        ("/tei/one/decode", json!({ "ids": "a" }), "ids should be a list"),
        ("/tei/one/decode", json!({ "ids": [[1], [13]] }), "ids[1] holds 13"),
    ] {
        refused(&post(&front, path, body).await, StatusCode::BAD_REQUEST, "error", why);
    }
}

/// text-embeddings-inference ignores fields that it does not know, and clients send some: LiteLLM
/// and `rerankers` send `model` and `top_n`.
#[tokio::test]
async fn tei_ignores_fields_that_it_does_not_know() {
    let front = front().await;
    for (path, body) in [
        ("/tei/one", json!({ "inputs": "four", "parameters": { "xyzzy": 1 } })),
        ("/tei/one/embed", json!({ "inputs": "four", "truncate": true })),
        ("/tei/one/embed_all", json!({ "inputs": "four" })),
        ("/tei/one/embed_sparse", json!({ "inputs": "four" })),
        ("/tei/one/rerank", json!({ "query": "q", "texts": ["a"] })),
        ("/tei/one/predict", json!({ "inputs": ["a", "bb"] })),
        (
            "/tei/one/similarity",
            json!({ "inputs": { "source_sentence": "a", "sentences": ["b"] } }),
        ),
        ("/tei/one/tokenize", json!({ "inputs": "a" })),
        ("/tei/one/decode", json!({ "ids": [7] })),
    ] {
        let plain = post(&front, path, body.clone()).await;
        assert_eq!(plain.status, StatusCode::OK, "{path}: {}", plain.json);
        let mut more = body;
        more["model"] = json!("rerankers");
        more["top_n"] = json!(1);
        more["xyzzy"] = json!({ "a": [1] });
        let answered = post(&front, path, more).await;
        assert_eq!((answered.status, &answered.json), (plain.status, &plain.json), "{path}");
    }
}

/// A client of text-embeddings-inference with nothing but a host: Haystack's ranker, `tei-client`.
#[tokio::test]
async fn requests_that_name_no_encoder_are_served_by_the_configured_ones() {
    let config = RoutingConfig {
        default_encoder: Some("one".to_owned()),
        default_reranker: Some("one".to_owned()),
        ..RoutingConfig::default()
    };
    let front = routes(&backends_with(stub(), config).await);
    let embedded = post(&front, "/embed", json!({ "inputs": "four" })).await;
    assert_eq!(embedded.json, json!([[4.0, 1.0]]));
    let ranked = post(&front, "/rerank", json!({ "query": "q", "texts": ["a", "bb"] })).await;
    assert_eq!(ranked.json[0], json!({ "index": 1, "score": 2.0 }));
    let ranked = post(&front, "/rerank", json!({ "query": "q", "documents": ["a", "bb"] })).await;
    assert_eq!(ranked.json["results"][0]["index"], 1, "{}", ranked.json);
    assert_eq!(get(&front, "/info").await.json["model_id"], "one");
    let other = post(&front, "/tei/org%2Ftwo/embed", json!({ "inputs": "four" })).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
}

/// vLLM and Infinity serve their reranking at `/rerank`, too.
#[tokio::test]
async fn the_path_of_a_ranking_tells_texts_from_documents() {
    let backends = backends().await;
    let front = routes(&backends).merge(crate::openai::routes(backends.clone()));
    let body = json!({ "model": "one", "query": "q", "documents": ["bb", { "text": "dddd" }, "a"], "top_n": 2, "return_documents": true });
    let due = post(&front, "/v1/rerank", body.clone()).await;
    assert_eq!(due.status, StatusCode::OK, "{}", due.json);
    for path in ["/rerank", "/tei/one/rerank", "/rerank?model=one"] {
        let mut body = body.clone();
        if path != "/rerank" {
            // The address names the encoder.
            body["model"] = json!("of a client");
        }
        let answered = post(&front, path, body).await;
        for key in ["results", "model", "usage", "object"] {
            assert_eq!(answered.json[key], due.json[key], "{path}: {}", answered.json);
        }
    }
    for (body, field) in [
        (
            json!({ "model": "one", "query": "q", "documents": ["a"], "texts": ["a"] }),
            "documents",
        ),
        (json!({ "model": "one", "query": "q" }), "texts"),
    ] {
        refused(
            &post(&front, "/rerank", body).await,
            StatusCode::BAD_REQUEST,
            "error",
            field,
        );
    }
}

/// Sentences to compare use the same path as texts. Fields that concern only vectors are refused
/// for them.
#[tokio::test]
async fn the_hubs_path_tells_texts_from_sentences_to_compare() {
    let front = front().await;
    let vectors = post(
        &front,
        "/tei/one",
        json!({ "inputs": "four", "parameters": { "normalize": false } }),
    )
    .await;
    assert_eq!(vectors.json, json!([[4.0, 1.0]]));
    let compared = json!({ "source_sentence": "four", "sentences": ["a"] });
    let body = json!({ "inputs": compared, "parameters": { "truncate": true } });
    assert_eq!(post(&front, "/tei/one", body).await.json, json!([5.0]));
    for (body, why) in [
        (json!({ "inputs": compared, "dimensions": 1 }), "dimensions"),
        (
            json!({ "inputs": compared, "parameters": { "normalize": true } }),
            "normalize",
        ),
        (json!({ "inputs": { "source_sentence": "four" } }), "sentences"),
        (json!({ "inputs": 5 }), "source_sentence"),
    ] {
        refused(
            &post(&front, "/tei/one", body).await,
            StatusCode::BAD_REQUEST,
            "error",
            why,
        );
    }
    let mixed = post(&front, "/tei/one/predict", json!({ "inputs": ["a", ["b", "c"]] })).await;
    refused(&mixed, StatusCode::BAD_REQUEST, "error", "this list holds both");
}
