//! Tests the routes over a stub encoder: the vector of a text is (its length, 1), and that of token
//! ids is (their number, 2).
#![allow(clippy::unwrap_used)]

use axum::{Router, body::Body};
use http::{Request, StatusCode, header};
use isomer_adapters::IsomerBackend;
use isomer_encoder_client::answer::asks;
use isomer_proto::{
    common::v1::{ItemError, Usage, VectorSpace},
    encoder::v1::{
        Activation, DetokenizeRequest, DetokenizeResponse, EncodeRequest, EncodeResponse, Encoder, Output,
        RerankRequest, RerankResponse, SparseVector, TextTokens, Token, TokenIds, TokenizeRequest, TokenizeResponse,
        Truncation, input::Input, rerank_response,
    },
    gateway::v1::Provider,
};
use isomer_service_kit::Fault;
use isomer_stubs::encoder::{StubEncoder, answer, named};
use serde_json::{Value, json};
use std::{future::ready, sync::Arc, time::Duration};
use tokio::sync::watch;
use tonic::Status;
use tower::ServiceExt;

use super::{Backends, routes};
use crate::routing::{self, ConfiguredEncoders, RoutingConfig};

pub(crate) fn stub() -> StubEncoder {
    let encoder = |id| Encoder {
        dimensions: 2,
        max_tokens: 128,
        ..named(id)
    };
    StubEncoder::of(["one", "org/two"].map(encoder))
        .on_encode(|request| ready(encode(&request.into_inner())))
        .on_tokenize(|request| ready(Ok(tokenize(&request.into_inner()))))
        .on_detokenize(|request| ready(detokenize(&request.into_inner())))
        .on_rerank(|request| ready(Ok(rerank(request.into_inner()))))
}

fn encode(request: &EncodeRequest) -> Result<EncodeResponse, Status> {
    match request.encoder_id.as_str() {
        "one" => {}
        "busy" => return Err(Fault::overloaded("the queue is full", Duration::from_millis(1500)).into()),
        id => {
            let fault = Fault::not_found("UNKNOWN_ENCODER", format!("no encoder `{id}`"));
            return Err(fault.field("encoder_id").hint("did you mean `one`?").into());
        }
    }
    let inputs = request.inputs.iter().map(|input| input.input.as_ref().unwrap());
    let rows: Vec<[f32; 2]> = inputs
        .map(|input| match input {
            Input::Text(text) => [text.len() as f32, 1.0],
            Input::TokenIds(tokens) => [tokens.ids.len() as f32, 2.0],
        })
        .collect();
    let cached = rows.iter().filter(|row| row[0] == 8.0).count() as u64;
    if request.truncation() == Truncation::Error && rows.iter().any(|row| row[0] > 20.0) {
        return Err(Fault::invalid("inputs[0].text", "is too long").into());
    }
    let errors = rows.iter().position(|row| row[0] == 13.0).map(|index| ItemError {
        index: index as u32,
        code: tonic::Code::InvalidArgument as i32,
        message: "thirteen".to_owned(),
    });
    Ok(EncodeResponse {
        vector_space: asks(request, Output::TextVector).then(|| space("abc")),
        token_counts: rows.iter().map(|row| row[0] as u32).collect(),
        // The stub reports texts of eight letters as cached.
        usage: Some(Usage {
            tokens: if cached > 0 { 0 } else { 7 },
            cached_texts: cached,
            ..Usage::default()
        }),
        errors: errors.into_iter().collect(),
        sparse_embeddings: match asks(request, Output::Sparse) {
            true => rows.iter().map(|row| sparse(row[0])).collect(),
            false => Vec::new(),
        },
        sparse_vector_space: asks(request, Output::Sparse).then(|| space("sparse")),
        ..match request.outputs.is_empty() {
            true => answer(&rows, 0),
            false => several(request, &rows),
        }
    })
}

fn space(digest: &str) -> VectorSpace {
    VectorSpace {
        digest: digest.to_owned(),
        ..VectorSpace::default()
    }
}

