//! Tests of the parts that are specific to Rust; clients/conformance has the cases that all clients
//! share.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use isomer_client::{
    Client, EncodeOptions, Error, Token, VERSION,
    proto::encoder::v1::{EncodeRequest, Encoder, encoder_service_client::EncoderServiceClient},
};
use isomer_stubs::encoder::{StubEncoder, answer, named, texts};
use tonic::Status;

/// An encoder of which each vector is the length of its text, two texts per request. Texts with an
/// `!` are refused.
fn lengths() -> StubEncoder {
    let encoder = Encoder {
        max_batch_items: 2,
        ..named("lengths")
    };
    StubEncoder::of([encoder]).on_encode(|request| async move {
        let request = request.into_inner();
        if let Some(place) = texts(&request).position(|text| text.contains('!')) {
            return Err(Status::invalid_argument(format!(
                "inputs[{place}] has an exclamation mark"
            )));
        }
        Ok(answer(texts(&request).map(|text| [text.len() as f32]), 1))
    })
}

async fn client(stub: &StubEncoder) -> Client {
    Client::new(stub.serve().await).unwrap()
}

#[test]
fn a_client_may_be_shared_by_threads() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn sent<T: Send + 'static>(_: T) {}
    shared::<Client>();
    shared::<Error>();
    let client = Client::new("localhost:1");
    // Futures and streams of calls may be spawned.
    sent(async move {
        let client = client?;
        client.encode(["a"], "e").await?;
        client.rerank("q", ["a"], "e").await?;
        client.runs().wait("r", |_| ()).await?;
        Ok::<_, Error>(client.encode_stream(stream::iter(["a"]), "e"))
    });
}

#[tokio::test]
async fn a_stream_is_over_after_an_error_and_gives_what_was_before() {
    let stub = lengths();
    let client = client(&stub).await;
    let given = stream::iter(["a", "bb", "ccc", "dddd", "no!", "f", "g"]);
    let found: Vec<_> = client.encode_stream(given, "lengths").collect().await;
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(*found[1].as_ref().unwrap().row(0), [3.0]);
    assert!(
        found[2].as_ref().unwrap_err().to_string().contains("inputs[4]"),
        "{found:?}"
    );
    let whole = client.encode(["a", "bb", "ccc"], "lengths").await.unwrap();
    assert_eq!(whole.view().unwrap(), [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn stubs_over_the_channel_say_version_token_and_metadata() {
    let stub = lengths();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let client = Client::builder(stub.serve().await)
        .tokens(move || {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(Token::new("secret")) }
        })
        .metadata("x-team", "search")
        .interceptor(|headers| drop(headers.insert("x-mine", "yes".parse().unwrap())))
        .build()
        .unwrap();
    for _ in 0..2 {
        let request = EncodeRequest {
            encoder_id: "lengths".to_owned(),
            ..EncodeRequest::default()
        };
        EncoderServiceClient::new(client.channel())
            .encode(request)
            .await
            .unwrap();
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1, "the token is kept");
    let metadata = stub.calls().pop().unwrap().metadata;
    let said = |name| metadata.get(name).unwrap().to_str().unwrap().to_owned();
    assert!(said("user-agent").starts_with(&format!("isomer-client-rust/{VERSION} ")));
    assert_eq!(said("authorization"), "Bearer secret");
    assert_eq!(
        (said("x-team"), said("x-mine")),
        ("search".to_owned(), "yes".to_owned())
    );
    assert!(
        metadata.get("grpc-timeout").is_none(),
        "a stub's own call has no deadline of ours"
    );
    client.encode(["a"], "lengths").await.unwrap();
    assert!(stub.calls().pop().unwrap().metadata.get("grpc-timeout").is_some());
}

#[tokio::test]
async fn a_source_without_a_token_is_an_error_of_its_own_and_nothing_is_sent() {
    let stub = lengths();
    let client = Client::builder(stub.serve().await)
        .tokens(|| async { Err(Error::no_token("the provider is down")) })
        .build()
        .unwrap();
    let error = client.encode(["a"], "lengths").await.unwrap_err();
    assert!(matches!(error, Error::Unauthenticated(_)), "{error:?}");
    assert_eq!(error.field(), Some("token"));
    // Over the bare channel, too.
    let status = EncoderServiceClient::new(client.channel())
        .encode(EncodeRequest::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unauthenticated);
    assert!(stub.calls().is_empty());
}

#[tokio::test]
async fn a_client_within_a_time_leaves_the_others_as_they_are() {
    let stub = lengths();
    let client = client(&stub).await;
    let over = client.within(Duration::ZERO);
    let error = over.encode(["a"], "lengths").await.unwrap_err();
    assert!(matches!(error, Error::DeadlineExceeded(_)), "{error:?}");
    client.encode(["a"], "lengths").await.unwrap();
    // The nearer end counts.
    let both = client.within(Duration::ZERO).within(Duration::from_secs(60));
    assert!(both.encode(["a"], "lengths").await.is_err());
}

#[tokio::test]
async fn options_that_cannot_be_meant_are_refused_before_anything_is_sent() {
    let stub = lengths();
    let client = client(&stub).await;
    let options = || EncodeOptions::new("lengths");
    for (options, field) in [
        (EncodeOptions::new(""), "encoder"),
        (options().prompt("a").role("query"), "prompt"),
        (options().prompt("a").prompt_name("b"), "prompt"),
        (options().dimensions(0), "dimensions"),
    ] {
        let error = client.encode(["a"], options).await.unwrap_err();
        assert_eq!(error.field(), Some(field));
    }
    let error = client.transform(isomer_client::items(["a"]), "").await.unwrap_err();
    assert_eq!(error.field(), Some("spec.transformation"));
    assert!(stub.calls().is_empty());
}
