//! The exported spans of a server for each kind of request, attribute by attribute: kinds, names,
//! types, failures, parents.
//!
//! The attributes are those of OpenTelemetry's semantic conventions 1.45. A new attribute fails
//! this test until it is added here.

mod harness;

use axum::{
    Router,
    body::Body,
    http::StatusCode,
    routing::{get, post},
};
use harness::{ADDRESS, Spans, http_span, lines, web_span};
use isomer_service_kit::{
    LimitsConfig, client,
    server::ServerConfig,
    telemetry::{
        gen_ai::{ModelCall, Operation, Provider},
        unsampled,
    },
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tracing::Instrument;

use crate::support::{self, ScriptedEncoder, StreamKind, TestServer, http, in_memory, open, relay, services};

const RPC: &str = "isomer.encoder.v1.EncoderService/GetEncoder";
const GET: &str = "/isomer.encoder.v1.EncoderService/GetEncoder";
const JSON: (&str, &str) = ("content-type", "application/json");

async fn start() -> TestServer {
    let broken = || async {
        let (sender, body) = futures::channel::mpsc::unbounded::<Result<&str, std::io::Error>>();
        sender.unbounded_send(Ok("half")).unwrap();
        tokio::spawn(async move {
            // The head must be sent before the body is cut off.
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            sender.unbounded_send(Err(std::io::Error::other("no more")))
        });
        Body::from_stream(body)
    };
    let routes = Router::new()
        .route("/v1/things/{id}", get(|| async { "thing" }))
        .route("/v1/refused", post(|| async { StatusCode::UNPROCESSABLE_ENTITY }))
        .route("/v1/failed", get(|| async { StatusCode::BAD_GATEWAY }))
        .route("/v1/broken", get(broken));
    let services = services(&ScriptedEncoder::default()).http(routes).web(&[]);
    TestServer::start(services, ServerConfig::default()).await
}

/// An HTTP request from outside, with its own trace; returns its status.
async fn ask(running: &TestServer, method: &str, path: &str, headers: &[(&str, &str)], body: &'static str) -> u16 {
    let method = method.parse::<reqwest::Method>().unwrap();
    let request = http().request(method, running.url(path)).body(body);
    let request = headers
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value));
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    // Reads to the end, or to the point where the body is cut off.
    let _ = answer.bytes().await;
    status
}

