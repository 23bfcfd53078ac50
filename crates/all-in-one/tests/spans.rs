//! What a gateway exports with every service in its process: one SERVER span a request, models below it, and nothing while it is idle.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    dead_code
)]

#[path = "../../service-kit/tests/spans/harness.rs"]
mod harness;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use harness::{Spans, lines};
use isomer_adapters::GuardConfig;
use isomer_all_in_one::{Caller, IsomerConfig, compose};
use isomer_registry::ProvidersConfig;
use isomer_service_kit::server::{self, ServerConfig};
use isomer_transform::config::GeneratorConfig;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Is in every text and every key; no span may hold it.
const SECRET: &str = "confidential";

/// A provider of vectors and of texts, in OpenAI's shapes. Counts its health checks.
async fn provider() -> (SocketAddr, Arc<AtomicUsize>) {
    async fn embed(Json(body): Json<Value>) -> Response {
        let texts = body["input"].as_array().unwrap();
        if texts.iter().any(|text| text.as_str().unwrap().contains("refused")) {
            return (StatusCode::BAD_REQUEST, SECRET).into_response();
        }
        let data = texts
            .iter()
            .enumerate()
            .map(|(index, _)| json!({ "object": "embedding", "index": index, "embedding": [0.6, 0.8] }));
        let data: Vec<Value> = data.collect();
        Json(json!({ "object": "list", "model": body["model"], "data": data, "usage": { "prompt_tokens": 5, "total_tokens": 5 } }))
            .into_response()
    }
    async fn complete(Json(body): Json<Value>) -> Response {
        if body["messages"].to_string().contains("refused") {
            return (StatusCode::UNAUTHORIZED, SECRET).into_response();
        }
        let message =
            json!({ "role": "assistant", "content": "Another sentence, which says the same with other words." });
        Json(json!({
            "id": "one", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{ "index": 0, "finish_reason": "stop", "message": message }],
            "usage": { "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 },
        }))
        .into_response()
    }
    async fn healthy(State(checks): State<Arc<AtomicUsize>>) -> Json<Value> {
        checks.fetch_add(1, SeqCst);
        Json(json!({ "object": "list", "data": [] }))
    }
    let checks = Arc::<AtomicUsize>::default();
    let routes = Router::new()
        .route("/v1/embeddings", post(embed))
        .route("/v1/chat/completions", post(complete))
        .route("/v1/models", get(healthy))
        .with_state(Arc::clone(&checks));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, checks)
}

/// A gateway with a local encoder, a provider's and a generator; its address.
async fn start(home: &TempDir, provider: SocketAddr) -> SocketAddr {
    let providers = home.path().join("providers.toml");
    let declared = format!(
        "[[provider]]\nid = \"far\"\nkind = \"openai\"\naddress = \"http://{provider}\"\nencoders = {{ far = \"their-model\" }}\n"
    );
    std::fs::write(&providers, declared).unwrap();
    let mut config = IsomerConfig {
        server: ServerConfig::at("127.0.0.1:0".parse().unwrap()),
        providers: ProvidersConfig {
            file: Some(providers),
            ..ProvidersConfig::default()
        },
        addresses: GuardConfig {
            allow: vec!["127.0.0.1".to_owned()],
        },
        ..IsomerConfig::default()
    };
    config.models.home = home.path().to_owned();
    config.routing.health_interval_ms = 20;
    let model = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../embed-svc/tests/fixtures/bert_poolings");
    config.embed.encoders = [("here".to_owned(), model)].into();
    let writer = GeneratorConfig {
        model: "their-writer".to_owned(),
        url: Some(format!("http://{provider}/v1")),
        max_tries: 1,
        ..GeneratorConfig::default()
    };
    config.transform.generators = [("writer".to_owned(), writer)].into();
    config.transform.default_generator = "writer".to_owned();
    let (listen, listener) = (config.server.clone(), server::bind(&config.server).unwrap());
    let address = listener.local_addr().unwrap();
    let composed = compose(config, Caller::Anyone).await.unwrap();
    // On loopback it needs no key.
    composed.check_listen(address).await.unwrap();
    tokio::spawn(async move {
        let served = server::serve(composed.front(), &listen, listener, std::future::pending());
        served.await.unwrap();
        drop(composed);
    });
    address
}