/// The vectors of `outputs`; those of tokens are the text's vector once and twice.
fn several(request: &EncodeRequest, rows: &[[f32; 2]]) -> EncodeResponse {
    let tokens: Vec<[f32; 2]> = rows.iter().flat_map(|row| [*row, *row]).collect();
    let asks = |output| asks(request, output);
    EncodeResponse {
        embeddings: answer(rows, 0).embeddings.filter(|_| asks(Output::TextVector)),
        token_embeddings: answer(&tokens, 0).embeddings.filter(|_| asks(Output::TokenVectors)),
        token_vector_space: asks(Output::TokenVectors).then(|| space("tokens")),
        row_counts: match asks(Output::TokenVectors) {
            true => vec![2; rows.len()],
            false => Vec::new(),
        },
        ..answer(rows, 0)
    }
}

fn sparse(letters: f32) -> SparseVector {
    SparseVector {
        indices: vec![letters as u32, 30_000],
        values: vec![0.5, letters],
    }
}

/// One token per word; its id is the word's length.
fn tokenize(request: &TokenizeRequest) -> TokenizeResponse {
    let word = |text: &str, word: &str| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        Token {
            id: word.len() as u32,
            text: word.to_owned(),
            special: false,
            start: Some(start as u32),
            end: Some((start + word.len()) as u32),
        }
    };
    let mark = Token {
        id: 100,
        text: "[CLS]".to_owned(),
        special: true,
        ..Token::default()
    };
    let of = |text: &String| TextTokens {
        tokens: (request.special_tokens.unwrap_or(true).then(|| mark.clone()).into_iter())
            .chain(text.split_whitespace().map(|part| word(text, part)))
            .collect(),
    };
    TokenizeResponse {
        texts: request.texts.iter().map(of).collect(),
    }
}

fn detokenize(request: &DetokenizeRequest) -> Result<DetokenizeResponse, Status> {
    let text = |ids: &TokenIds| {
        let known = ids.ids.iter().filter(|id| request.special_tokens || **id != 100);
        known.map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    if let Some(index) = request.token_ids.iter().position(|ids| ids.ids.contains(&13)) {
        return Err(Fault::invalid(format!("token_ids[{index}]"), "holds 13").into());
    }
    Ok(DetokenizeResponse {
        texts: request.token_ids.iter().map(text).collect(),
    })
}

fn rerank(request: RerankRequest) -> RerankResponse {
    let is_raw = request.activation() == Activation::Identity;
    let mut results: Vec<rerank_response::Result> = (0..)
        .zip(&request.documents)
        .map(|(index, document)| rerank_response::Result {
            index,
            // A logit is a hundred more than the model's own score, and a sigmoid changes nothing.
            score: document.len() as f32 + if is_raw { 100.0 } else { 0.0 },
            ..rerank_response::Result::default()
        })
        .collect();
    results.sort_by(|a, b| b.score.total_cmp(&a.score));
    results.truncate(request.top_n.map_or(usize::MAX, |n| n as usize));
    RerankResponse {
        results,
        ..RerankResponse::default()
    }
}

async fn router(fixed: Vec<ConfiguredEncoders>, config: RoutingConfig) -> routing::Router {
    let (_providers, none) = watch::channel(Vec::new().into());
    let refuse = |_: &Provider| Err(Fault::internal("no providers here"));
    routing::Router::new(config, None, fixed, none, refuse).await
}

async fn front() -> Router {
    routes(backends().await)
}

pub(crate) async fn backends() -> Backends {
    backends_over(stub()).await
}

pub(crate) async fn backends_over(stub: StubEncoder) -> Backends {
    backends_with(stub, RoutingConfig::default()).await
}

pub(crate) async fn backends_with(stub: StubEncoder, config: RoutingConfig) -> Backends {
    let fixed = ConfiguredEncoders {
        name: "stub".to_owned(),
        backend: Arc::new(IsomerBackend::over(stub.channel().await, 1 << 20)),
        remote: false,
    };
    Backends {
        router: router(vec![fixed], config).await,
        augmentation: None,
        augmented: Arc::default(),
        variants: None,
        max_message_bytes: 1 << 20,
    }
}

pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) json: Value,
}

async fn send(front: &Router, request: Request<Body>) -> Response {
    let response = front.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Response {
        status: parts.status,
        headers: parts.headers,
        json: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    }
}

pub(crate) async fn post(front: &Router, path: &str, body: Value) -> Response {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json; charset=utf-8");
    send(front, request.body(Body::from(body.to_string())).unwrap()).await
}