// There is only one test, because the subscriber belongs to the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_request_exports_exactly_its_spans() {
    let spans = Spans::install();
    let running = start().await;
    let channel = running.connect().await;
    let mut wrong = Vec::new();
    let mut hold = |name: &str, found: String, expected: &str| {
        if found != lines(expected) {
            wrong.push(format!(
                "{name}\n--- exported\n{found}--- expected\n{}",
                lines(expected)
            ));
        }
    };

    // gRPC
    let (answer, found) = spans.of(support::get(&channel, "x")).await;
    assert_eq!(answer.unwrap(), "x");
    hold("a unary call", found, &both("", "\"OK\"", "\"OK\"", ""));
    let (answer, found) = spans.of(support::get(&channel, "overloaded")).await;
    answer.unwrap_err();
    hold(
        "a failure that is its caller's",
        found,
        &both(
            "",
            "\"RESOURCE_EXHAUSTED\"",
            "\"RESOURCE_EXHAUSTED\"",
            "error.type = \"RESOURCE_EXHAUSTED\"",
        ),
    );
    let (answer, found) = spans.of(support::get(&channel, "panic")).await;
    answer.unwrap_err();
    hold(
        "a failure that is the server's",
        found,
        &both(
            "error.type = \"INTERNAL\"",
            "\"INTERNAL\"",
            "\"INTERNAL\"",
            "error.type = \"INTERNAL\"",
        ),
    );
    let (_, found) = spans
        .of(async {
            let mut stream = open(&channel, StreamKind::ONE_THEN_PANIC).await.unwrap();
            stream.message().await.unwrap();
            stream.message().await.unwrap_err();
        })
        .await;
    let stream = |text: String| text.replace("GetEncoder", "EncodeStream");
    hold(
        "a stream that fails midway",
        found,
        &stream(both(
            "error.type = \"INTERNAL\"",
            "\"INTERNAL\"",
            "\"INTERNAL\"",
            "error.type = \"INTERNAL\"",
        )),
    );
    let (_, found) = spans
        .of(async {
            let mut stream = open(&channel, StreamKind::ENDLESS).await.unwrap();
            stream.message().await.unwrap();
        })
        .await;
    hold(
        "a stream that its caller leaves",
        found,
        &stream(both("", "\"CANCELLED\"", "\"CANCELLED\"", "error.type = \"CANCELLED\"")),
    );

    // Within the process: the caller's SERVER span, and an INTERNAL one below it.
    let inner = in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
    let front = TestServer::start(relay(inner.clone()), ServerConfig::default()).await;
    let outside = front.connect().await;
    let (answer, found) = spans.of(support::get(&outside, "x")).await;
    answer.unwrap();
    hold(
        "a request that is answered within the process",
        found,
        &format!(
            "{}{}",
            both("", "\"OK\"", "\"OK\"", ""),
            internal(&format!(" in SERVER {RPC}"))
        ),
    );
    let (answer, found) = spans.of(support::get(&inner, "x")).await;
    answer.unwrap();
    hold("a call within the process of nobody's request", found, &internal(""));

    // HTTP
    for (name, method, path, headers, expected) in http_requests() {
        let (status, found) = spans.of(ask(&running, method, path, headers, "")).await;
        assert!(
            expected.contains(&format!("http.response.status_code = {status}\n")),
            "{name}: {status}"
        );
        hold(name, found, &expected);
    }

    // Connect and gRPC-Web
    for (name, path, headers, body, status, expected) in rpcs_over_http() {
        let (answered, found) = spans.of(ask(&running, "POST", path, headers, body)).await;
        assert_eq!(answered, status, "{name}");
        hold(name, found, &expected);
    }

    // Probes have no spans, whatever their sender.
    let (_, found) = spans
        .of(async {
            let mut health = HealthClient::new(channel.clone());
            health.check(HealthCheckRequest::default()).await.unwrap();
            let mut health = HealthClient::new(inner.clone());
            health.check(HealthCheckRequest::default()).await.unwrap();
            for path in ["/healthz", "/readyz", "/metrics"] {
                assert_eq!(ask(&running, "GET", path, &[], "").await, 200);
            }
        })
        .await;
    hold("health and metrics", found, "");
    // Calls that a server makes for its own purposes have no spans, neither here nor there.
    let (answer, found) = spans.of(support::get(&outside, "x").instrument(unsampled())).await;
    answer.unwrap();
    hold("upkeep", found, "");

    // Models
    let (_, found) = spans
        .of(async {
            let call = ModelCall::start(Operation::Chat, &Provider::server("openai", "10.0.0.1", 443), "m");
            call.input_tokens(7);
            call.output_tokens(u64::MAX);
            let call = ModelCall::start(Operation::Embeddings, &Provider::HERE, "m");
            call.failed("INTERNAL");
        })
        .await;
    hold("calls of models", found, MODELS);

    // An unreachable server: only the client has a span.
    let nobody = client::connect_lazy(&client::ClientConfig::plain("127.0.0.1:9")).unwrap();
    let (answer, found) = spans.of(support::get(&nobody, "x")).await;
    answer.unwrap_err();
    hold("a server that is not there", found, &no_server());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The spans of a call to `GetEncoder` on both sides, each with the error that it reports.
fn both(server_error: &str, server_status: &str, client_status: &str, client_error: &str) -> String {
    let state = |error: &str| if error.is_empty() { "" } else { " ERROR" };
    format!(
        "CLIENT {RPC}{}
        {client_error}
        {}
        {ADDRESS}
        SERVER {RPC} in CLIENT {RPC}{}
        {server_error}
        network.protocol.name = \"http\"
        network.protocol.version = \"2\"
        {}
        {ADDRESS}\n",
        state(client_error),
        grpc(client_status),
        state(server_error),
        grpc(server_status),
    )
}

/// The attributes of a gRPC call to `GetEncoder`.
fn grpc(status: &str) -> String {
    format!(
        "rpc.method = \"{RPC}\"
        rpc.response.status_code = {status}
        rpc.system.name = \"grpc\""
    )
}

/// The span of a call within the process.
fn internal(parent: &str) -> String {
    format!("INTERNAL {RPC}{parent}\n{}", grpc("\"OK\""))
}

/// The client's span of a call to a server that does not exist.
fn no_server() -> String {
    format!(
        "CLIENT {RPC} ERROR
        error.type = \"UNAVAILABLE\"
        {}
        server.address = \"127.0.0.1\"
        server.port = 9",
        grpc("\"UNAVAILABLE\"")
    )
}

const MODELS: &str = "CLIENT chat m
    gen_ai.operation.name = \"chat\"
    gen_ai.provider.name = \"openai\"
    gen_ai.request.model = \"m\"
    gen_ai.usage.input_tokens = 7
    gen_ai.usage.output_tokens = 9223372036854775807
    server.address = \"10.0.0.1\"
    server.port = 443
    INTERNAL embeddings m ERROR
    error.type = \"INTERNAL\"
    gen_ai.operation.name = \"embeddings\"
    gen_ai.provider.name = \"isomer\"
    gen_ai.request.model = \"m\"
    (2 traces)";