/// Posts JSON from outside; the status of the answer.
async fn post_json(address: SocketAddr, path: &str, body: Value) -> (u16, String) {
    let answer = reqwest::Client::new()
        .post(format!("http://{address}{path}?{SECRET}={SECRET}"))
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

// One test: the subscriber belongs to the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_exports_one_server_span_and_an_idle_server_none() {
    isomer_service_kit::tls::install_crypto();
    let spans = Spans::install();
    let home = TempDir::new().unwrap();
    let (provider, checks) = provider().await;
    let (address, found) = spans.of(Box::pin(start(&home, provider))).await;
    assert_eq!(found, "", "a start is nobody's request");

    let transform = |text: &str| {
        json!({
            "spec": { "transformation": { "paraphrase": {} }, "maxAttempts": 1 },
            "items": [{ "id": "a", "text": format!("A {SECRET} sentence that is {text} to be said again.") }],
        })
    };
    let embed = |model: &str, text: &str| json!({ "model": model, "input": [format!("{SECRET} {text}")] });
    let cases = [
        ("a local encoder", "/v1/embeddings", embed("here", "a"), 200, HERE),
        ("a provider's encoder", "/v1/embeddings", embed("far", "b"), 200, FAR),
        (
            "a provider that refuses",
            "/v1/embeddings",
            embed("far", "refused"),
            400,
            REFUSED,
        ),
        ("no such encoder", "/v1/embeddings", embed(SECRET, "c"), 404, UNKNOWN),
        (
            "Connect",
            "/isomer.encoder.v1.EncoderService/Encode",
            json!({ "encoderId": "here", "inputs": [{ "text": SECRET }] }),
            200,
            CONNECT,
        ),
        (
            "a generation",
            "/isomer.transform.v1.TransformService/Transform",
            transform("fit"),
            200,
            GENERATED,
        ),
        (
            "a generator that refuses",
            "/isomer.transform.v1.TransformService/Transform",
            transform("refused"),
            400,
            NOT_GENERATED,
        ),
    ];
    // What is asked of a provider once, when it is first used, is not looked at.
    for (_, path, body, _, _) in &cases {
        post_json(address, path, body.clone()).await;
    }
    let mut wrong = Vec::new();
    for (name, path, body, status, expected) in cases {
        // Another text: answers of providers are kept.
        let body: Value = serde_json::from_str(&body.to_string().replace(SECRET, &format!("{SECRET} again"))).unwrap();
        let ((answered, answer), found) = spans.of(post_json(address, path, body)).await;
        assert_eq!(answered, status, "{name}: {answer}");
        assert!(!found.contains(SECRET), "{name}\n{found}");
        if found != lines(expected) {
            wrong.push(format!(
                "{name}\n--- exported\n{found}--- expected\n{}",
                lines(expected)
            ));
        }
    }

    let before = checks.load(SeqCst);
    let ((), found) = spans.of(tokio::time::sleep(Duration::from_millis(1500))).await;
    assert!(checks.load(SeqCst) > before + 5, "the provider's health is looked at");
    assert_eq!(found, "", "an idle server exports nothing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const HERE: &str = "
    INTERNAL embeddings here in INTERNAL isomer.encoder.v1.EncoderService/Encode
      gen_ai.operation.name = \"embeddings\"
      gen_ai.provider.name = \"isomer\"
      gen_ai.request.model = \"here\"
      gen_ai.usage.input_tokens = 15
    INTERNAL isomer.encoder.v1.EncoderService/Encode in SERVER POST /v1/embeddings
      rpc.method = \"isomer.encoder.v1.EncoderService/Encode\"
      rpc.response.status_code = \"OK\"
      rpc.system.name = \"grpc\"
    SERVER POST /v1/embeddings
      http.request.method = \"POST\"
      http.response.status_code = 200
      http.route = \"/v1/embeddings\"
      network.protocol.version = \"1.1\"
      server.address = \"127.0.0.1\"
      server.port = PORT
      url.path = \"/v1/embeddings\"
      url.scheme = \"http\"";

const FAR: &str = "
    CLIENT POST in CLIENT embeddings their-model
      http.request.method = \"POST\"
      http.response.status_code = 200
      server.address = \"127.0.0.1\"
      server.port = PORT
      url.full = \"http://127.0.0.1:PORT/v1/embeddings\"
    CLIENT embeddings their-model in SERVER POST /v1/embeddings
      gen_ai.operation.name = \"embeddings\"
      gen_ai.provider.name = \"openai\"
      gen_ai.request.model = \"their-model\"
      gen_ai.usage.input_tokens = 5
      server.address = \"127.0.0.1\"
      server.port = PORT
    SERVER POST /v1/embeddings
      http.request.method = \"POST\"
      http.response.status_code = 200
      http.route = \"/v1/embeddings\"
      network.protocol.version = \"1.1\"
      server.address = \"127.0.0.1\"
      server.port = PORT
      url.path = \"/v1/embeddings\"
      url.scheme = \"http\"";

const REFUSED: &str = "
    CLIENT POST in CLIENT embeddings their-model ERROR
      error.type = \"400\"
      http.request.method = \"POST\"
      http.response.status_code = 400
      server.address = \"127.0.0.1\"
      server.port = PORT
      url.full = \"http://127.0.0.1:PORT/v1/embeddings\"
    CLIENT embeddings their-model in SERVER POST /v1/embeddings ERROR
      error.type = \"INVALID_ARGUMENT\"
      gen_ai.operation.name = \"embeddings\"
      gen_ai.provider.name = \"openai\"
      gen_ai.request.model = \"their-model\"
      server.address = \"127.0.0.1\"
      server.port = PORT
    SERVER POST /v1/embeddings
      http.request.method = \"POST\"
      http.response.status_code = 400
      http.route = \"/v1/embeddings\"
      network.protocol.version = \"1.1\"
      server.address = \"127.0.0.1\"
      server.port = PORT
      url.path = \"/v1/embeddings\"
      url.scheme = \"http\"";

const UNKNOWN: &str = "
    INTERNAL isomer.encoder.v1.EncoderService/Encode in SERVER POST /v1/embeddings
      rpc.method = \"isomer.encoder.v1.EncoderService/Encode\"
      rpc.response.status_code = \"NOT_FOUND\"
      rpc.system.name = \"grpc\"
    SERVER POST /v1/embeddings
      http.request.method = \"POST\"
      http.response.status_code = 404
      http.route = \"/v1/embeddings\"
      network.protocol.version = \"1.1\"
      server.address = \"127.0.0.1\"
      server.port = PORT
      url.path = \"/v1/embeddings\"
      url.scheme = \"http\"";

const CONNECT: &str = "
    INTERNAL embeddings here in INTERNAL isomer.encoder.v1.EncoderService/Encode
      gen_ai.operation.name = \"embeddings\"
      gen_ai.provider.name = \"isomer\"
      gen_ai.request.model = \"here\"
      gen_ai.usage.input_tokens = 14
    INTERNAL isomer.encoder.v1.EncoderService/Encode in SERVER isomer.encoder.v1.EncoderService/Encode
      rpc.method = \"isomer.encoder.v1.EncoderService/Encode\"
      rpc.response.status_code = \"OK\"
      rpc.system.name = \"grpc\"
    SERVER isomer.encoder.v1.EncoderService/Encode
      network.protocol.name = \"http\"
      network.protocol.version = \"1.1\"
      rpc.method = \"isomer.encoder.v1.EncoderService/Encode\"
      rpc.system.name = \"connectrpc\"
      server.address = \"127.0.0.1\"
      server.port = PORT";

const GENERATED: &str = "
    CLIENT chat their-writer in INTERNAL isomer.transform.v1.TransformService/Transform
      gen_ai.operation.name = \"chat\"
      gen_ai.provider.name = \"openai\"
      gen_ai.request.model = \"their-writer\"
      gen_ai.usage.input_tokens = 100
      gen_ai.usage.output_tokens = 20
      server.address = \"127.0.0.1\"
      server.port = PORT
    INTERNAL isomer.transform.v1.TransformService/Transform in SERVER isomer.transform.v1.TransformService/Transform
      rpc.method = \"isomer.transform.v1.TransformService/Transform\"
      rpc.response.status_code = \"OK\"
      rpc.system.name = \"grpc\"
    SERVER isomer.transform.v1.TransformService/Transform
      network.protocol.name = \"http\"
      network.protocol.version = \"1.1\"
      rpc.method = \"isomer.transform.v1.TransformService/Transform\"
      rpc.system.name = \"connectrpc\"
      server.address = \"127.0.0.1\"
      server.port = PORT";

const NOT_GENERATED: &str = "
    CLIENT chat their-writer in INTERNAL isomer.transform.v1.TransformService/Transform ERROR
      error.type = \"401\"
      gen_ai.operation.name = \"chat\"
      gen_ai.provider.name = \"openai\"
      gen_ai.request.model = \"their-writer\"
      server.address = \"127.0.0.1\"
      server.port = PORT
    INTERNAL isomer.transform.v1.TransformService/Transform in SERVER isomer.transform.v1.TransformService/Transform
      rpc.method = \"isomer.transform.v1.TransformService/Transform\"
      rpc.response.status_code = \"FAILED_PRECONDITION\"
      rpc.system.name = \"grpc\"
    SERVER isomer.transform.v1.TransformService/Transform
      network.protocol.name = \"http\"
      network.protocol.version = \"1.1\"
      rpc.method = \"isomer.transform.v1.TransformService/Transform\"
      rpc.response.status_code = \"failed_precondition\"
      rpc.system.name = \"connectrpc\"
      server.address = \"127.0.0.1\"
      server.port = PORT";
