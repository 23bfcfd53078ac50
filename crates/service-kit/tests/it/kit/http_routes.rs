use axum::{
    Router,
    routing::{get, post},
};
use isomer_service_kit::{LimitsConfig, server::ServerConfig};

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
