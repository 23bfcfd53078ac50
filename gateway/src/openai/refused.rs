//! Tests that refusals outside a handler also have OpenAI's format below `/v1/` and `/openai/`.
#![allow(clippy::unwrap_used)]

use std::{net::SocketAddr, sync::Arc};

use futures::stream;
use http::{Method, StatusCode, header, request::Parts};
use isomer_service_kit::{
    Authenticator, Fault, LimitsConfig, Services,
    server::{self, ServerConfig},
    tls,
};
use reqwest::{Body, Client, Response};
use serde_json::{Value, json};
use tonic::Code;

use super::{add, tests::backends};

const MOST: usize = 4096;

/// Refuses requests with a header `stranger`.
#[derive(Debug)]
struct NoStrangers;

#[tonic::async_trait]
impl Authenticator for NoStrangers {
    async fn admit(&self, parts: &mut Parts) -> Result<(), Fault> {
        match parts.headers.contains_key("stranger") {
            true => Err(Fault::new(Code::Unauthenticated, "NO_KEY", "this server wants a key")),
            false => Ok(()),
        }
    }

    fn challenge(&self, path: &str) -> Option<&'static str> {
        Some(if path.starts_with("/v1/") { "Bearer" } else { "Basic" })
    }
}

struct Front {
    address: SocketAddr,
    client: Client,
}

