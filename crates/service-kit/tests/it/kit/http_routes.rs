use axum::{
    Router,
    extract::Path,
    routing::{get, post},
};
use isomer_service_kit::{LimitsConfig, server::ServerConfig};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{self, ScriptedEncoder, TestServer, http, services};

async fn start(routes: Router) -> TestServer {
    let limits = LimitsConfig {
        max_message_bytes: 4096,
        ..LimitsConfig::default()
    };
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    TestServer::start(services(&ScriptedEncoder::default()).http(routes), config).await
}

#[tokio::test]
async fn probes_metrics_http_and_grpc_share_one_port() {
    let running = start(Router::new().route("/v1/things/{id}", get(|| async { "thing" }))).await;
    let get = |path: &str| http().get(running.url(path)).send();
    assert_eq!(get("/healthz").await.unwrap().text().await.unwrap(), "ok\n");
    assert_eq!(get("/readyz").await.unwrap().text().await.unwrap(), "ready\n");
    assert_eq!(get("/v1/things/7").await.unwrap().text().await.unwrap(), "thing");
    assert_eq!(support::get(&running.connect().await, "x").await.unwrap(), "x");

    let metrics = get("/metrics").await.unwrap();
    assert!(
        metrics.headers()["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    let text = metrics.text().await.unwrap();
    // The label is the route as declared: a label per id would grow without bound.
    assert!(
        text.contains("service=\"http\",method=\"GET /v1/things/{id}\",code=\"200\",via=\"network\""),
        "{text}"
    );
}

#[tokio::test]
async fn an_unknown_path_is_named_and_counted_as_other() {
    let running = start(Router::new()).await;
    let answer = http().get(running.url("/made/up")).send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.unwrap().contains("no such path: /made/up"));
    let text = http()
        .get(running.url("/metrics"))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(text.contains("method=\"other\",code=\"404\"") && !text.contains("/made/up"));
}

#[tokio::test]
async fn routes_may_have_a_fallback_of_their_own() {
    let running = start(Router::new().fallback(|| async { "the page" })).await;
    assert_eq!(
        http()
            .get(running.url("/any"))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        "the page"
    );
    assert_eq!(
        http()
            .get(running.url("/healthz"))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        "ok\n"
    );
}

#[tokio::test]
async fn a_body_beyond_the_limit_and_a_panic_are_answered() {
    let routes = Router::new()
        .route("/echo", post(|body: String| async { body }))
        .route("/panic", get(|| async { panic!("in a route") as () }));
    let running = start(routes).await;
    let send = |bytes: usize| http().post(running.url("/echo")).body("x".repeat(bytes)).send();
    assert_eq!(send(4096).await.unwrap().text().await.unwrap().len(), 4096);
    assert_eq!(send(4097).await.unwrap().status(), 413);
    assert_eq!(http().get(running.url("/panic")).send().await.unwrap().status(), 500);
    assert_eq!(send(1).await.unwrap().text().await.unwrap(), "x");
}

#[tokio::test]
async fn a_path_is_served_with_a_slash_at_the_end_and_under_its_alias() {
    let routes = Router::new().route("/v1/things/{id}", get(|Path(id): Path<String>| async { id }));
    let services = services(&ScriptedEncoder::default()).http(routes);
    let services = services.paths(&[("/other/v1", "/v1")], vec!["/v1/things/{id}", "/v1/words"]);
    let running = TestServer::start(services, ServerConfig::default()).await;
    let get = async |path: &str| http().get(running.url(path)).send().await.unwrap();
    for path in [
        "/v1/things/7",
        "/v1/things/7/",
        "/other/v1/things/7",
        "/other/v1/things/7/?x=/",
    ] {
        assert_eq!(get(path).await.text().await.unwrap(), "7", "{path}");
    }
    let unknown = get("/words").await;
    assert_eq!(unknown.status(), 404);
    assert!(unknown.text().await.unwrap().contains("/v1/words"));
}

#[tokio::test]
async fn another_method_than_post_for_an_rpc_is_answered_with_405() {
    let running = start(Router::new()).await;
    let path = "/isomer.encoder.v1.EncoderService/ListEncoders";
    let answer = http().get(running.url(path)).send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["allow"]),
        (405, &"POST".parse().unwrap())
    );
    let none = http()
        .get(running.url("/isomer.encoder.v1.EncoderService/None"))
        .send()
        .await;
    assert_eq!(none.unwrap().status(), 404);
}

#[tokio::test]
async fn an_answer_has_the_id_of_its_request() {
    let running = start(Router::new().route("/thing", get(|| async { "thing" }))).await;
    let ask = async |path: &str, id: Option<&str>| {
        let request = http().get(running.url(path));
        let request = id
            .into_iter()
            .fold(request, |request, id| request.header("x-request-id", id));
        let answer = request.send().await.unwrap();
        answer.headers().get("x-request-id").cloned()
    };
    assert_eq!(ask("/thing", Some("mine")).await.unwrap(), "mine");
    assert_eq!(ask("/unknown", Some("mine")).await.unwrap(), "mine");
    assert_eq!(ask("/thing", None).await.unwrap().len(), 32);
    assert_ne!(ask("/thing", None).await, ask("/thing", None).await);
    // Probes are not looked up by anyone.
    assert_eq!(ask("/healthz", None).await, None);
}

/// RFC 9112, section 3.2.
#[tokio::test]
async fn a_request_of_http_1_1_has_one_host() {
    let running = start(Router::new().route("/thing", get(|| async { "thing" }))).await;
    for (version, hosts, status) in [
        ("1.1", "Host: x\r\n", "200"),
        ("1.1", "", "400"),
        ("1.1", "Host: x\r\nHost: y\r\n", "400"),
        ("1.0", "", "200"),
    ] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let request = format!("GET /thing HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{request}: {answer}");
    }
}
