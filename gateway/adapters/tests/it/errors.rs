//! Errors of a provider and of the connection to it.

use std::time::Duration;

use isomer_adapters::{AddressGuard, GuardConfig, Surroundings, kinds};
use isomer_proto::{
    encoder::v1::EncodeRequest,
    gateway::v1::{Provider, ProviderKind, ProviderLimits},
};
use isomer_service_kit::Fault;
use serde_json::{Value, json};
use tokio::time::Instant;
use tonic::Code;

use crate::support::{Reply, SECRET, Stub, connect, listed, of, provider, provider_of, surroundings, with_secret};

async fn answered(reply: Reply) -> Fault {
    let stub = Stub::start(move |_| reply.clone()).await;
    let (provider, _secret) = with_secret(provider(ProviderKind::Openai, &stub.address));
    connect(&provider).encode(of(&["one", "two"]), None).await.unwrap_err()
}

async fn read_as(data: Value) -> Fault {
    answered(Reply::ok(json!({"data": data}))).await
}

#[tokio::test]
async fn statuses_become_codes_with_fields_and_hints() {
    let busy = answered(Reply::of(429, json!({"error": {"message": "slow down"}})).header("retry-after", "3")).await;
    assert_eq!(
        (busy.code, busy.retry_after),
        (Code::ResourceExhausted, Some(Duration::from_secs(3)))
    );
    let key = answered(Reply::of(
        401,
        json!({"error": {"message": format!("Incorrect API key: {SECRET}")}}),
    ))
    .await;
    assert_eq!(
        (key.code, key.field.as_deref()),
        (Code::FailedPrecondition, Some("provider.secret"))
    );
    assert!(key.message.contains("Incorrect API key: [secret]"), "{key}");
    let bad = answered(Reply::of(400, json!({"error": {"message": "too many tokens"}}))).await;
    assert_eq!(bad.code, Code::InvalidArgument);
    assert!(bad.message.contains("too many tokens"));
    assert_eq!(
        answered(Reply::of(404, json!({"error": "model not found"}))).await.code,
        Code::NotFound
    );
    assert_eq!(
        answered(Reply::of(502, json!("bad gateway"))).await.code,
        Code::Unavailable
    );
}

#[tokio::test]
async fn answers_that_do_not_fit_are_refused() {
    let ok = |index: usize| json!({"index": index, "embedding": [1.0, 0.0]});
    let nan = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, f32::NAN.to_le_bytes());
    for (data, says) in [
        (json!([ok(0)]), "no vector for text 1 of 2"),
        (json!([ok(0), ok(0)]), "two vectors for text 0"),
        (json!([ok(0), ok(2)]), "a vector for text 2 of 2"),
        (json!([ok(0), ok(1), ok(2)]), "a vector for text 2 of 2"),
        (json!([ok(0), {"index": 1, "embedding": [1.0]}]), "dimensions"),
        (
            json!([{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]),
            "without dimensions",
        ),
        (
            json!([{"index": 0, "embedding": nan}, {"index": 1, "embedding": nan}]),
            "not finite",
        ),
        (
            json!([ok(0), {"index": 1, "embedding": [1.0, 1e39]}]),
            "text 1 is not finite",
        ),
        (json!([ok(0), {"index": 1, "embedding": "!!"}]), "not base64"),
        (json!([ok(0), {"index": 1, "embedding": [1.0, null]}]), "cannot be read"),
        (json!("none"), "cannot be read"),
    ] {
        let fault = read_as(data.clone()).await;
        assert_eq!(fault.code, Code::DataLoss, "{data}: {fault}");
        assert!(fault.message.contains(says), "{data}: {fault}");
        assert!(fault.message.contains("`stub`"), "{fault}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_json_or_without_end_is_refused() {
    let mut html = Reply::ok(json!(null));
    html.body = "<html>Welcome</html>".into();
    assert_eq!(answered(html).await.code, Code::DataLoss);
    let mut endless = Reply::ok(json!(null));
    endless.body = " ".repeat(2 << 20);
    let fault = answered(endless).await;
    assert_eq!(fault.code, Code::DataLoss);
    assert!(fault.message.contains("longer than 1048576 bytes"), "{fault}");
}

#[tokio::test]
async fn vectors_that_change_their_shape_are_noticed() {
    let stub = Stub::start(|call| match call.body["input"][0].as_str() {
        Some("longer") => Reply::ok(json!({"data": [{"index": 0, "embedding": [1.0, 0.0, 0.0, 0.0, 0.0]}]})),
        Some("unscaled") => Reply::ok(json!({"data": [{"index": 0, "embedding": [3.0, 0.0, 0.0, 0.0]}]})),
        _ => Reply::ok(listed(call)),
    })
    .await;
    let backend = connect(&provider(ProviderKind::Openai, &stub.address));
    backend.encode(of(&["first"]), None).await.unwrap();
    for other in ["longer", "unscaled"] {
        let fault = backend.encode(of(&[other]), None).await.unwrap_err();
        assert_eq!(
            (fault.code, fault.reason.as_str()),
            (Code::DataLoss, "PROVIDER_CHANGED"),
            "{other}"
        );
    }
    let fewer = EncodeRequest {
        dimensions: Some(2),
        ..of(&["ignored"])
    };
    let fault = backend.encode(fewer, None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::Unimplemented, Some("dimensions"))
    );
}

#[tokio::test]
async fn nobody_there_is_unavailable() {
    let fault = connect(&provider(ProviderKind::Openai, "http://127.0.0.1:1"))
        .encode(of(&["a"]), None)
        .await
        .unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::Unavailable, "PROVIDER_UNAVAILABLE"),
        "{fault}"
    );
}

