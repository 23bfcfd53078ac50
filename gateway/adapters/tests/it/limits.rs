//! Requests that are larger or more frequent than a provider accepts.

use std::time::Duration;

use isomer_adapters::{Surroundings, kinds};
use isomer_proto::gateway::v1::{ProviderKind, ProviderLimits};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};
use tonic::Code;

use crate::support::{
    Reply, Stub, connect, listed, of, provider, provider_of, rank, rows, surroundings, texts, vectors,
};

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

/// An address, and the number of bytes that a client of it read before it left.
async fn endless(part: &'static [u8]) -> (String, tokio::task::JoinHandle<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sent = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 ").await.unwrap();
        let mut sent = 0;
        while stream.write_all(part).await.is_ok() {
            sent += part.len() as u64;
        }
        sent
    });
    (address, sent)
}

fn large_surroundings() -> Surroundings {
    Surroundings {
        max_message_bytes: 256 << 20,
        ..surroundings(&["127.0.0.1"])
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_at_what_two_texts_can_need() {
    let body = concat!("200 OK\r\ncontent-type: application/json\r\n\r\n", "                ");
    let (address, sent) = endless(body.as_bytes()).await;
    let backend = isomer_adapters::connect(&provider(ProviderKind::Openai, &address), &large_surroundings()).unwrap();
    let fault = backend.encode(of(&["one", "two"]), None).await.unwrap_err();
    assert_eq!((fault.code, fault.reason.as_str()), (Code::DataLoss, "PROVIDER_ANSWER"));
    // 65,536 columns of 40 bytes for each, a mebibyte, and what the sockets hold.
    let sent = sent.await.unwrap();
    assert!(sent < 64 << 20, "{sent}");
}

#[tokio::test]
async fn every_kind_bounds_its_answers_by_what_was_asked() {
    // More than one text of 65,536 columns needs.
    let stub = Stub::start(|call| match call.path.as_str() {
        "/info" => Reply::ok(json!({"model_id": "theirs", "model_type": {"embedding": {"pooling": "mean"}}})),
        "/api/show" => Reply::ok(json!({"model_info": {"bert.embedding_length": 4}})),
        "/api/tags" => Reply::ok(json!({"models": []})),
        _ => Reply::text(200, " ".repeat(5 << 20)).header("content-type", "application/json"),
    })
    .await;
    for declared in kinds().filter(|declared| !declared.grpc) {
        let (kind, provider) = (declared.value, provider_of(declared, &stub.address));
        let backend = isomer_adapters::connect(&provider, &large_surroundings()).unwrap();
        let fault = backend.encode(of(&["text"]), None).await.unwrap_err();
        assert_eq!(fault.reason, "PROVIDER_ANSWER", "{kind:?}: {fault}");
        assert!(fault.message.contains("longer than"), "{kind:?}: {fault}");
        if let Err(fault) = backend.rerank(rank(None), None).await
            && fault.code == Code::DataLoss
        {
            assert!(fault.message.contains("longer than"), "{kind:?}: {fault}");
        }
    }
}

#[tokio::test]
async fn an_indented_answer_of_long_numbers_is_read() {
    let stub = Stub::start(|call| {
        let count = texts(&call.body["input"]).len();
        let numbers = vec!["        -0.0123456789012345678"; 3072].join(",\n");
        let items: Vec<String> = (0..count)
            .map(|index| format!("{{\"index\": {index}, \"embedding\": [\n{numbers}\n]}}"))
            .collect();
        Reply::text(200, format!("{{\"data\": [{}]}}", items.join(","))).header("content-type", "application/json")
    })
    .await;
    let backend =
        isomer_adapters::connect(&provider(ProviderKind::Openai, &stub.address), &large_surroundings()).unwrap();
    let answer = backend.encode(of(&["text"; 64]), None).await.unwrap();
    assert_eq!(answer.embeddings.unwrap().rows, 64);
}

/// reqwest offers no bound on informational answers, so the timeout of the call ends them.
#[tokio::test]
async fn informational_answers_without_end_end_at_the_timeout() {
    let (address, sent) = endless(b"103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 ").await;
    let mut slow = provider(ProviderKind::Openai, &address);
    slow.limits = Some(ProviderLimits {
        timeout: Some(prost_types::Duration {
            seconds: 0,
            nanos: 200_000_000,
        }),
        ..ProviderLimits::default()
    });
    let fault = connect(&slow).encode(of(&["text"]), None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::Unavailable, "PROVIDER_TIMEOUT")
    );
    sent.await.unwrap();
}
