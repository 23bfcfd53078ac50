//! Connections that send nothing, or send it slowly.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use isomer_service_kit::{LimitsConfig, server::ServerConfig};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::resident;
use crate::support::{ScriptedEncoder, TestServer, found, get, http, services};

/// The bytes that the connections send: nothing; part of a request; all of one except its last
/// line; part of HTTP/2's preface; all of it, with empty settings.
const BEGINNINGS: [&[u8]; 5] = [
    b"",
    b"GE",
    b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n",
    b"PRI * HTTP/2.0\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
];

async fn start(limits: LimitsConfig) -> TestServer {
    let config = ServerConfig {
        limits,
        ..ServerConfig::default()
    };
    TestServer::start(services(&ScriptedEncoder::default()), config).await
}

async fn slow(address: std::net::SocketAddr, wanted: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for n in 0..wanted {
        // If fewer files may be open, fewer connections are made.
        let Ok(mut stream) = TcpStream::connect(address).await else {
            break;
        };
        stream.write_all(BEGINNINGS[n % BEGINNINGS.len()]).await.unwrap();
        streams.push(stream);
    }
    streams
}

/// The durations of requests, each on its own connection, in order.
async fn honest(running: &TestServer, requests: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..requests {
        let begun = Instant::now();
        let answer = http().get(running.url("/healthz")).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "ok\n");
        times.push(begun.elapsed());
    }
    times.sort();
    times
}

async fn metric(running: &TestServer, name: &str) -> f64 {
    let text = http()
        .get(running.url("/metrics"))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    line.unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_slow_connections_stop_nobody() {
    let limits = LimitsConfig {
        first_request_seconds: 3600,
        ..LimitsConfig::default()
    };
    let running = start(limits).await;
    let channel = running.connect().await;
    get(&channel, "x").await.unwrap();
    let before = resident();
    let streams = slow(running.address, 2000).await;
    assert!(streams.len() >= 200, "only {} connections", streams.len());
    let each = resident().saturating_sub(before) / streams.len() as u64;
    assert!(each < 100 << 10, "{each} bytes for each connection");
    honest(&running, 20).await;
    get(&channel, "x").await.expect("a connection that is in use stays");
    let open = metric(&running, "isomer_server_open_connections ").await;
    assert!(open >= streams.len() as f64, "the slow ones are open meanwhile: {open}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_connections_are_closed_and_those_in_use_are_not() {
    let limits = LimitsConfig {
        first_request_seconds: 3,
        ..LimitsConfig::default()
    };
    let running = start(limits).await;
    let channel = running.connect().await;
    get(&channel, "x").await.unwrap();
    for (n, stream) in slow(running.address, 200).await.iter_mut().enumerate() {
        let mut answer = Vec::new();
        let ended = timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "connection {n} is still open");
    }
    get(&channel, "x").await.expect("idle for a few seconds only");
}

#[tokio::test]
async fn a_drip_does_not_keep_a_connection_open() {
    let limits = LimitsConfig {
        first_request_seconds: 1,
        ..LimitsConfig::default()
    };
    let running = start(limits).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ";
    let mut drips = request.iter().chain(std::iter::repeat(&b'a'));
    let closed = async || stream.write_all(&[*drips.next()?]).await.err();
    found("a byte now and then does not keep it open", closed).await;
}

#[tokio::test]
async fn idle_connections_close_and_long_calls_do_not() {
    let limits = LimitsConfig {
        first_request_seconds: 1,
        idle_seconds: 1,
        ..LimitsConfig::default()
    };
    let running = start(limits).await;
    let (channel, other) = (running.connect().await, running.connect().await);
    let long = get(&channel, "slow:2500");
    get(&other, "x").await.unwrap();
    assert_eq!(
        long.await.unwrap(),
        "slow:2500",
        "longer than any connection may be idle"
    );
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // Only the connection that reads the metrics.
    assert!(metric(&running, "isomer_server_open_connections ").await >= 1.0);
    assert_eq!(
        get(&other, "x").await.unwrap(),
        "x",
        "a client makes its connection again"
    );
}

#[tokio::test]
async fn beyond_the_bound_connections_are_closed_at_once() {
    let limits = LimitsConfig {
        max_connections: 8,
        first_request_seconds: 60,
        ..LimitsConfig::default()
    };
    let running = start(limits).await;
    let mut streams = slow(running.address, 8).await;
    let mut refused = TcpStream::connect(running.address).await.unwrap();
    let mut nothing = Vec::new();
    let closed = timeout(Duration::from_secs(30), refused.read_to_end(&mut nothing)).await;
    closed.expect("closed at once").ok();
    assert!(nothing.is_empty());
    drop(streams.pop());
    let answered = async || http().get(running.url("/healthz")).send().await.ok();
    found("the permit that was given back is given out again", answered).await;
    assert!(metric(&running, "isomer_server_refused_connections_total ").await >= 1.0);
}

/// Run by hand: `cargo test -p isomer-service-kit --test it -- --ignored --exact
/// attacks::slow::ten_thousand_slow_connections --nocapture`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "opens ten thousand connections from a process of their own"]
async fn ten_thousand_slow_connections() {
    let limits = LimitsConfig {
        first_request_seconds: 10,
        ..LimitsConfig::default()
    };
    let running = start(limits).await;
    let channel = running.connect().await;
    get(&channel, "x").await.unwrap();
    let quiet = honest(&running, 200).await;
    let before = resident();
    let mut attacker = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "attacks::slow::the_attacker", "--nocapture"])
        .env("ATTACKED", running.address.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(attacker.stdout.take().unwrap()).lines();
    let opened = tokio::task::spawn_blocking(move || {
        let mut numbers = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("opened ")?.parse::<usize>().ok());
        numbers.next()
    });
    assert_eq!(opened.await.unwrap(), Some(10_000));
    let grown = resident().saturating_sub(before);
    let times = honest(&running, 200).await;
    get(&channel, "x").await.unwrap();
    println!(
        "10000 slow connections: {} MiB, {} KiB each; honest requests p50 {:?} p99 {:?} (before: {:?}, {:?})",
        grown >> 20,
        grown / (10_000 << 10),
        times[100],
        times[198],
        quiet[100],
        quiet[198]
    );
    assert!(grown < 1 << 30 && times[198] < Duration::from_secs(1));
    tokio::time::sleep(Duration::from_secs(12)).await;
    let open = metric(&running, "isomer_server_open_connections ").await;
    assert!(open < 10.0, "{open} connections are still open");
    attacker.stdin.take().unwrap().write_all(b"end\n").ok();
    attacker.wait().unwrap();
}

/// The other process of [`ten_thousand_slow_connections`]; does nothing when run alone.
#[tokio::test]
#[ignore = "a part of ten_thousand_slow_connections"]
async fn the_attacker() {
    let Ok(address) = std::env::var("ATTACKED") else { return };
    let streams = slow(address.parse().unwrap(), 10_000).await;
    println!("opened {}", streams.len());
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await;
}
