//! Calls the health and reflection services over Connect.
#![allow(clippy::unwrap_used)]

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use futures::StreamExt;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::codec::{END, Frame, framed};
use crate::{LimitsConfig, Services, layers::Via};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

fn server() -> axum::Router {
    let limits = LimitsConfig {
        max_message_bytes: 4096,
        ..LimitsConfig::default()
    };
    Services::new().web(&[]).assemble(&limits, Via::Network).unwrap().router
}

async fn post(path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> (StatusCode, http::HeaderMap, Bytes) {
    let request = headers.iter().fold(Request::post(path), |request, (name, value)| {
        request.header(*name, *value)
    });
    let response = server().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
}

fn read(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(body)))
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn a_unary_call_in_json_and_in_protobuf() {
    let (status, headers, body) = post(CHECK, &[JSON, ("connect-protocol-version", "1")], "{}").await;
    assert_eq!((status, read(&body)), (StatusCode::OK, json!({ "status": "SERVING" })));
    assert_eq!(headers["content-type"], "application/json");
    assert!(
        headers.keys().all(|name| !name.as_str().starts_with("grpc-")),
        "{headers:?}"
    );
    let (status, headers, body) = post(CHECK, &[("content-type", "application/proto")], "").await;
    // Field 1, the value 1.
    assert_eq!((status, &body[..]), (StatusCode::OK, &[8, 1][..]));
    assert_eq!(headers["content-type"], "application/proto");
}