#[tokio::test]
async fn the_callers_deadline_and_the_providers_timeout_are_told_apart() {
    let stub = Stub::start(|_| Reply::never()).await;
    let mut slow = provider(ProviderKind::Openai, &stub.address);
    let deadline = Some(Instant::now() + Duration::from_millis(100));
    let fault = connect(&slow).encode(of(&["a"]), deadline).await.unwrap_err();
    assert_eq!(fault.code, Code::DeadlineExceeded);
    slow.limits = Some(ProviderLimits {
        timeout: Some(Duration::from_millis(100).try_into().unwrap()),
        ..ProviderLimits::default()
    });
    let fault = connect(&slow).encode(of(&["a"]), None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::Unavailable, "PROVIDER_TIMEOUT")
    );
}

/// The error for an address at which a provider may not be.
async fn refused(provider: &Provider, surroundings: &Surroundings) -> Fault {
    match isomer_adapters::connect(provider, surroundings) {
        Err(fault) => fault,
        Ok(backend) => backend.encode(of(&["a"]), None).await.unwrap_err(),
    }
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_for_every_kind() {
    let closed = surroundings(&[]);
    for address in [
        "http://169.254.169.254",
        "http://127.0.0.1:1",
        "http://2130706433",
        "http://[::ffff:7f00:1]:80",
        "http://localhost:1",
    ] {
        for kind in kinds() {
            let fault = refused(&provider_of(kind, address), &closed).await;
            assert_eq!(
                (fault.reason.as_str(), fault.code),
                ("ADDRESS_REFUSED", Code::PermissionDenied),
                "{:?} {address}: {fault}",
                kind.value
            );
            assert_eq!(fault.field.as_deref(), Some("provider.address"));
        }
    }
    let guard = AddressGuard::new(&GuardConfig {
        allow: vec!["10.0.0.0/8".into()],
    })
    .unwrap();
    let other = Surroundings { guard, ..closed };
    assert_eq!(
        refused(&provider(ProviderKind::Openai, "http://localhost:1"), &other)
            .await
            .reason,
        "ADDRESS_REFUSED"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_secret_not_sent_there() {
    let inner = Stub::start(|call| Reply::ok(listed(call))).await;
    let to = format!("{}/v1/embeddings", inner.address);
    for status in [301, 302, 307, 308] {
        let to = to.clone();
        let outer = Stub::start(move |_| Reply::of(status, json!({})).header("location", to.clone())).await;
        let (provider, _secret) = with_secret(provider(ProviderKind::Openai, &outer.address));
        let fault = connect(&provider).encode(of(&["a"]), None).await.unwrap_err();
        assert_eq!(
            (fault.code, fault.reason.as_str()),
            (Code::FailedPrecondition, "PROVIDER_REDIRECTS")
        );
    }
    assert!(inner.calls().is_empty());
}

#[tokio::test]
async fn the_secret_is_in_no_debug_output_and_no_error() {
    let stub = Stub::start(|call| {
        // A server that repeats what it received, in an error and in a malformed answer.
        let seen = call.headers["authorization"].to_str().unwrap().to_owned();
        match call.body["input"][0].as_str() {
            Some("error") => Reply::of(500, json!({"error": {"message": seen, "code": seen}})),
            Some("text") => Reply {
                body: seen,
                ..Reply::of(422, Value::Null)
            },
            _ => Reply::ok(json!({"data": seen})),
        }
    })
    .await;
    let (provider, _secret) = with_secret(provider(ProviderKind::Openai, &stub.address));
    let backend = connect(&provider);
    for text in ["error", "text", "broken"] {
        let fault = backend.encode(of(&[text]), None).await.unwrap_err();
        assert!(!format!("{fault:?} {fault}").contains(SECRET), "{fault:?}");
    }
    assert!(!format!("{backend:?}").contains(SECRET));
    assert_eq!(stub.calls()[0].headers["authorization"], format!("Bearer {SECRET}"));
}

#[tokio::test]
async fn a_secret_that_is_missing_is_told_before_anything_is_sent() {
    let stub = Stub::start(|call| Reply::ok(listed(call))).await;
    let (provider, secret) = with_secret(provider(ProviderKind::Openai, &stub.address));
    let backend = connect(&provider);
    secret.close().unwrap();
    let fault = backend.encode(of(&["a"]), None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::FailedPrecondition, Some("provider.secret"))
    );
    assert!(stub.calls().is_empty());
}

#[tokio::test]
async fn what_is_asked_before_a_call_counts_against_the_deadline_and_holds_up_no_list() {
    let stub = Stub::start(|_| Reply::never()).await;
    let backend = connect(&provider(ProviderKind::TeiHttp, &stub.address));
    let deadline = Some(Instant::now() + Duration::from_millis(100));
    let fault = backend.encode(of(&["a"]), deadline).await.unwrap_err();
    assert_eq!(fault.code, Code::DeadlineExceeded);
    let listed = backend.list().await.unwrap();
    assert_eq!(listed[0].id, "ours");
}
