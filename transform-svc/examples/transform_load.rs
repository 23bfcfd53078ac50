//! The service under load: `cargo run --release -p isomer-transform --example transform_load [--
//! goals|faults|queue]`.
//!
//! Against a stub of an OpenAI-compatible server in this process that answers after 50 ms:
//!
//! 1. 2,000 texts at concurrency 64, beside the ideal (2000 / 64 · 50 ms); the overhead of a
//!    request in wall and processor time (the stub's and the client's work included, since they run
//!    here).
//! 2. The same texts again, from the cache.
//! 3. The same against a server that fails one call in five (500, 429 with Retry-After, no answer,
//!    broken JSON), with a timeout of one second: every text must end in a stated outcome.
//! 4. 100,000 texts queued at a server that never answers: memory per text.
//!
//! Exits with 1 if a goal is missed.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unreachable_pub, reason = "shared with the tests of the service")]
#[path = "../tests/it/support.rs"]
mod support;

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use isomer_proto::transform::v1::{TextItem, TransformRequest, TransformResponse, TransformStreamRequest};
use isomer_stubs::openai::{Answer, Stub};
use support::{Client, client, config, paraphrase};

const TEXTS: usize = 2_000;
const CONCURRENCY: usize = 64;
const LATENCY: Duration = Duration::from_millis(50);
const QUEUED: usize = 100_000;

/// Longest time, as a multiple of the ideal.
const GOAL_FRESH: f64 = 1.15;
/// Fewest texts a second from the cache.
const GOAL_CACHED: f64 = 20_000.0;

fn items(count: usize) -> Vec<TextItem> {
    let who = [
        "A man",
        "The nurse",
        "My sister",
        "An old dog",
        "The committee",
        "The engineer",
    ];
    let what = [
        "plays a guitar",
        "repairs a window",
        "saw a train",
        "sells a house",
        "found some keys",
    ];
    (0..count)
        .map(|n| TextItem {
            id: n.to_string(),
            text: format!("{} {} on street number {n} of the town.", who[n % 6], what[n / 6 % 5]),
            language: None,
        })
        .collect()
}

/// A figure of this process from `/proc`; 0 if there is none.
fn process(file: &str, read: impl Fn(&str) -> Option<f64>) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    read(&text).unwrap_or_default()
}

fn processor_seconds() -> f64 {
    process("stat", |stat| {
        let fields = stat.rsplit(") ").next()?.split(' ');
        Some(
            fields
                .skip(11)
                .take(2)
                .filter_map(|field| field.parse::<f64>().ok())
                .sum::<f64>()
                / 100.0,
        )
    })
}

fn resident_mib() -> f64 {
    process("status", |status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
    })
}

async fn a_client(stub: &Stub, home: &Path, timeout: f64) -> Client {
    let mut config = config(stub, home);
    let generator = config.generators.get_mut("stub").unwrap();
    generator.concurrency = CONCURRENCY;
    generator.timeout_seconds = timeout;
    client(config, home)
        .await
        .max_decoding_message_size(256 << 20)
        .max_encoding_message_size(256 << 20)
}

async fn ask(client: &mut Client, items: Vec<TextItem>) -> (TransformResponse, f64, f64) {
    let (began, processor) = (Instant::now(), processor_seconds());
    let request = TransformRequest {
        spec: Some(paraphrase()),
        items,
        ..Default::default()
    };
    let response = client.transform(request).await.unwrap().into_inner();
    (response, began.elapsed().as_secs_f64(), processor_seconds() - processor)
}

fn ideal(calls: usize) -> f64 {
    calls as f64 / CONCURRENCY as f64 * LATENCY.as_secs_f64()
}

/// Goals for fresh and for cached texts.
async fn goals() -> bool {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Slow(LATENCY, Box::new(Answer::Good))).await;
    let mut client = a_client(&stub, home.path(), 30.0).await;
    ask(&mut client, items(1)).await;
    let (response, wall, processor) = ask(&mut client, items(TEXTS)).await;
    let summary = response.summary.unwrap();
    let calls = stub.calls() - 1;
    let ratio = wall / ideal(TEXTS);
    println!(
        "fresh:  {TEXTS} texts, concurrency {CONCURRENCY}: {wall:.3} s, {ratio:.3} of the ideal {:.3} s; {calls} calls, {} ok; \
         overhead a request {:.0} µs wall, {:.0} µs processor",
        ideal(TEXTS),
        summary.ok,
        (wall - ideal(calls)) / calls as f64 * 1e6,
        processor / calls as f64 * 1e6,
    );
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let (response, wall, _) = ask(&mut client, items(TEXTS)).await;
        assert_eq!(response.summary.unwrap().cache_hits, TEXTS as u64);
        best = best.max(TEXTS as f64 / wall);
        println!(
            "cached: {TEXTS} texts in {:.1} ms, {:.0} texts/s",
            wall * 1e3,
            TEXTS as f64 / wall
        );
    }
    ratio <= GOAL_FRESH && best >= GOAL_CACHED
}

async fn faults() -> bool {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::OneInFiveFails(LATENCY)).await;
    let mut client = a_client(&stub, home.path(), 1.0).await;
    let (response, wall, _) = ask(&mut client, items(TEXTS)).await;
    let summary = response.summary.unwrap();
    let stated = response
        .results
        .iter()
        .filter(|result| {
            let made = matches!(result.outcome, 1 | 2) && result.error.is_empty();
            let kept = result.outcome == 3 && !result.error.is_empty() && !result.failed_checks.is_empty();
            made || kept
        })
        .count();
    println!(
        "faults: {TEXTS} texts, one call in five fails: {wall:.2} s, {} calls; {} ok, {} recovered, {} kept original, {} failed; \
         {stated} with a stated outcome",
        stub.calls(),
        summary.ok,
        summary.recovered,
        summary.kept_original,
        summary.failed,
    );
    stated == TEXTS
}

async fn queue() -> bool {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Hang).await;
    let mut client = a_client(&stub, home.path(), 600.0).await;
    let before = resident_mib();
    let items = items(QUEUED);
    let bytes: usize = items.iter().map(|item| item.text.len()).sum();
    let request = TransformStreamRequest {
        spec: Some(paraphrase()),
        items,
        ..Default::default()
    };
    let stream = client.transform_stream(request).await.unwrap();
    stub.wait_for_calls(CONCURRENCY).await;
    let grown = resident_mib() - before;
    println!(
        "queue:  {QUEUED} texts ({:.1} MiB) waiting, {CONCURRENCY} of them at the server: {grown:.0} MiB more resident, {:.0} bytes a text",
        bytes as f64 / f64::from(1 << 20),
        grown * f64::from(1 << 20) / QUEUED as f64,
    );
    drop(stream);
    stub.wait_until_idle().await;
    println!("queue:  dropped by its client: no call in flight any more");
    true
}

#[tokio::main]
async fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |part: &str| only.is_empty() || only.iter().any(|name| name == part);
    let mut met = true;
    if wanted("goals") {
        met &= goals().await;
    }
    if wanted("faults") {
        met &= faults().await;
    }
    if wanted("queue") {
        met &= queue().await;
    }
    println!("{}", if met { "every goal is met" } else { "a goal is missed" });
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