#[tokio::test]
async fn failures_have_the_codes_of_the_protocol() {
    let (status, headers, body) = post(CHECK, &[JSON], r#"{"service":"nobody"}"#).await;
    assert_eq!(
        (status, &headers["content-type"]),
        (StatusCode::NOT_FOUND, &"application/json".parse().unwrap())
    );
    assert_eq!(read(&body)["code"], "not_found");
    for (body, why) in [
        (r#"{"servce":"a"}"#, "servce"),
        ("{} {}", "trailing"),
        ("{", "cannot be read"),
    ] {
        let (status, _, answered) = post(CHECK, &[JSON], body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let answered = read(&answered);
        assert_eq!(answered["code"], "invalid_argument");
        assert!(answered["message"].as_str().unwrap().contains(why), "{answered}");
    }
    let (status, _, body) = post(CHECK, &[JSON, ("connect-timeout-ms", "soon")], "{}").await;
    assert_eq!(
        (status, &read(&body)["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_argument"))
    );
    let detail = &read(&body)["details"][0];
    assert!(detail["type"].as_str().unwrap().starts_with("google.rpc."), "{detail}");
    let (status, _, _) = post(CHECK, &[("content-type", "application/connect+json")], "").await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let (status, _, _) = post("/grpc.health.v1.Health/Chek", &[JSON], "{}").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

#[tokio::test]
async fn compressed_bodies_are_read_up_to_the_limit() {
    let packed = [JSON, ("content-encoding", "gzip")];
    let (status, _, body) = post(CHECK, &packed, gzip(b"{}")).await;
    assert_eq!((status, &read(&body)["status"]), (StatusCode::OK, &json!("SERVING")));
    let bomb = gzip(&vec![b' '; 10 << 20]);
    assert!(bomb.len() < 16 << 10);
    for (headers, body) in [(&packed[..], gzip(&vec![b' '; 5000])), (&[JSON][..], vec![b' '; 5000])] {
        let (status, _, body) = post(CHECK, headers, body).await;
        assert_eq!(
            status,
            StatusCode::TOO_MANY_REQUESTS,
            "{}",
            String::from_utf8_lossy(&body)
        );
    }
    let (status, _, body) = post(CHECK, &[JSON, ("content-encoding", "br")], "{}").await;
    assert_eq!(
        (status, &read(&body)["code"]),
        (StatusCode::NOT_IMPLEMENTED, &json!("unimplemented"))
    );
}

#[tokio::test]
async fn a_stream_answers_in_envelopes_and_ends_with_its_status() {
    let stream = [("content-type", "application/connect+json")];
    let asked = framed(0, br#"{"listServices":""}"#);
    let twice = [asked.clone(), asked].concat();
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let (status, headers, body) = post(path, &stream, twice).await;
    assert_eq!(
        (status, &headers["content-type"]),
        (StatusCode::OK, &"application/connect+json".parse().unwrap())
    );
    let mut body = BytesMut::from(body);
    for _ in 0..2 {
        let frame = Frame::take(&mut body, usize::MAX).unwrap().unwrap();
        assert_eq!(frame.flags, 0);
        let listed = read(&frame.message)["listServicesResponse"]["service"].to_string();
        assert!(listed.contains("grpc.health.v1.Health"), "{listed}");
    }
    let last = Frame::take(&mut body, usize::MAX).unwrap().unwrap();
    assert_eq!((last.flags, read(&last.message)), (END, json!({})));
    assert!(body.is_empty());

    // An unreadable message ends the call, not the connection.
    for (broken, why) in [
        (framed(0, b"{"), "invalid_argument"),
        (framed(1, b"{}"), "invalid_argument"),
        (framed(0, &[b' '; 5000]), "resource_exhausted"),
    ] {
        let (status, _, body) = post(path, &stream, broken).await;
        assert_eq!(status, StatusCode::OK);
        let mut body = BytesMut::from(body);
        let last = Frame::take(&mut body, usize::MAX).unwrap().unwrap();
        assert_eq!((last.flags, &read(&last.message)["error"]["code"]), (END, &json!(why)));
    }
}

#[tokio::test]
async fn a_server_stream_comes_message_by_message() {
    let request = Request::post(WATCH).header("content-type", "application/connect+json");
    let response = server()
        .oneshot(request.body(Body::from(framed(0, b"{}"))).unwrap())
        .await
        .unwrap();
    // The watch stays open; its first message arrives at once.
    let first = response
        .into_body()
        .frame()
        .await
        .unwrap()
        .unwrap()
        .into_data()
        .unwrap();
    let mut first = BytesMut::from(first);
    let frame = Frame::take(&mut first, usize::MAX).unwrap().unwrap();
    assert_eq!(read(&frame.message), json!({ "status": "SERVING" }));
}

#[test]
fn timeouts_keep_their_length() {
    let grpc = |text: &str| super::grpc_timeout(&text.parse().unwrap()).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(grpc("1500").unwrap(), "1500m");
    assert_eq!(grpc("99999999").unwrap(), "99999999m");
    assert_eq!(grpc("9999999999").unwrap(), "10000000S");
    for wrong in ["", "-1", "1.5", "12345678901"] {
        assert!(grpc(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn what_is_sent_without_a_message_for_it_is_not_read() {
    // No handler reads the body of a method that is not served, so its length does not matter.
    let endless = futures::stream::iter(
        (0..u64::MAX).map(|_| Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b' '; 1024]))),
    );
    let request = Request::post("/isomer.encoder.v1.EncoderService/Encode").header("content-type", "application/json");
    let response = server()
        .oneshot(request.body(Body::from_stream(endless)).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::NOT_IMPLEMENTED);
}

#[tokio::test]
async fn many_values_in_few_bytes_are_refused() {
    let limits = LimitsConfig {
        max_message_bytes: 16 << 20,
        ..LimitsConfig::default()
    };
    let server = Services::new().web(&[]).assemble(&limits, Via::Network).unwrap().router;
    let list = format!("{{\"service\":[{}\"\"]}}", "\"\",".repeat(2_000_000));
    let request = Request::post(CHECK).header("content-type", "application/json");
    let response = server.oneshot(request.body(Body::from(list)).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(
        read(&body)["message"].as_str().unwrap().contains("values"),
        "{}",
        read(&body)
    );
}

/// The largest message of these tests.
const MOST: usize = 16 << 20;

/// A body in chunks, and how many bytes of it were taken. It never ends.
fn chunks(first: Bytes, of: usize) -> (Body, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let chunk = Bytes::from(vec![b' '; 16 << 10]);
    let all = std::iter::once(first).chain(std::iter::repeat_n(chunk, of / (16 << 10)));
    let all = all.map(move |chunk| {
        counted.fetch_add(chunk.len(), Ordering::Relaxed);
        Ok::<_, std::convert::Infallible>(chunk)
    });
    let endless = futures::stream::iter(all).chain(futures::stream::pending());
    (Body::from_stream(endless), taken)
}

#[tokio::test]
async fn the_memory_of_a_message_is_reserved_while_it_arrives() {
    // The smallest budget: four times the largest message.
    let limits = LimitsConfig {
        max_message_bytes: MOST,
        max_bytes_in_flight: 1,
        ..LimitsConfig::default()
    };
    let server = Services::new().web(&[]).assemble(&limits, Via::Network).unwrap().router;
    let request = |path: &str, kind: &str, body: Body| {
        let request = Request::post(path).header("content-type", kind);
        server.clone().oneshot(request.body(body).unwrap())
    };
    let envelope = framed(0, &vec![b' '; MOST]).slice(..5);
    for (path, kind, first) in [
        (CHECK, "application/json", Bytes::new()),
        (CHECK, "application/proto", Bytes::new()),
        (WATCH, "application/connect+json", envelope.clone()),
        (WATCH, "application/connect+proto", envelope),
    ] {
        // One caller has sent three quarters of a message, and waits.
        let (body, taken) = chunks(first.clone(), MOST / 4 * 3);
        let waiting = tokio::spawn(request(path, kind, body));
        while taken.load(Ordering::Relaxed) < MOST / 4 * 3 {
            tokio::task::yield_now().await;
        }
        let (body, taken) = chunks(first, MOST);
        let response = request(path, kind, body).await.unwrap();
        let answer = response.into_body().collect().await.unwrap().to_bytes();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains("resource_exhausted"), "{kind}: {answer}");
        let taken = taken.load(Ordering::Relaxed);
        assert!(taken <= MOST / 4 + (64 << 10), "{kind}: {taken} bytes were read");
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
    }
}
