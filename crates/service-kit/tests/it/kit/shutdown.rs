#[cfg(target_os = "linux")]
use std::sync::{Arc, atomic::AtomicBool};
use std::{
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

#[cfg(unix)]
use futures::poll;
use isomer_service_kit::{
    client,
    server::{self, ServerConfig},
};
#[cfg(target_os = "linux")]
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ScriptedEncoder, StreamKind, TestServer, eventually, found, get, open, services};

fn grace(seconds: u64) -> ServerConfig {
    ServerConfig {
        shutdown_grace_seconds: seconds,
        ..ServerConfig::default()
    }
}

#[tokio::test]
async fn a_request_in_flight_is_answered_and_a_new_connection_refused() {
    let service = ScriptedEncoder::default();
    // Far longer than a test may take.
    let mut running = TestServer::start(services(&service), grace(3600)).await;
    let channel = running.connect().await;
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let channel = channel.clone();
            tokio::spawn(async move { get(&channel, format!("held:{n}")).await })
        })
        .collect();
    service.seen.begun(20).await;

    running.stop();
    let refused = async || TcpStream::connect(running.address).await.err();
    found("the port takes no connections", refused).await;
    assert!(!running.task.is_finished(), "the server ended with requests in flight");

    service.seen.release.notify_waiters();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), format!("held:{n}"));
    }
    // No request is in flight, so it does not wait for the end of the grace period.
    running.ended().await.unwrap();
}

#[tokio::test]
async fn the_end_comes_when_the_grace_is_over_whatever_is_in_flight() {
    let service = ScriptedEncoder::default();
    let mut running = TestServer::start(services(&service), grace(1)).await;
    let channel = running.connect().await;
    let mut stream = open(&channel, StreamKind::ONE_THEN_SILENCE).await.unwrap();
    stream.message().await.unwrap().unwrap();
    let held = tokio::spawn(async move { get(&channel, "held").await });
    service.seen.begun(2).await;

    let begun = Instant::now();
    running.stop();
    running.ended().await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(900),
        "the grace period was cut short"
    );
    held.await.unwrap().unwrap_err();
    stream.message().await.unwrap_err();
    let seen = &service.seen;
    eventually("the work is dropped", || seen.dropped.load(SeqCst) == 2).await;
}

#[tokio::test]
async fn an_idle_connection_does_not_delay_the_end() {
    let mut running = TestServer::start(services(&ScriptedEncoder::default()), grace(3600)).await;
    let channel = running.connect().await;
    get(&channel, "x").await.unwrap();
    let silent = TcpStream::connect(running.address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.stop();
    running.ended().await.unwrap();
    drop((channel, silent));
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_hands_its_port_over_to_the_next_one() {
    let shared = ServerConfig {
        reuse_port: true,
        ..grace(3600)
    };
    let (before, after) = (ScriptedEncoder::default(), ScriptedEncoder::default());
    let mut first = TestServer::start(services(&before), shared.clone()).await;
    let address = first.address;
    server::bind(&ServerConfig::at(address)).unwrap_err();
    let channel = first.connect().await;
    let held = tokio::spawn(async move { get(&channel, "held").await });
    before.seen.begun(1).await;

    let listen = ServerConfig {
        listen: address,
        ..shared
    };
    let _second = TestServer::listen(services(&after), listen).await;
    first.stop();
    // Until new connections go only to the second server, some still reach the first; they are
    // answered too.
    let here = client::ClientConfig::plain(address.to_string());
    while after.seen.begun.load(SeqCst) < 40 {
        get(&client::connect(&here).await.unwrap(), "x").await.unwrap();
    }
    assert!(!first.task.is_finished(), "it left a request behind");
    before.seen.release.notify_waiters();
    assert_eq!(held.await.unwrap().unwrap(), "held");
    first.ended().await.unwrap();
}

/// Sends a request over its own connection, which the server closes after the answer.
#[cfg(target_os = "linux")]
async fn ask_once(address: std::net::SocketAddr) -> std::io::Result<()> {
    let mut connection = TcpStream::connect(address).await?;
    connection
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    // A draining server announces it in a complete response.
    if answer.starts_with("HTTP/1.1 ") && answer.contains("\r\n\r\n") {
        return Ok(());
    }
    Err(std::io::Error::other(format!("answered {answer:?}")))
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_port_that_changes_hands_resets_no_connection() {
    let shared = ServerConfig {
        reuse_port: true,
        ..grace(60)
    };
    let mut serving = TestServer::start(services(&ScriptedEncoder::default()), shared.clone()).await;
    let address = serving.address;
    let listen = ServerConfig {
        listen: address,
        ..shared
    };
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let over = Arc::clone(&over);
            tokio::spawn(async move {
                let mut asked = 0;
                while !over.load(SeqCst) || asked < 200 {
                    ask_once(address)
                        .await
                        .unwrap_or_else(|error| panic!("request {asked}: {error}"));
                    asked += 1;
                }
            })
        })
        .collect();
    for older in [true, true, false, true] {
        let mut next = TestServer::listen(services(&ScriptedEncoder::default()), listen.clone()).await;
        // The server that leaves may also be the newer one.
        if older {
            std::mem::swap(&mut serving, &mut next);
        }
        next.stop();
        next.ended().await.unwrap();
    }
    over.store(true, SeqCst);
    for client in clients {
        client.await.unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn sigterm_completes_the_signal() {
    let mut signal = Box::pin(isomer_service_kit::shutdown::signal());
    // The handler is installed at the first poll.
    assert!(poll!(&mut signal).is_pending());
    let me = std::process::id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &me])
            .status()
            .unwrap()
            .success()
    );
    tokio::time::timeout(Duration::from_secs(60), signal).await.unwrap();
}