impl Front {
    async fn start() -> Self {
        tls::install_crypto();
        let config = ServerConfig {
            limits: LimitsConfig {
                max_message_bytes: MOST,
                ..LimitsConfig::default()
            },
            ..ServerConfig::default()
        };
        let services = add(Services::new(), backends().await).authenticator(Arc::new(NoStrangers));
        let listener = server::bind(&server::ServerConfig::at(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { server::serve(services, &config, listener, std::future::pending()).await });
        Self {
            address,
            client: Client::new(),
        }
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
        let request = self.client.request(method, format!("http://{}{path}", self.address));
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(body).send().await.unwrap()
    }
}

async fn error_of(answer: Response) -> Value {
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
    let body: Value = answer.json().await.unwrap();
    // OpenAI's format, and a message in the field that Voyage's clients read.
    assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
    assert_eq!(body["detail"], body["error"]["message"]);
    body["error"].clone()
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn what_no_handler_sees_is_refused_in_openais_shape() {
    let front = Front::start().await;
    let large = || "x".repeat(MOST + 1);
    let coded = [JSON, ("content-encoding", "gzip")];
    let stranger = [JSON, ("stranger", "yes")];
    for (method, path, headers, body, status, kind, param, code, word) in [
        (
            Method::POST,
            "/v1/embeddings",
            &[JSON][..],
            large(),
            413,
            "invalid_request_error",
            json!(null),
            "request_too_large",
            "4096 bytes",
        ),
        (
            Method::POST,
            "/v1/rerank",
            &coded,
            "x".to_owned(),
            415,
            "invalid_request_error",
            json!("content-encoding"),
            "unsupported_media_type",
            "uncompressed",
        ),
        (
            Method::POST,
            "/v1/rerank",
            &[],
            "x".to_owned(),
            415,
            "invalid_request_error",
            json!(null),
            "unsupported_media_type",
            "application/json",
        ),
        (
            Method::GET,
            "/v1/embeddings",
            &[JSON],
            String::new(),
            405,
            "invalid_request_error",
            json!(null),
            "method_not_allowed",
            "`Allow`",
        ),
        (
            Method::GET,
            "/v1/completions",
            &[],
            String::new(),
            404,
            "invalid_request_error",
            json!(null),
            "no_such_path",
            "/v1/completions",
        ),
        (
            Method::POST,
            "/openai/deployments/one/chat/completions",
            &[JSON],
            "{}".to_owned(),
            404,
            "invalid_request_error",
            json!(null),
            "no_such_path",
            "/openai/deployments/one/chat/completions",
        ),
        (
            Method::GET,
            "/openai/deployments/one/embeddings",
            &[],
            String::new(),
            405,
            "invalid_request_error",
            json!(null),
            "method_not_allowed",
            "`Allow`",
        ),
        (
            Method::POST,
            "/openai/deployments/one/embeddings",
            &[JSON],
            large(),
            413,
            "invalid_request_error",
            json!(null),
            "request_too_large",
            "4096 bytes",
        ),
        (
            Method::GET,
            "/v1/models/%FF",
            &[],
            String::new(),
            400,
            "invalid_request_error",
            json!("model"),
            "invalid_argument",
            "UTF-8",
        ),
        (
            Method::POST,
            "/v1/embeddings",
            &stranger,
            String::new(),
            401,
            "authentication_error",
            json!(null),
            "no_key",
            "wants a key",
        ),
    ] {
        let answer = front.send(method, path, headers, body).await;
        assert_eq!(answer.status().as_u16(), status, "{path}");
        let challenge = answer.headers().get(header::WWW_AUTHENTICATE).cloned();
        assert_eq!(challenge.is_some_and(|challenge| challenge == "Bearer"), status == 401);
        let allowed = answer.headers().get(header::ALLOW).cloned();
        assert_eq!(allowed.is_some_and(|allowed| allowed == "POST"), status == 405);
        let error = error_of(answer).await;
        assert_eq!(
            (&error["type"], &error["param"], &error["code"]),
            (&json!(kind), &param, &json!(code)),
            "{path}: {error}"
        );
        assert!(error["message"].as_str().unwrap().contains(word), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_say_its_length_is_refused_alike() {
    let front = Front::start().await;
    let chunks = stream::iter((0..8).map(|_| Ok::<_, std::io::Error>("x".repeat(MOST / 4))));
    let answer = front
        .send(Method::POST, "/v1/embeddings", &[JSON], Body::wrap_stream(chunks))
        .await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(error_of(answer).await["code"], "request_too_large");
}

#[tokio::test]
async fn elsewhere_a_sentence_says_it() {
    let front = Front::start().await;
    for (path, headers, status) in [
        ("/nowhere", &[][..], 404),
        ("/healthz", &[("content-encoding", "br")], 415),
        ("/nowhere", &[("stranger", "yes")], 401),
    ] {
        let answer = front.send(Method::GET, path, headers, "").await;
        assert_eq!(answer.status().as_u16(), status, "{path}");
        assert_eq!(
            answer.headers()[header::CONTENT_TYPE],
            "text/plain; charset=utf-8",
            "{path}"
        );
    }
}

/// Azure's current addresses, which groq's clients use, and a slash at the end.
#[tokio::test]
async fn azures_current_addresses_are_those_of_openai() {
    let front = Front::start().await;
    let body = json!({ "model": "one", "input": "four" }).to_string();
    for path in [
        "/v1/embeddings",
        "/v1/embeddings/",
        "/openai/v1/embeddings",
        "/openai/v1/embeddings/?api-version=preview",
        "/openai/deployments/one/embeddings/",
    ] {
        let answer = front.send(Method::POST, path, &[JSON], body.clone()).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["data"][0]["embedding"], json!([4.0, 1.0]), "{path}");
    }
    let ranking = json!({ "model": "one", "query": "q", "documents": ["a"] }).to_string();
    let answer = front.send(Method::POST, "/openai/v1/rerank", &[JSON], ranking).await;
    assert_eq!(answer.status(), StatusCode::OK);
    for path in ["/v1/models", "/v1/models/", "/openai/v1/models", "/openai/models"] {
        let answer: Value = front.send(Method::GET, path, &[], "").await.json().await.unwrap();
        assert_eq!(answer["data"][0]["id"], "one", "{path}");
    }
    let one: Value = front
        .send(Method::GET, "/openai/v1/models/org/two", &[], "")
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(one["id"], "org/two");
    // A base URL without `/v1`.
    let unknown = front.send(Method::POST, "/embeddings", &[JSON], body).await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
    assert!(unknown.text().await.unwrap().contains("/v1/embeddings"));
}