pub(crate) async fn get(front: &Router, path: &str) -> Response {
    send(front, Request::get(path).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn inputs_come_in_four_forms_and_vectors_in_two() {
    let front = front().await;
    for (input, expected) in [
        (json!("four"), json!([[4.0, 1.0]])),
        (json!(["four", ""]), json!([[4.0, 1.0], [0.0, 1.0]])),
        (json!([101, 7, 102]), json!([[3.0, 2.0]])),
        (json!([[101, 102], [101, 7, 8, 102]]), json!([[2.0, 2.0], [4.0, 2.0]])),
    ] {
        let body = json!({ "model": "one", "input": input, "user": "somebody", "encoding_format": "float" });
        let answered = post(&front, "/v1/embeddings", body).await;
        assert_eq!(answered.status, StatusCode::OK, "{}", answered.json);
        assert_eq!(
            (&answered.json["object"], &answered.json["model"]),
            (&json!("list"), &json!("one"))
        );
        assert_eq!(answered.json["usage"], json!({ "prompt_tokens": 7, "total_tokens": 7 }));
        assert_eq!(answered.headers["isomer-vector-space"], "abc");
        let data = answered.json["data"].as_array().unwrap();
        for (index, one) in data.iter().enumerate() {
            assert_eq!((&one["object"], &one["index"]), (&json!("embedding"), &json!(index)));
        }
        let vectors: Vec<&Value> = data.iter().map(|one| &one["embedding"]).collect();
        assert_eq!(json!(vectors), expected);
    }
    let body = json!({ "model": "one", "input": "four", "encoding_format": "base64" });
    let answered = post(&front, "/v1/embeddings", body).await;
    // numpy.array([4, 1], "<f4").tobytes() in base64.
    assert_eq!(answered.json["data"][0]["embedding"], "AACAQAAAgD8=");
}

#[tokio::test]
async fn outputs_stand_beside_each_other_in_the_vectors_of_a_text() {
    let front = front().await;
    let ask = async |fields: Value| {
        let mut body = json!({ "model": "one", "input": ["four", ""] });
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        post(&front, "/v1/embeddings", body).await
    };
    let all = ask(json!({ "outputs": ["sparse", "text_vector", "token-vectors"] })).await;
    assert_eq!(all.status, StatusCode::OK, "{}", all.json);
    let dense = [json!([4.0, 1.0]), json!([0.0, 1.0])];
    let sparse = [
        json!({ "indices": [4, 30_000], "values": [0.5, 4.0] }),
        json!({ "indices": [0, 30_000], "values": [0.5, 0.0] }),
    ];
    let expected = (0..2).map(|text| {
        json!({
            "object": "embedding", "index": text, "embedding": dense[text], "sparse_embedding": sparse[text],
            "token_embeddings": [dense[text], dense[text]],
        })
    });
    assert_eq!(all.json["data"], expected.collect::<Value>());
    for (header, digest) in [
        ("isomer-vector-space", "abc"),
        ("isomer-sparse-vector-space", "sparse"),
        ("isomer-token-vector-space", "tokens"),
    ] {
        assert_eq!(all.headers[header], digest);
    }
    let alone = ask(json!({ "outputs": ["sparse"], "max_active_dimensions": 9 })).await;
    let expected = (0..2).map(|text| json!({ "object": "embedding", "index": text, "sparse_embedding": sparse[text] }));
    assert_eq!(alone.json["data"], expected.collect::<Value>());
    assert!(!alone.headers.contains_key("isomer-vector-space"));
    let bytes = ask(json!({ "outputs": ["token_vectors"], "encoding_format": "base64" })).await;
    // numpy.array([4, 1], "<f4").tobytes() in base64.
    assert_eq!(
        bytes.json["data"][0]["token_embeddings"],
        json!(["AACAQAAAgD8=", "AACAQAAAgD8="])
    );
    let plain = ask(json!({ "outputs": null })).await;
    assert_eq!(plain.json["data"][0]["embedding"], dense[0]);
    for (outputs, param) in [
        (json!(["sparse", "dense"]), "outputs[1]"),
        (json!(["sparse", "sparse"]), "outputs[1]"),
        (json!(["unspecified"]), "outputs[0]"),
        (json!([]), "outputs"),
    ] {
        let refused = ask(json!({ "outputs": outputs })).await;
        assert_eq!(
            (refused.status, &refused.json["error"]["param"]),
            (StatusCode::BAD_REQUEST, &json!(param)),
            "{}",
            refused.json
        );
    }
}

#[tokio::test]
async fn tokens_are_those_of_what_was_sent_though_no_model_ran() {
    let front = front().await;
    let body = json!({ "model": "one", "input": ["in cache", "it too!!"] });
    let answered = post(&front, "/v1/embeddings", body).await;
    assert_eq!(
        answered.json["usage"],
        json!({ "prompt_tokens": 16, "total_tokens": 16 })
    );
}

#[tokio::test]
async fn what_is_wrong_is_told_in_openais_shape() {
    let front = front().await;
    for (body, status, kind, param, code, word) in [
        (
            json!({"model": "none", "input": "a"}),
            404,
            "invalid_request_error",
            json!("model"),
            "model_not_found",
            "did you mean `one`?",
        ),
        (
            json!({"model": "one", "input": []}),
            400,
            "invalid_request_error",
            json!("input"),
            "invalid_argument",
            "give at least one text",
        ),
        (
            json!({"model": "one", "input": {"text": "a"}}),
            400,
            "invalid_request_error",
            json!("input"),
            "invalid_json",
            "a list of strings",
        ),
        (
            json!({"model": "one", "input": "a", "dimension": 3}),
            400,
            "invalid_request_error",
            json!("dimension"),
            "invalid_json",
            "`dimensions`",
        ),
        (
            json!({"model": "one", "input": "a", "encoding_format": "hex"}),
            400,
            "invalid_request_error",
            json!("encoding_format"),
            "invalid_json",
            "hex",
        ),
        (
            json!({"input": "a"}),
            400,
            "invalid_request_error",
            json!("model"),
            "invalid_argument",
            "model is missing",
        ),
        (
            json!({"model": "one", "input": ["a", "thirteen char"]}),
            400,
            "invalid_request_error",
            json!("input[1]"),
            "item_failed",
            "thirteen",
        ),
        (
            json!({"model": "one", "input": "longer than twenty characters", "truncation": "error"}),
            400,
            "invalid_request_error",
            json!("input[0]"),
            "invalid_argument",
            "too long",
        ),
        (
            json!({"model": "busy", "input": "a"}),
            429,
            "rate_limit_error",
            json!(null),
            "overloaded",
            "queue is full",
        ),
        (
            json!({"model": "one", "input": "a", "augment": {"transformations": ["keywords"]}}),
            400,
            "invalid_request_error",
            json!("augment"),
            "not_served_yet",
            "transform service",
        ),
    ] {
        let answered = post(&front, "/v1/embeddings", body.clone()).await;
        let error = &answered.json["error"];
        assert_eq!(answered.status.as_u16(), status, "{body}: {}", answered.json);
        assert_eq!(
            (&error["type"], &error["param"], &error["code"]),
            (&json!(kind), &param, &json!(code)),
            "{body}: {error}"
        );
        assert!(error["message"].as_str().unwrap().contains(word), "{body}: {error}");
        if status == 429 {
            assert_eq!(answered.headers[header::RETRY_AFTER], "2");
        }
    }
}

/// curl sends a form's media type by default, and LiteLLM sends none to Voyage. A page of another
/// origin can do so without a preflight, but a browser adds its origin.
#[tokio::test]
async fn a_body_without_a_media_type_is_read_if_it_is_an_object_and_no_page_sent_it() {
    let front = front().await;
    const BODY: &str = r#" {"model": "one", "input": "a"}"#;
    const FORM: &str = "application/x-www-form-urlencoded";
    let page = Some("http://localhost:3000");
    for (media_type, origin, body, status) in [
        (None, None, BODY, 200),
        (Some(FORM), None, BODY, 200),
        (Some("application/json"), page, BODY, 200),
        (None, page, BODY, 415),
        (Some(FORM), page, BODY, 415),
        (Some(FORM), None, "model=one&input=a", 415),
        (None, None, "", 415),
        (Some("text/plain"), None, BODY, 415),
        (Some("multipart/form-data"), None, BODY, 415),
    ] {
        let headers = [(header::CONTENT_TYPE, media_type), (header::ORIGIN, origin)];
        let headers = headers.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let request = headers.fold(Request::post("/v1/embeddings"), |request, (name, value)| {
            request.header(name, value)
        });
        let answered = send(&front, request.body(Body::from(body)).unwrap()).await;
        assert_eq!(answered.status.as_u16(), status, "{media_type:?} {origin:?} {body}");
    }
}

/// Names that serde knows, as a client reads them.
#[tokio::test]
async fn a_wrong_value_names_its_field_and_both_types_in_words() {
    let front = front().await;
    let whole = "should be a whole number from 0 to 4294967295, found ";
    for (path, field, value, param, words) in [
        (
            "/v1/embeddings",
            "dimensions",
            json!("64"),
            "dimensions",
            format!("{whole}a text"),
        ),
        (
            "/v1/embeddings",
            "dimensions",
            json!(64.5),
            "dimensions",
            format!("{whole}the number 64.5"),
        ),
        (
            "/v1/embeddings",
            "dimensions",
            json!(-1),
            "dimensions",
            format!("{whole}the number -1"),
        ),
        (
            "/v1/embeddings",
            "dimensions",
            json!(true),
            "dimensions",
            format!("{whole}true"),
        ),
        (
            "/v1/embeddings",
            "encoding_format",
            json!(5),
            "encoding_format",
            "a text".to_owned(),
        ),
        (
            "/v1/embeddings",
            "input_type",
            json!(5),
            "input_type",
            "should be a text".to_owned(),
        ),
        (
            "/v1/embeddings",
            "prompt_name",
            json!([1]),
            "prompt_name",
            "should be a text, found a list".to_owned(),
        ),
        (
            "/v1/embeddings",
            "normalized",
            json!("yes"),
            "normalized",
            "true or false, found a text".to_owned(),
        ),
        (
            "/v1/embeddings",
            "input",
            json!(["a", 5]),
            "input",
            "holds two kinds".to_owned(),
        ),
        (
            "/v1/embeddings",
            "input",
            json!([[1], [-1]]),
            "input[1][0]",
            whole.trim_end().to_owned(),
        ),
        (
            "/v1/embeddings",
            "outputs",
            json!(["a", {}]),
            "outputs[1]",
            "found an object".to_owned(),
        ),
        (
            "/v1/embeddings",
            "augment",
            json!({ "transformations": 5 }),
            "augment.transformations",
            "a list".to_owned(),
        ),
        (
            "/v1/embeddings",
            "augment",
            json!({}),
            "augment.transformations",
            "is missing".to_owned(),
        ),
        ("/v1/embeddings", "imput", json!("a"), "imput", "`input`".to_owned()),
        ("/v1/embeddings", "inputs", json!("a"), "inputs", "`input`".to_owned()),
        (
            "/v1/rerank",
            "documents",
            json!(["a", 5]),
            "documents[1]",
            "a text or an object with `text`".to_owned(),
        ),
        (
            "/v1/rerank",
            "documents",
            json!([{ "title": "a" }]),
            "documents[0].text",
            "is missing".to_owned(),
        ),
    ] {
        let mut body = match path {
            "/v1/rerank" => json!({ "model": "one", "query": "q", "documents": ["a"] }),
            _ => json!({ "model": "one", "input": "a" }),
        };
        body[field] = value;
        let answered = post(&front, path, body.clone()).await;
        let error = &answered.json["error"];
        assert_eq!(
            (answered.status.as_u16(), &error["param"], &error["code"]),
            (400, &json!(param), &json!("invalid_json")),
            "{body}: {error}"
        );
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&words), "{body}: {message}");
        assert!(!message.contains("u32") && !message.contains("line 1"), "{message}");
    }
    let missing = post(&front, "/v1/embeddings", json!({ "model": "one" })).await;
    assert_eq!(missing.json["error"]["param"], "input", "{}", missing.json);
    let cut = Request::post("/v1/embeddings").header(header::CONTENT_TYPE, "application/json");
    let cut = send(&front, cut.body(Body::from(r#"{"model": "one", "input": "#)).unwrap()).await;
    let error = &cut.json["error"];
    assert_eq!(
        (&error["param"], &error["code"]),
        (&json!(null), &json!("invalid_json"))
    );
}

/// Fields that today's clients send by default: of OpenAI, Mistral, LlamaIndex's Jina, NVIDIA,
/// Azure's inference, Infinity and vLLM.
#[tokio::test]
async fn fields_of_other_clients_are_read_or_change_nothing() {
    let front = front().await;
    let ask = async |fields: &Value| {
        let mut body = json!({ "model": "one", "input": "longer than twenty characters" });
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        post(&front, "/v1/embeddings", body).await
    };
    let plain = ask(&json!({})).await;
    for fields in [
        json!({ "encoding_type": "float" }),
        json!({ "embedding_type": ["float"], "late_chunking": false }),
        json!({ "truncate": "END" }),
        json!({ "truncate": "START", "input_type": "passage" }),
        json!({ "input_type": "text" }),
        json!({ "metadata": { "a": 1 }, "store": false, "service_tier": "auto", "safety_identifier": "x" }),
        json!({ "prompt_cache_key": "x", "priority": 0, "request_id": "x", "provider": {}, "user": 5 }),
        json!({ "truncate_prompt_tokens": null, "add_special_tokens": true, "modality": "text" }),
        json!({ "truncate_prompt_tokens": 128, "output_dtype": "float" }),
    ] {
        let answered = ask(&fields).await;
        assert_eq!(answered.status, StatusCode::OK, "{fields}: {}", answered.json);
        assert_eq!(answered.json["data"], plain.json["data"], "{fields}");
    }
    let base64 = ask(&json!({ "encoding_format": "base64" })).await;
    for fields in [
        json!({ "encoding_type": "base64" }),
        json!({ "embedding_type": ["base64"] }),
    ] {
        assert_eq!(ask(&fields).await.json["data"], base64.json["data"], "{fields}");
    }
    for (fields, param) in [
        (json!({ "truncate": "NONE" }), "input[0]"),
        (json!({ "truncate": "none" }), "truncate"),
        (json!({ "truncate": "END", "truncation": "tail" }), "truncate"),
        (json!({ "input_type": "classification" }), "input_type"),
        (json!({ "embedding_type": [] }), "embedding_type"),
        (json!({ "embedding_type": ["float", "base64"] }), "embedding_type"),
        (json!({ "truncate_prompt_tokens": 127 }), "truncate_prompt_tokens"),
        (json!({ "add_special_tokens": false }), "add_special_tokens"),
        (json!({ "modality": "image" }), "modality"),
        (json!({ "late_chunking": true }), "late_chunking"),
        (json!({ "output_dtype": "int8" }), "output_dtype"),
        (json!({ "task": "retrieval.query" }), "task"),
    ] {
        let answered = ask(&fields).await;
        assert_eq!(
            (answered.status.as_u16(), &answered.json["error"]["param"]),
            (400, &json!(param)),
            "{fields}: {}",
            answered.json
        );
    }
}

#[tokio::test]
async fn answers_have_an_id_of_their_own() {
    let front = front().await;
    let ask = async |path: &str, body: Value| post(&front, path, body).await.json;
    let body = json!({ "model": "one", "input": "a" });
    let (one, two) = (
        ask("/v1/embeddings", body.clone()).await,
        ask("/v1/embeddings", body).await,
    );
    let ranked = ask(
        "/v1/rerank",
        json!({ "model": "one", "query": "q", "documents": ["a"] }),
    )
    .await;
    for (answered, kind) in [(&one, "embd-"), (&two, "embd-"), (&ranked, "rerank-")] {
        assert!(answered["id"].as_str().unwrap().starts_with(kind), "{answered}");
    }
    assert_ne!(one["id"], two["id"]);
    assert!(one["created"].as_u64().unwrap() > 1_700_000_000, "{one}");
}

#[tokio::test]
async fn azures_addresses_name_the_encoder_and_answer_alike() {
    let front = front().await;
    let path = "/openai/deployments/one/embeddings?api-version=2024-10-21";
    let due = json!({ "model": "one", "input": ["four", "x"] });
    let due = post(&front, "/v1/embeddings", due).await;
    for model in [json!(null), json!("text-embedding-ada-002")] {
        let mut body = json!({ "model": model, "input": ["four", "x"] });
        if model.is_null() {
            body.as_object_mut().unwrap().remove("model");
        }
        let answered = post(&front, path, body).await;
        assert_eq!(answered.status, StatusCode::OK);
        for key in ["object", "data", "model", "usage"] {
            assert_eq!(answered.json[key], due.json[key], "{key}");
        }
        assert_eq!(answered.headers["isomer-vector-space"], "abc");
    }
    for (path, body, status, code, word) in [
        (path, json!({"input": "a", "imput": "b"}), 400, "invalid_json", "imput"),
        (path, json!("a"), 400, "invalid_json", "an object"),
        (path, json!({"input": []}), 400, "invalid_argument", "at least one text"),
        (
            "/openai/deployments/none/embeddings",
            json!({"input": "a"}),
            404,
            "model_not_found",
            "`none`",
        ),
        (
            "/openai/deployments/org/none/embeddings",
            json!({"input": "a"}),
            404,
            "model_not_found",
            "`org/none`",
        ),
        (
            "/openai/deployments/org%2Fnone/embeddings",
            json!({"input": "a"}),
            404,
            "model_not_found",
            "`org/none`",
        ),
    ] {
        let answered = post(&front, path, body).await;
        let error = &answered.json["error"];
        assert_eq!(
            (answered.status.as_u16(), &error["code"]),
            (status, &json!(code)),
            "{path}: {error}"
        );
        assert!(error["message"].as_str().unwrap().contains(word), "{path}: {error}");
    }
}

#[tokio::test]
async fn models_are_listed_over_all_pages_and_found_by_ids_with_a_slash() {
    let front = front().await;
    let listed = get(&front, "/v1/models").await.json;
    let ids: Vec<&Value> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| &model["id"])
        .collect();
    assert_eq!(ids, [&json!("one"), &json!("org/two")]);
    let one = get(&front, "/v1/models/org/two").await;
    assert_eq!(
        (&one.json["id"], &one.json["object"], &one.json["dimensions"]),
        (&json!("org/two"), &json!("model"), &json!(2))
    );
    let none = get(&front, "/v1/models/three").await;
    assert_eq!(
        (none.status, &none.json["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("model_not_found"))
    );
}

/// `here`, and `absent` without its files.
pub(crate) fn partly_installed() -> StubEncoder {
    let absent = Encoder {
        not_installed: true,
        ..named("absent")
    };
    StubEncoder::of([absent, named("here")])
}

#[tokio::test]
async fn an_encoder_that_is_not_installed_is_marked() {
    let front = routes(backends_over(partly_installed()).await);
    let listed = get(&front, "/v1/models").await.json;
    let facts = |index: usize| {
        let model = &listed["data"][index];
        json!([model["id"], model["installed"], model["dimensions"]])
    };
    assert_eq!(facts(0), json!(["absent", false, null]));
    assert_eq!(facts(1), json!(["here", true, null]));
}

#[tokio::test]
async fn documents_are_reranked_as_cohere_and_jina_answer() {
    let front = front().await;
    let body = json!({
        "model": "one", "query": "q", "documents": ["aa", {"text": "aaaa"}, "a"], "top_n": 2, "return_documents": true
    });
    let answered = post(&front, "/v1/rerank", body).await;
    assert_eq!(
        answered.json["results"],
        json!([
            { "index": 1, "relevance_score": 4.0, "document": { "text": "aaaa" } },
            { "index": 0, "relevance_score": 2.0, "document": { "text": "aa" } },
        ])
    );
}

#[tokio::test]
async fn a_gateway_without_encoders_says_so() {
    let front = routes(Backends {
        router: router(Vec::new(), RoutingConfig::default()).await,
        augmentation: None,
        augmented: Arc::default(),
        variants: None,
        max_message_bytes: 1 << 20,
    });
    assert_eq!(get(&front, "/v1/models").await.json["data"], json!([]));
    let answered = post(&front, "/v1/embeddings", json!({ "model": "one", "input": "x" })).await;
    assert_eq!(answered.status, StatusCode::NOT_FOUND);
    assert_eq!(answered.json["error"]["code"], "model_not_found");
    let message = answered.json["error"]["message"].as_str().unwrap();
    assert!(message.contains("none is registered yet"), "{message}");
}
