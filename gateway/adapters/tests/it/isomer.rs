//! Providers that implement our own protocol.

use std::{
    future::{pending, ready},
    time::Duration,
};

use isomer_adapters::{EncoderBackend, IsomerBackend};
use isomer_proto::{
    common::v1::{Dtype, VectorSpace},
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder},
    gateway::v1::{Provider, ProviderKind, ProviderLimits},
};
use isomer_service_kit::vectors::sealed;
use isomer_stubs::encoder::{Call, StubEncoder, answer, named, texts, unknown};
use tokio::time::Instant;
use tonic::Code;

use crate::support::{SECRET, connect, of, provider, rows, vector, vectors, with_secret};

/// An encoder service with two encoders, of which only `theirs` encodes. `change` is applied to
/// each answer before it is sent.
pub(crate) fn toy(change: impl Fn(&mut EncodeResponse) + Send + Sync + 'static) -> StubEncoder {
    let encoder = |id| Encoder {
        max_tokens: 99,
        dimensions: 4,
        ..named(id)
    };
    StubEncoder::of(["theirs", "another"].map(encoder)).on_encode(move |request| {
        let request = request.into_inner();
        let count = request.inputs.len();
        let mut answer = EncodeResponse {
            token_counts: vec![3; count],
            truncated: vec![false; count],
            vector_space: Some(sealed(VectorSpace {
                model_id: "their-model".into(),
                dimensions: 4,
                ..VectorSpace::default()
            })),
            ..answer(texts(&request).map(vector), 3)
        };
        change(&mut answer);
        ready(match request.encoder_id.as_str() {
            "theirs" => Ok(answer),
            id => Err(unknown(id)),
        })
    })
}

/// An encoder service that never answers.
pub(crate) fn slow() -> StubEncoder {
    StubEncoder::default().on_encode(|_| pending())
}

fn isomer(address: &str) -> Provider {
    provider(ProviderKind::Isomer, address)
}

#[tokio::test]
async fn ids_are_rewritten_both_ways_and_the_space_is_the_providers() {
    let toy = toy(|_| ());
    let (mut provider, _secret) = with_secret(isomer(&toy.serve().await));
    provider.headers.insert("x-project".into(), "search".into());
    let backend = connect(&provider);
    let answer = backend.encode(of(&["one", "two"]), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&["one", "two"]));
    assert_eq!(answer.vector_space.unwrap().model_id, "their-model");
    let Call { metadata, request, .. } = toy.calls()[0].clone();
    assert_eq!(request.encoder_id, "theirs");
    assert_eq!(
        metadata.get("authorization").unwrap(),
        format!("Bearer {SECRET}").as_str()
    );
    assert_eq!(metadata.get("x-project").unwrap(), "search");
    let listed = backend.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].id.as_str(), listed[0].max_tokens), ("ours", 99));
    assert_eq!(backend.get("ours").await.unwrap().id, "ours");
    assert_eq!(backend.get("theirs").await.unwrap_err().reason, "UNKNOWN_ENCODER");
    assert!(!backend.is_open());
    backend.healthy().await.unwrap();
}

#[tokio::test]
async fn without_a_map_everything_is_offered() {
    let mut provider = isomer(&toy(|_| ()).serve().await);
    provider.encoders.clear();
    let backend = connect(&provider);
    assert!(backend.is_open());
    let ids: Vec<String> = backend
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|encoder| encoder.id)
        .collect();
    assert_eq!(ids, ["theirs", "another"]);
    let request = EncodeRequest {
        encoder_id: "theirs".into(),
        ..of(&["one"])
    };
    backend.encode(request, None).await.unwrap();
    let request = EncodeRequest {
        encoder_id: "nobody".into(),
        ..of(&["one"])
    };
    assert_eq!(backend.encode(request, None).await.unwrap_err().code, Code::NotFound);
}

#[tokio::test]
async fn a_channel_in_this_process_is_a_backend_too() {
    let backend = IsomerBackend::over(toy(|_| ()).channel().await, 1 << 20);
    assert!(backend.is_open());
    let request = EncodeRequest {
        encoder_id: "theirs".into(),
        ..of(&["one"])
    };
    let deadline = Some(Instant::now() + Duration::from_secs(5));
    assert_eq!(
        rows(&backend.encode(request, deadline).await.unwrap()),
        vectors(&["one"])
    );
    backend.healthy().await.unwrap();
}

