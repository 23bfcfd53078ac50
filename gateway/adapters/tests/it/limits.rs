//! Requests that are larger or more frequent than a provider accepts.

use std::time::Duration;

use isomer_proto::gateway::v1::{ProviderKind, ProviderLimits};
use tokio::time::Instant;
use tonic::Code;

use crate::support::{Reply, Stub, connect, listed, of, provider, rows, texts, vectors};

#[tokio::test]
async fn a_large_request_goes_in_pieces_and_comes_back_in_order() {
    // The first parts are answered last.
    let stub = Stub::start(|call| {
        let first: u64 = texts(&call.body["input"])[0].parse().unwrap();
        Reply::ok(listed(call)).after(Duration::from_millis(60_u64.saturating_sub(first * 3)))
    })
    .await;
    let mut limited = provider(ProviderKind::Openai, &stub.address);
    limited.limits = Some(ProviderLimits {
        max_batch_items: 3,
        ..ProviderLimits::default()
    });
    let all: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let answer = connect(&limited).encode(of(&all), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&all));
    assert_eq!(answer.usage.unwrap().tokens, 7 * 20);
    assert_eq!(answer.token_counts.len(), 20);
    let sizes: Vec<usize> = stub
        .calls()
        .iter()
        .map(|call| texts(&call.body["input"]).len())
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), 20);
    assert!(sizes.iter().all(|size| *size <= 3), "{sizes:?}");
}

#[tokio::test]
async fn pieces_hold_the_limit_of_tokens() {
    let stub = Stub::start(|call| Reply::ok(listed(call))).await;
    let mut limited = provider(ProviderKind::Openai, &stub.address);
    limited.limits = Some(ProviderLimits {
        max_batch_tokens: 12,
        ..ProviderLimits::default()
    });
    // The estimate is 4 tokens each: two for six bytes, and two special tokens.
    let answer = connect(&limited).encode(of(&["abcdef"; 7]), None).await.unwrap();
    assert_eq!(rows(&answer).len(), 7);
    let sizes: Vec<usize> = stub
        .calls()
        .iter()
        .map(|call| texts(&call.body["input"]).len())
        .collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().all(|size| *size <= 3), "{sizes:?}");
}

#[tokio::test]
async fn no_more_calls_are_under_way_than_the_provider_takes() {
    let stub = Stub::start(|call| Reply::ok(listed(call)).after(Duration::from_millis(20))).await;
    let mut limited = provider(ProviderKind::Openai, &stub.address);
    limited.limits = Some(ProviderLimits {
        max_batch_items: 1,
        max_concurrency: 2,
        ..ProviderLimits::default()
    });
    let backend = connect(&limited);
    let calls = (0..4).map(|_| backend.encode(of(&["a", "b", "c"]), None));
    futures::future::try_join_all(calls).await.unwrap();
    assert_eq!(stub.calls().len(), 12);
    assert_eq!(stub.most_unanswered(), 2);
}

#[tokio::test]
async fn a_rate_is_kept_and_a_caller_who_cannot_wait_is_told_how_long() {
    let stub = Stub::start(|call| Reply::ok(listed(call))).await;
    let mut limited = provider(ProviderKind::Openai, &stub.address);
    limited.limits = Some(ProviderLimits {
        requests_per_second: 10.0,
        ..ProviderLimits::default()
    });
    let backend = connect(&limited);
    let start = Instant::now();
    for _ in 0..12 {
        backend.encode(of(&["a"]), None).await.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
    limited.limits = Some(ProviderLimits {
        requests_per_second: 0.1,
        ..ProviderLimits::default()
    });
    let backend = connect(&limited);
    let first = Instant::now();
    backend.encode(of(&["a"]), None).await.unwrap();
    let deadline = Some(Instant::now() + Duration::from_secs(2));
    let fault = backend.encode(of(&["a"]), deadline).await.unwrap_err();
    assert_eq!(fault.code, Code::ResourceExhausted);
    let wait = fault.retry_after.unwrap().as_secs_f64();
    let since = first.elapsed().as_secs_f64();
    assert!(
        (10.0 - since..=10.0).contains(&wait),
        "{wait} s, {since} s after the first"
    );
}

#[tokio::test]
async fn a_failure_of_one_piece_fails_the_whole() {
    let stub = Stub::start(|call| match texts(&call.body["input"])[0].as_str() {
        "bad" => Reply::of(400, serde_json::json!({"error": {"message": "no"}})),
        _ => Reply::ok(listed(call)),
    })
    .await;
    let mut limited = provider(ProviderKind::Openai, &stub.address);
    limited.limits = Some(ProviderLimits {
        max_batch_items: 1,
        ..ProviderLimits::default()
    });
    let fault = connect(&limited)
        .encode(of(&["good", "bad", "good"]), None)
        .await
        .unwrap_err();
    assert_eq!(fault.code, Code::InvalidArgument);
}
