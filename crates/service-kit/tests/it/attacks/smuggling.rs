//! Requests whose end two parsers would find in different places. This server must never find a
//! second request in what another parser treats as a body.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    routing::{get, post},
};
use bytes::Bytes;
use isomer_service_kit::server::ServerConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::support::{ScriptedEncoder, TestServer, services};

async fn start() -> (TestServer, Arc<AtomicUsize>) {
    let smuggled = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&smuggled);
    let routes = Router::new()
        .route("/echo", post(|body: Bytes| async move { body }))
        .route(
            "/smuggled",
            get(move || async move {
                seen.fetch_add(1, Ordering::SeqCst);
                "smuggled"
            }),
        );
    (
        TestServer::start(
            services(&ScriptedEncoder::default()).http(routes),
            ServerConfig::default(),
        )
        .await,
        smuggled,
    )
}

/// Time to wait for output of a server that refuses, or waits for more input.
const SILENT: Duration = Duration::from_millis(300);

/// All output until the server closes or is silent for this long.
async fn exchange(running: &TestServer, sent: &[u8], silent: Duration) -> String {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Ok(read)) = timeout(silent, stream.read(&mut buffer)).await {
        if read == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

const NEXT: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test]
async fn requests_with_two_meanings_smuggle_nothing() {
    let (running, smuggled) = start().await;
    let post = "POST /echo HTTP/1.1\r\nHost: x\r\n";
    for (what, head, body) in [
        (
            "both lengths",
            "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
            "0\r\n\r\n",
        ),
        (
            "both lengths, the other way",
            "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
            "0\r\n\r\n",
        ),
        (
            "two different lengths",
            "Content-Length: 0\r\nContent-Length: 40\r\n",
            "",
        ),
        ("two lengths in one", "Content-Length: 0, 40\r\n", ""),
        ("a length with a sign", "Content-Length: +0\r\n", ""),
        ("a negative length", "Content-Length: -1\r\n", ""),
        ("a hexadecimal length", "Content-Length: 0x0\r\n", ""),
        (
            "a length that overflows",
            "Content-Length: 18446744073709551616\r\n",
            "",
        ),
        ("a length with a space before the colon", "Content-Length : 0\r\n", ""),
        (
            "a coding with a space before the colon",
            "Transfer-Encoding : chunked\r\n",
            "0\r\n\r\n",
        ),
        ("an unknown coding", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        (
            "chunked, then something else",
            "Transfer-Encoding: chunked, identity\r\n",
            "0\r\n\r\n",
        ),
        (
            "chunked twice",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "0\r\n\r\n",
        ),
        ("a folded header", "X-A: b\r\n Content-Length: 0\r\n", ""),
        ("a folded coding", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"),
        ("a header without a name", ": 0\r\n", ""),
        ("a header with a NUL", "X-A: b\0c\r\n", ""),
        ("a lone carriage return", "X-A: b\rContent-Length: 40\r\n", ""),
        (
            "a chunk size with a sign",
            "Transfer-Encoding: chunked\r\n",
            "+0\r\n\r\n",
        ),
        (
            "a hexadecimal prefix in a chunk size",
            "Transfer-Encoding: chunked\r\n",
            "0x0\r\n\r\n",
        ),
        (
            "a chunk size that overflows",
            "Transfer-Encoding: chunked\r\n",
            "10000000000000000\r\n\r\n",
        ),
        (
            "a chunk that is longer than it says",
            "Transfer-Encoding: chunked\r\n",
            "1\r\nab\r\n0\r\n\r\n",
        ),
    ] {
        let answer = exchange(&running, format!("{post}{head}\r\n{body}{NEXT}").as_bytes(), SILENT).await;
        assert_eq!(smuggled.load(Ordering::SeqCst), 0, "{what}: {answer}");
        // The request is refused; or it is parsed as in RFC 9112, and the connection is closed
        // together with the remaining input.
        let first = answer.lines().next().unwrap_or_default();
        let closed = answer.contains("connection: close");
        assert!(first.is_empty() || first.contains(" 4") || closed, "{what}: {answer}");
        assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{what}: {answer}");
    }
}

#[tokio::test]
async fn a_coding_under_http_1_0_is_refused() {
    let (running, smuggled) = start().await;
    let sent = format!("POST /echo HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{NEXT}");
    let answer = exchange(&running, sent.as_bytes(), SILENT).await;
    assert_eq!(smuggled.load(Ordering::SeqCst), 0, "{answer}");
}

#[tokio::test]
async fn honest_requests_share_a_connection() {
    let (running, smuggled) = start().await;
    let post = "POST /echo HTTP/1.1\r\nHost: x\r\n";
    let last = "GET /smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for (head, body) in [
        ("Content-Length: 3\r\n", "abc"),
        ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
    ] {
        let answer = exchange(
            &running,
            format!("{post}{head}\r\n{body}{last}").as_bytes(),
            Duration::from_secs(60),
        )
        .await;
        assert!(answer.contains("abc") && answer.contains("smuggled"), "{answer}");
    }
    assert_eq!(smuggled.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn headers_beyond_all_measure_are_refused() {
    let (running, _) = start().await;
    let many: String = (0..200).map(|n| format!("X-{n}: 1\r\n")).collect();
    let long = format!("X-A: {}\r\n", "a".repeat(100 << 10));
    for head in [many, long] {
        let answer = exchange(
            &running,
            format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{head}\r\n").as_bytes(),
            SILENT,
        )
        .await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
}
