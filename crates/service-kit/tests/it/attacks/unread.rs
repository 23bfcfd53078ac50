//! Requests that are refused before their body has arrived. `smuggling` tests that nothing is found
//! after a body with an uncertain end.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::bodies::{MOST, start};
use crate::support::TestServer;

/// Sends the head and then the body, which takes a while, and only then reads; then another request
/// on the same connection. Returns the responses.
async fn told(running: &TestServer, path: &str, body: usize) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(running.address).await?;
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {body}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let piece = vec![b'x'; body / 8];
    for _ in 0..8 {
        sleep(Duration::from_millis(10)).await;
        stream.write_all(&piece).await?;
    }
    stream
        .write_all(b"POST /extracts HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
        .await?;
    let mut answer = String::new();
    timeout(Duration::from_secs(20), stream.read_to_string(&mut answer)).await??;
    Ok(answer)
}

#[tokio::test]
async fn a_client_that_is_still_sending_gets_the_refusal() {
    let running = start().await;
    for (path, bytes, status) in [("/extracts", 2 * MOST, "413"), ("/nowhere", MOST / 2, "404")] {
        for _ in 0..4 {
            let answer = told(&running, path, bytes).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
            assert!(
                answer.ends_with("\r\n\r\n3"),
                "the next request is answered too: {answer}"
            );
        }
    }
}

#[tokio::test]
async fn a_body_without_an_end_is_not_read_for_ever() {
    let running = start().await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "POST /extracts HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        1_u64 << 40
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'x'; 1 << 20];
    let mut sent = 0;
    let sending = async {
        while stream.write_all(&piece).await.is_ok() {
            sent += 1;
        }
    };
    timeout(Duration::from_secs(60), sending).await.unwrap();
    // Bytes in the connection's buffers count as sent.
    assert!((64..128).contains(&sent), "{sent} MiB");
}
