//! The usage of calls, whatever their ending: the work of a provider counts.

use std::{future::Future, time::Duration};

use isomer_adapters::metered;
use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{EncodeRequest, RerankRequest},
    gateway::v1::{Provider, ProviderKind, ProviderLimits},
};
use isomer_service_kit::Fault;
use isomer_stubs::wait::until;
use isomer_usage::Count;
use serde_json::json;
use tokio::{io::AsyncReadExt, net::TcpListener, time::Instant};
use tonic::Code;

use crate::support::{Reply, Stub, connect, listed, of, provider, texts, vector};

/// Tokens that the stub reports for each text.
const EACH: u64 = 7;

async fn counted<T>(call: impl Future<Output = Result<T, Fault>>) -> (Usage, Result<T, Fault>) {
    let count = Count::default();
    let answer = metered(&count, call).await;
    let (used, open, _) = count.snapshot();
    assert_eq!((open.texts, open.tokens), (0, 0), "a part is left open");
    (used, answer)
}

/// A provider that takes one text at a time.
fn one_by_one(stub: &Stub) -> Provider {
    limited(stub, 1)
}

fn limited(stub: &Stub, max_concurrency: u32) -> Provider {
    Provider {
        limits: Some(ProviderLimits {
            max_batch_items: 1,
            max_concurrency,
            ..ProviderLimits::default()
        }),
        ..provider(ProviderKind::Openai, &stub.address)
    }
}

#[tokio::test]
async fn batches_before_a_refused_text_count() {
    let stub = Stub::start(|call| match texts(&call.body["input"])[0].as_str() {
        "bad" => Reply::of(400, json!({"error": {"message": "too long"}})),
        _ => Reply::ok(listed(call)),
    })
    .await;
    let backend = connect(&one_by_one(&stub));
    let (used, answer) = counted(backend.encode(of(&["a", "b", "c", "bad", "d"]), None)).await;
    assert_eq!(answer.unwrap_err().code, Code::InvalidArgument);
    assert_eq!(used.tokens, 3 * EACH);
}

#[tokio::test]
async fn batches_in_flight_beside_a_refused_text_count_by_an_estimate() {
    let stub = Stub::start(|call| match texts(&call.body["input"])[0].as_str() {
        "bad" => Reply::of(400, json!({"error": {"message": "too long"}})).after(Duration::from_millis(50)),
        _ => Reply::never(),
    })
    .await;
    let backend = connect(&limited(&stub, 2));
    let (used, answer) = counted(backend.encode(of(&["bad", "abcdef", "unsent"]), None)).await;
    assert_eq!(answer.unwrap_err().code, Code::InvalidArgument);
    // Two for six bytes, and two special tokens.
    assert_eq!((used.texts, used.tokens), (1, 4));
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_counts() {
    let ragged = json!({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 0.0]}]});
    let few = json!({"data": [{"index": 0, "embedding": [1.0]}]});
    for body in [ragged, few, json!({"data": "none"}), json!("no object")] {
        let answer = body.clone();
        let stub = Stub::start(move |_| Reply::ok(answer.clone())).await;
        let backend = connect(&provider(ProviderKind::Openai, &stub.address));
        let (used, answer) = counted(backend.encode(of(&["abcdef", "abc"]), None)).await;
        assert_eq!(answer.unwrap_err().code, Code::DataLoss, "{body}");
        assert_eq!((used.texts, used.tokens), (2, 7), "{body}");
    }
}

#[tokio::test]
async fn dimensions_that_a_provider_ignores_count_once_and_are_refused_from_then_on() {
    let stub = Stub::start(|call| Reply::ok(listed(call))).await;
    let backend = connect(&provider(ProviderKind::Openai, &stub.address));
    let shorter = |dimensions| EncodeRequest {
        dimensions: Some(dimensions),
        ..of(&["a", "b"])
    };
    for (dimensions, expected) in [(3, 2 * EACH), (3, 0), (2, 2 * EACH), (2, 0)] {
        let (used, answer) = counted(backend.encode(shorter(dimensions), None)).await;
        let fault = answer.unwrap_err();
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::Unimplemented, Some("dimensions"))
        );
        assert_eq!(used.tokens, expected, "{dimensions}");
    }
    assert_eq!(stub.calls().len(), 2);
    let (_, answer) = counted(backend.encode(shorter(4), None)).await;
    answer.unwrap();
}

