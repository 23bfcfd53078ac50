//! An encoder service of this process, called without a channel.

use std::{
    future::{pending, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::FutureExt;
use isomer_adapters::{EncoderBackend, InProcessBackend};
use isomer_proto::encoder::v1::EncodeRequest;
use isomer_service_kit::{Fault, LimitsConfig, Tenant};
use isomer_stubs::encoder::{StubEncoder, texts};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::{
    isomer::{slow, toy},
    support::{of, rows, vector, vectors},
};

const MOST_BYTES: usize = 1 << 16;

fn backend(service: &StubEncoder) -> impl EncoderBackend {
    InProcessBackend::new(service.clone(), &LimitsConfig::default(), MOST_BYTES)
}

fn theirs(inputs: &[&str]) -> EncodeRequest {
    EncodeRequest {
        encoder_id: "theirs".into(),
        ..of(inputs)
    }
}

#[tokio::test]
async fn every_encoder_of_the_service_is_offered_and_its_answers_come_through() {
    let toy = toy(|_| ());
    let backend = backend(&toy);
    assert!(backend.is_open());
    backend.healthy().await.unwrap();
    // The stub lists one encoder a page.
    let ids = backend.list().await.unwrap().into_iter().map(|encoder| encoder.id);
    assert_eq!(ids.collect::<Vec<_>>(), ["theirs", "another"]);
    assert_eq!(backend.get("theirs").await.unwrap().max_tokens, 99);
    assert_eq!(backend.get("nobody").await.unwrap_err().reason, "UNKNOWN_ENCODER");
    let answer = backend.encode(theirs(&["one", "two"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one", "two"]));
}

#[tokio::test]
async fn the_service_learns_tenant_and_deadline() {
    let toy = toy(|_| ());
    let tenant = Tenant::of_account(b"secret", "key:one");
    let deadline = Instant::now() + Duration::from_secs(40);
    let backend = backend(&toy);
    let answer = backend.encode_for(&tenant, theirs(&["one"]), Some(deadline)).await;
    assert_eq!(rows(&answer.unwrap()), vectors(&["one"]));
    backend.encode(theirs(&["one"]), None).await.unwrap();
    let calls = toy.calls();
    let told = |call: usize| {
        let metadata = &calls[call].metadata;
        (
            Tenant::of_headers(metadata.as_ref()),
            metadata.contains_key("grpc-timeout"),
        )
    };
    assert_eq!(told(0), (tenant, true));
    assert_eq!(told(1), (Tenant::default(), false));
}

#[tokio::test]
async fn a_refusal_comes_through_with_reason_field_hint_and_wait() {
    let refusal = Fault::overloaded("the queue is full", Duration::from_millis(1500))
        .field("inputs")
        .hint("come again")
        .with("encoder_id", "theirs");
    let told = refusal.clone();
    let service = StubEncoder::default().on_encode(move |_| ready(Err(told.clone().into())));
    let fault = backend(&service).encode(theirs(&["one"]), None).await.unwrap_err();
    assert_eq!(fault, refusal);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_the_callers_deadline() {
    let began = Instant::now();
    let deadline = Some(began + Duration::from_secs(2));
    let fault = backend(&slow()).encode(theirs(&["one"]), deadline).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::DeadlineExceeded, "DEADLINE_EXCEEDED")
    );
    assert_eq!(fault.metadata["provider"], "this process");
    assert_eq!(began.elapsed().as_secs(), 2);
}

/// Counts itself when it is dropped.
struct Work(Arc<AtomicUsize>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[tokio::test]
async fn dropping_a_call_ends_its_work() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&ended);
    let service = StubEncoder::default().on_encode(move |_| {
        let work = Work(Arc::clone(&counts));
        async move {
            pending::<()>().await;
            drop(work);
            Err(Status::internal("no test waits for this"))
        }
    });
    let backend = backend(&service);
    let mut call = backend.encode(theirs(&["one"]), None);
    assert!((&mut call).now_or_never().is_none());
    assert_eq!((service.calls().len(), ended.load(SeqCst)), (1, 0));
    drop(call);
    assert_eq!(ended.load(SeqCst), 1);
}

#[tokio::test]
async fn a_panic_of_the_service_is_an_error_and_the_next_call_is_answered() {
    let service = StubEncoder::default().on_encode(|request| {
        let request = request.into_inner();
        assert!(!texts(&request).any(|text| text == "panic"), "a secret ingredient");
        ready(Ok(isomer_stubs::encoder::answer(texts(&request).map(vector), 3)))
    });
    let backend = backend(&service);
    let fault = backend.encode(theirs(&["panic"]), None).await.unwrap_err();
    assert_eq!((fault.code, fault.reason.as_str()), (Code::Internal, "INTERNAL"));
    assert!(!fault.message.contains("ingredient"), "{fault}");
    let answer = backend.encode(theirs(&["one"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one"]));
}

#[tokio::test]
async fn a_request_above_the_limit_of_the_service_is_refused() {
    let toy = toy(|_| ());
    let backend = backend(&toy);
    let long = "x".repeat(MOST_BYTES);
    let fault = backend.encode(theirs(&[&long]), None).await.unwrap_err();
    assert_eq!((fault.code, fault.reason.as_str()), (Code::OutOfRange, "OUT_OF_RANGE"));
    assert!(toy.calls().is_empty());
    backend.encode(theirs(&[&long[..MOST_BYTES / 2]]), None).await.unwrap();
}