type Headers = &'static [(&'static str, &'static str)];

/// Name, method, path, headers, spans.
fn http_requests() -> Vec<(&'static str, &'static str, &'static str, Headers, String)> {
    vec![
        (
            "an answer",
            "GET",
            "/v1/things/7?secret=x",
            &[("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")],
            http_span(
                "GET /v1/things/{id} in another process",
                "http.request.method = \"GET\"
                http.response.status_code = 200
                http.route = \"/v1/things/{id}\"
                url.path = \"/v1/things/7\"",
            ),
        ),
        (
            "no such path",
            "GET",
            "/made/up",
            &[("host", "example.com")],
            "SERVER GET
            http.request.method = \"GET\"
            http.response.status_code = 404
            network.protocol.version = \"1.1\"
            server.address = \"example.com\"
            server.port = 80
            url.path = \"/made/up\"
            url.scheme = \"http\""
                .to_owned(),
        ),
        (
            "a method that nobody knows",
            "BREW",
            "/v1/refused",
            &[],
            http_span(
                "HTTP /v1/refused",
                "http.request.method = \"_OTHER\"
                http.request.method_original = \"BREW\"
                http.response.status_code = 405
                http.route = \"/v1/refused\"
                url.path = \"/v1/refused\"",
            ),
        ),
        (
            "a failure that is the caller's",
            "POST",
            "/v1/refused",
            &[],
            http_span(
                "POST /v1/refused",
                "http.request.method = \"POST\"
                http.response.status_code = 422
                http.route = \"/v1/refused\"
                url.path = \"/v1/refused\"",
            ),
        ),
        (
            "a failure that is the server's",
            "GET",
            "/v1/failed",
            &[],
            http_span(
                "GET /v1/failed ERROR",
                "error.type = \"502\"
                http.request.method = \"GET\"
                http.response.status_code = 502
                http.route = \"/v1/failed\"
                url.path = \"/v1/failed\"",
            ),
        ),
        (
            "an answer that breaks off",
            "GET",
            "/v1/broken",
            &[],
            http_span(
                "GET /v1/broken ERROR",
                "error.type = \"_OTHER\"
                http.request.method = \"GET\"
                http.response.status_code = 200
                http.route = \"/v1/broken\"
                url.path = \"/v1/broken\"",
            ),
        ),
    ]
}

/// Name, path, headers, body, HTTP status, spans.
fn rpcs_over_http() -> Vec<(&'static str, &'static str, Headers, &'static str, u16, String)> {
    let connect = "rpc.method = \"isomer.encoder.v1.EncoderService/GetEncoder\"
        rpc.system.name = \"connectrpc\"";
    let refused = web_span(
        RPC,
        "",
        &format!("{connect}\nrpc.response.status_code = \"invalid_argument\""),
    );
    vec![
        (
            "Connect",
            GET,
            &[JSON],
            r#"{"id":"x"}"#,
            200,
            web_span(RPC, "", connect),
        ),
        (
            "Connect, a failure that is the server's",
            GET,
            &[JSON],
            r#"{"id":"panic"}"#,
            500,
            web_span(
                RPC,
                " ERROR",
                &format!("{connect}\nerror.type = \"internal\"\nrpc.response.status_code = \"internal\""),
            ),
        ),
        (
            "Connect, a body that cannot be read",
            GET,
            &[JSON],
            "{",
            400,
            refused.clone(),
        ),
        (
            "Connect, refused before it is a call",
            GET,
            &[JSON, ("connect-timeout-ms", "soon")],
            "{}",
            400,
            refused,
        ),
        (
            "Connect, the wrong kind of body",
            GET,
            &[("content-type", "application/connect+json")],
            "",
            415,
            http_span(
                "POST",
                "http.request.method = \"POST\"
                http.response.status_code = 415
                url.path = \"/isomer.encoder.v1.EncoderService/GetEncoder\"",
            ),
        ),
        (
            "gRPC-Web",
            GET,
            &[("content-type", "application/grpc-web")],
            "\0\0\0\0\0",
            200,
            web_span(RPC, "", &grpc("\"OK\"")),
        ),
        (
            "gRPC-Web, a method that nobody serves",
            "/isomer.encoder.v1.EncoderService/Xyzzy",
            &[("content-type", "application/grpc-web")],
            "\0\0\0\0\0",
            200,
            web_span(
                "grpc",
                " ERROR",
                "error.type = \"UNIMPLEMENTED\"
                rpc.method = \"_OTHER\"
                rpc.method_original = \"isomer.encoder.v1.EncoderService/Xyzzy\"
                rpc.response.status_code = \"UNIMPLEMENTED\"
                rpc.system.name = \"grpc\"",
            ),
        ),
    ]
}
