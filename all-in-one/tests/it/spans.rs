//! The spans that a gateway exports with every service in its process: one SERVER span per request,
//! the models' spans below it, and no spans while it is idle.

use std::{net::SocketAddr, path::PathBuf};

use isomer_adapters::GuardConfig;
use isomer_all_in_one::{Caller, IsomerConfig, compose};
use isomer_registry::ProvidersConfig;
use isomer_service_kit::server::{self, ServerConfig};
use isomer_stubs::{
    http::{Reply, Stub},
    openai,
    wait::until,
};
use isomer_transform::config::GeneratorConfig;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::span_harness::{ADDRESS, Spans, http_span, lines, web_span};

/// A word that occurs in every text and every key; no span may contain it.
const SECRET: &str = "confidential";
/// The path at which a provider's health is checked.
const HEALTH: &str = "/v1/models";
const ENCODE: &str = "isomer.encoder.v1.EncoderService/Encode";
const TRANSFORM: &str = "isomer.transform.v1.TransformService/Transform";

/// A provider of vectors and of texts, with OpenAI's API.
async fn provider() -> Stub {
    Stub::start(|call| {
        let refused = call.body.to_string().contains("refused");
        match call.path.as_str() {
            "/v1/embeddings" if refused => Reply::text(400, SECRET),
            "/v1/embeddings" => Reply::ok(openai::embeddings(&call.body, |_| vec![0.6, 0.8], 5)),
            "/v1/chat/completions" if refused => Reply::text(401, SECRET),
            "/v1/chat/completions" => {
                let text = "Another sentence, which says the same with other words.";
                Reply::ok(openai::chat_completion(text, (100, 20)))
            }
            HEALTH => Reply::ok(json!({ "object": "list", "data": [] })),
            _ => Reply::text(404, ""),
        }
    })
    .await
}