#[tokio::test]
async fn a_large_request_goes_in_pieces_and_is_put_together() {
    let toy = toy(|_| ());
    let mut provider = isomer(&toy.serve().await);
    provider.limits = Some(ProviderLimits {
        max_batch_items: 3,
        ..ProviderLimits::default()
    });
    let backend = connect(&provider);
    let all: Vec<String> = (0..11).map(|number| format!("text {number}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let answer = backend.encode(of(&all), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&all));
    assert_eq!((answer.token_counts.len(), answer.truncated.len()), (11, 11));
    let usage = answer.usage.unwrap();
    assert_eq!((usage.texts, usage.tokens), (11, 33));
    assert!(toy.calls().iter().all(|call| call.request.inputs.len() <= 3));
}

#[tokio::test]
async fn pieces_of_different_spaces_are_not_put_together() {
    let toy = toy(|answer| {
        let rows = answer.embeddings.as_ref().unwrap().rows;
        answer.vector_space.as_mut().unwrap().digest = format!("{rows} rows");
    });
    let mut provider = isomer(&toy.serve().await);
    provider.limits = Some(ProviderLimits {
        max_batch_items: 2,
        ..ProviderLimits::default()
    });
    let fault = connect(&provider).encode(of(&["a", "b", "c"]), None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::DataLoss, "PROVIDER_CHANGED")
    );
}

#[tokio::test]
async fn answers_that_do_not_fit_are_refused() {
    let changes: Vec<(&str, fn(&mut EncodeResponse))> = vec![
        ("without vectors", |answer| answer.embeddings = None),
        ("answered 3 x", |answer| answer.embeddings.as_mut().unwrap().rows = 3),
        ("in 5 bytes", |answer| {
            answer.embeddings.as_mut().unwrap().data = vec![0; 5].into()
        }),
        (" x 0 ", |answer| answer.embeddings.as_mut().unwrap().cols = 0),
        ("DTYPE_F32 was asked for", |answer| {
            answer.embeddings.as_mut().unwrap().dtype = Dtype::F16.into()
        }),
        ("not finite", |answer| {
            answer.embeddings.as_mut().unwrap().data = f32::NAN.to_le_bytes().repeat(8).into();
        }),
        ("no vector space", |answer| answer.vector_space = None),
        ("no digest", |answer| {
            answer.vector_space.as_mut().unwrap().digest.clear()
        }),
    ];
    for (says, change) in changes {
        let backend = connect(&isomer(&toy(change).serve().await));
        let fault = backend.encode(of(&["one", "two"]), None).await.unwrap_err();
        assert_eq!(fault.code, Code::DataLoss, "{says}: {fault}");
        assert!(fault.message.contains(says), "{says}: {fault}");
    }
}

#[tokio::test]
async fn the_time_left_goes_with_the_call_and_ends_it() {
    let slow = slow();
    let backend = connect(&isomer(&slow.serve().await));
    let fault = backend
        .encode(of(&["a"]), Some(Instant::now() + Duration::from_secs(1)))
        .await
        .unwrap_err();
    assert_eq!(fault.code, Code::DeadlineExceeded, "{fault}");
    assert!(slow.calls()[0].metadata.contains_key("grpc-timeout"));
    let mut impatient = isomer(&slow.serve().await);
    impatient.limits = Some(ProviderLimits {
        timeout: Some(Duration::from_millis(150).try_into().unwrap()),
        ..ProviderLimits::default()
    });
    let fault = connect(&impatient).encode(of(&["a"]), None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::Unavailable, "PROVIDER_TIMEOUT"),
        "{fault}"
    );
}

#[tokio::test]
async fn token_ids_and_texts_go_through_as_they_are() {
    let toy = toy(|_| ());
    let backend = connect(&isomer(&toy.serve().await));
    let request = EncodeRequest {
        dimensions: Some(4),
        normalise: Some(false),
        ..of(&["one"])
    };
    backend.encode(request.clone(), None).await.unwrap();
    let sent = EncodeRequest {
        encoder_id: "theirs".into(),
        ..request
    };
    assert_eq!(toy.calls()[0].request, sent);
}