#[tokio::test]
async fn a_call_that_ends_by_time_or_is_left_counts_what_was_sent() {
    let stub = Stub::start(|call| match texts(&call.body["input"])[0].as_str() {
        "late" => Reply::never(),
        _ => Reply::ok(listed(call)),
    })
    .await;
    let request = || of(&["a", "late", "unsent"]);
    let sent = EACH + 4;

    let backend = connect(&one_by_one(&stub));
    // The first text is answered in this time on a busy machine too.
    let deadline = Some(Instant::now() + Duration::from_secs(2));
    let (used, answer) = counted(backend.encode(request(), deadline)).await;
    assert_eq!(answer.unwrap_err().code, Code::DeadlineExceeded);
    assert_eq!(used.tokens, sent);

    let mut impatient = one_by_one(&stub);
    let timeout_of_provider = prost_types::Duration {
        seconds: 2,
        ..Default::default()
    };
    impatient.limits.as_mut().unwrap().timeout = Some(timeout_of_provider);
    let (used, answer) = counted(connect(&impatient).encode(request(), None)).await;
    assert_eq!(answer.unwrap_err().reason, "PROVIDER_TIMEOUT");
    assert_eq!(used.tokens, sent);

    let count = Count::default();
    let calls = stub.calls().len();
    tokio::select! {
        answer = metered(&count, backend.encode(request(), None)) => panic!("{answer:?}"),
        () = until("the call that is never answered", || stub.calls().len() == calls + 2) => {}
    }
    assert_eq!(count.used().tokens, sent);
}

#[tokio::test]
async fn a_connection_counts_if_it_broke_and_not_if_it_was_never_made() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let breaking = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
    });
    let backend = connect(&provider(ProviderKind::Openai, &format!("http://{address}")));
    for expected in [4, 0] {
        let (used, answer) = counted(backend.encode(of(&["abcdef"]), None)).await;
        assert_eq!(answer.unwrap_err().code, Code::Unavailable);
        assert_eq!(used.tokens, expected);
    }
    breaking.await.unwrap();
}

#[tokio::test]
async fn a_channel_that_was_never_made_counts_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for kind in [ProviderKind::Isomer, ProviderKind::TeiGrpc] {
        let (used, answer) = counted(connect(&provider(kind, &address)).encode(of(&["abcdef"]), None)).await;
        assert_eq!(answer.unwrap_err().code, Code::Unavailable, "{kind:?}");
        assert_eq!(used.tokens, 0, "{kind:?}");
    }
}

#[tokio::test]
async fn documents_of_an_answer_that_cannot_be_used_count() {
    let stub = Stub::start(|_| Reply::ok(json!({"results": [], "usage": {"total_tokens": 9}}))).await;
    let request = RerankRequest {
        encoder_id: "ours".to_owned(),
        query: "abc".to_owned(),
        documents: vec!["abcdef".to_owned(), "abc".to_owned()],
        ..RerankRequest::default()
    };
    let backend = connect(&provider(ProviderKind::Jina, &stub.address));
    let (used, answer) = counted(backend.rerank(request, None)).await;
    assert_eq!(answer.unwrap_err().code, Code::DataLoss);
    assert_eq!((used.texts, used.tokens), (2, 9));
}

#[tokio::test]
async fn a_check_of_a_provider_counts_nowhere() {
    let stub = Stub::start(|call| Reply::ok(listed(call))).await;
    let backend = connect(&provider(ProviderKind::Openai, &stub.address));
    let call_of_user = Count::default();
    let described = call_of_user.scope(backend.get("ours")).await.unwrap();
    assert_eq!(described.dimensions as usize, vector("a").len());
    assert_eq!(call_of_user.used(), Usage::default());
}