/// A gateway with a local encoder, a provider's encoder and a generator; returns its address.
async fn start(home: &TempDir, provider: &str) -> SocketAddr {
    let providers = home.path().join("providers.toml");
    let declared = format!(
        "[[provider]]\nid = \"far\"\nkind = \"openai\"\naddress = \"{provider}\"\nencoders = {{ far = \"their-model\" }}\n"
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
    let model = PathBuf::from(".").join("../embed-svc/tests/fixtures/bert_poolings");
    config.embed.encoders = [("here".to_owned(), model)].into();
    let writer = GeneratorConfig {
        model: "their-writer".to_owned(),
        url: Some(format!("{provider}/v1")),
        max_tries: 1,
        ..GeneratorConfig::default()
    };
    config.transform.generators = [("writer".to_owned(), writer)].into();
    config.transform.default_generator = "writer".to_owned();
    let (listen, listener) = (config.server.clone(), server::bind(&config.server).unwrap());
    let address = listener.local_addr().unwrap();
    let composed = compose(config, Caller::Anyone).await.unwrap();
    // On loopback no key is needed.
    composed.check_listen(address).await.unwrap();
    tokio::spawn(async move {
        let served = server::serve(composed.front(), &listen, listener, std::future::pending());
        served.await.unwrap();
        drop(composed);
    });
    address
}

/// Posts JSON from outside; returns the status and text of the answer.
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

// There is only one test, because the subscriber belongs to the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_exports_one_server_span_and_an_idle_server_none() {
    isomer_service_kit::tls::install_crypto();
    let spans = Spans::install();
    let home = TempDir::new().unwrap();
    let provider = provider().await;
    let (address, found) = spans.of(Box::pin(start(&home, &provider.address))).await;
    assert_eq!(found, "", "starting is not a request");

    let transform = |text: &str| {
        json!({
            "spec": { "transformation": { "paraphrase": {} }, "maxAttempts": 1 },
            "items": [{ "id": "a", "text": format!("A {SECRET} sentence that is {text} to be said again.") }],
        })
    };
    let embed = |model: &str, text: &str| json!({ "model": model, "input": [format!("{SECRET} {text}")] });
    let by_post = |status| internal(ENCODE, "POST /v1/embeddings", status);
    let cases = [
        (
            "a local encoder",
            "/v1/embeddings",
            embed("here", "a"),
            200,
            embedded_here(15) + &by_post("OK") + &posted(200),
        ),
        (
            "a provider's encoder",
            "/v1/embeddings",
            embed("far", "b"),
            200,
            embedded_far(200, "gen_ai.usage.input_tokens = 5") + &posted(200),
        ),
        (
            "a provider that refuses",
            "/v1/embeddings",
            embed("far", "refused"),
            400,
            embedded_far(400, "error.type = \"INVALID_ARGUMENT\"") + &posted(400),
        ),
        (
            "no such encoder",
            "/v1/embeddings",
            embed(SECRET, "c"),
            404,
            by_post("NOT_FOUND") + &posted(404),
        ),
        (
            "Connect",
            "/isomer.encoder.v1.EncoderService/Encode",
            json!({ "encoderId": "here", "inputs": [{ "text": SECRET }] }),
            200,
            embedded_here(14) + &connect(ENCODE, "OK"),
        ),
        (
            "a generation",
            "/isomer.transform.v1.TransformService/Transform",
            transform("fit"),
            200,
            generated("", "gen_ai.usage.input_tokens = 100\ngen_ai.usage.output_tokens = 20")
                + &connect(TRANSFORM, "OK"),
        ),
        (
            "a generator that refuses",
            "/isomer.transform.v1.TransformService/Transform",
            transform("refused"),
            400,
            generated(" ERROR", "error.type = \"401\"") + &connect(TRANSFORM, "FAILED_PRECONDITION"),
        ),
    ];
    // The first call of a provider also requests its facts, so its spans are not compared.
    for (_, path, body, _, _) in &cases {
        post_json(address, path, body.clone()).await;
    }
    let mut wrong = Vec::new();
    for (name, path, body, status, expected) in cases {
        // The text differs, because providers' responses are cached.
        let body: Value = serde_json::from_str(&body.to_string().replace(SECRET, &format!("{SECRET} again"))).unwrap();
        let ((answered, answer), found) = spans.of(post_json(address, path, body)).await;
        assert_eq!(answered, status, "{name}: {answer}");
        assert!(!found.contains(SECRET), "{name}\n{found}");
        let expected = lines(&expected);
        if found != expected {
            wrong.push(format!("{name}\n--- exported\n{found}--- expected\n{expected}"));
        }
    }

    let checks = || provider.calls_of(HEALTH).len();
    let before = checks();
    let polled = until("the provider's health is polled", || checks() > before + 5);
    let ((), found) = spans.of(polled).await;
    assert_eq!(found, "", "an idle server exports nothing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The span of an answer to `POST /v1/embeddings`.
fn posted(status: u16) -> String {
    http_span(
        "POST /v1/embeddings",
        &format!(
            "http.request.method = \"POST\"
            http.response.status_code = {status}
            http.route = \"/v1/embeddings\"
            url.path = \"/v1/embeddings\""
        ),
    )
}

/// The span of an rpc within the process.
fn internal(rpc: &str, parent: &str, status: &str) -> String {
    format!(
        "INTERNAL {rpc} in SERVER {parent}
        rpc.method = \"{rpc}\"
        rpc.response.status_code = \"{status}\"
        rpc.system.name = \"grpc\"\n"
    )
}

/// The span of an rpc over Connect that is answered within the process, and the one below it.
fn connect(rpc: &str, status: &str) -> String {
    let failed = match status {
        "OK" => String::new(),
        failed => format!("rpc.response.status_code = \"{}\"", failed.to_lowercase()),
    };
    let attributes = format!("rpc.method = \"{rpc}\"\nrpc.system.name = \"connectrpc\"\n{failed}");
    web_span(rpc, "", &attributes) + &internal(rpc, rpc, status)
}

/// The span of vectors from the local encoder.
fn embedded_here(tokens: u32) -> String {
    format!(
        "INTERNAL embeddings here in INTERNAL {ENCODE}
        gen_ai.operation.name = \"embeddings\"
        gen_ai.provider.name = \"isomer\"
        gen_ai.request.model = \"here\"
        gen_ai.usage.input_tokens = {tokens}\n"
    )
}

/// The spans of vectors from the provider: the call, and the HTTP request below it. `end` contains
/// the attributes of the call's end.
fn embedded_far(status: u16, end: &str) -> String {
    let (state, error) = match status {
        200 => ("", String::new()),
        _ => (" ERROR", format!("error.type = \"{status}\"")),
    };
    format!(
        "CLIENT POST in CLIENT embeddings their-model{state}
        {error}
        http.request.method = \"POST\"
        http.response.status_code = {status}
        url.full = \"http://127.0.0.1:PORT/v1/embeddings\"
        {ADDRESS}
        CLIENT embeddings their-model in SERVER POST /v1/embeddings{state}
        {end}
        gen_ai.operation.name = \"embeddings\"
        gen_ai.provider.name = \"openai\"
        gen_ai.request.model = \"their-model\"
        {ADDRESS}\n"
    )
}

/// The span of a text from the generator. `end` contains the attributes of its end.
fn generated(state: &str, end: &str) -> String {
    format!(
        "CLIENT chat their-writer in INTERNAL {TRANSFORM}{state}
        {end}
        gen_ai.operation.name = \"chat\"
        gen_ai.provider.name = \"openai\"
        gen_ai.request.model = \"their-writer\"
        {ADDRESS}\n"
    )
}
