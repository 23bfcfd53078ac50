//! A request that a protocol cannot express is refused with its field and a hint; work that we do
//! in place of the provider is done right.

use half::f16;
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{CountTokensRequest, EncodeRequest, Input, Output, TokenIds, Truncation, input},
    gateway::v1::ProviderKind,
};
use serde_json::json;
use tonic::Code;

use crate::support::{Reply, Stub, connect, listed, named, of, provider, rows, try_connect};

async fn refused(kind: ProviderKind, types: &[(&str, &str)], request: EncodeRequest) -> isomer_service_kit::Fault {
    // No call may be made: no server listens at this address.
    let mut provider = provider(kind, "http://127.0.0.1:9");
    provider.input_types = types
        .iter()
        .map(|(name, kind)| ((*name).into(), (*kind).into()))
        .collect();
    connect(&provider).encode(request, None).await.unwrap_err()
}

#[tokio::test]
async fn what_a_protocol_cannot_say_is_refused_by_field_before_anything_is_sent() {
    let token_ids = EncodeRequest {
        inputs: vec![Input {
            input: Some(input::Input::TokenIds(TokenIds { ids: vec![1] })),
        }],
        ..of(&[])
    };
    let cases = [
        (
            ProviderKind::Openai,
            EncodeRequest {
                truncation: Truncation::Head.into(),
                ..of(&["a"])
            },
            "truncation",
        ),
        (
            ProviderKind::Openai,
            EncodeRequest {
                truncation: Truncation::Tail.into(),
                ..of(&["a"])
            },
            "truncation",
        ),
        (
            ProviderKind::Voyage,
            EncodeRequest {
                truncation: Truncation::Head.into(),
                ..of(&["a"])
            },
            "truncation",
        ),
        (
            ProviderKind::HuggingFace,
            EncodeRequest {
                dimensions: Some(2),
                ..of(&["a"])
            },
            "dimensions",
        ),
        (
            ProviderKind::Jina,
            EncodeRequest {
                output_dtype: Dtype::Int8.into(),
                ..of(&["a"])
            },
            "output_dtype",
        ),
        (
            ProviderKind::Jina,
            EncodeRequest {
                output: Output::TokenVectors.into(),
                ..of(&["a"])
            },
            "output",
        ),
        (ProviderKind::Voyage, token_ids, "inputs[0].token_ids"),
    ];
    for (kind, request, field) in cases {
        let fault = refused(kind, &[], request).await;
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::Unimplemented, Some(field)),
            "{fault}"
        );
        assert!(fault.hint.is_some());
    }
    let none = refused(ProviderKind::Openai, &[], of(&[])).await;
    assert_eq!(
        (none.code, none.field.as_deref()),
        (Code::InvalidArgument, Some("inputs"))
    );
    let unknown = EncodeRequest {
        encoder_id: "nobody".into(),
        ..of(&["a"])
    };
    assert_eq!(
        refused(ProviderKind::Openai, &[], unknown).await.reason,
        "UNKNOWN_ENCODER"
    );
}

#[tokio::test]
async fn a_kind_of_input_that_is_needed_is_asked_for() {
    let fault = refused(ProviderKind::CohereV2, &[("query", "search_query")], of(&["a"])).await;
    assert_eq!(fault.field.as_deref(), Some("prompt_name"));
    assert!(fault.hint.unwrap().contains("input_types"));
    let fault = refused(
        ProviderKind::CohereV2,
        &[("query", "search_query")],
        named("document", &["a"]),
    )
    .await;
    assert!(fault.hint.unwrap().contains("query"));
    let fault = try_connect(&provider(ProviderKind::CohereV2, "http://127.0.0.1:9")).unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("provider.input_types"));
    let mut openai = provider(ProviderKind::Openai, "http://127.0.0.1:9");
    openai.input_types.insert("query".into(), "query".into());
    assert_eq!(
        try_connect(&openai).unwrap_err().field.as_deref(),
        Some("provider.input_types")
    );
}

#[tokio::test]
async fn counting_and_ranking_are_refused_where_the_protocol_has_none() {
    let backend = connect(&provider(ProviderKind::Openai, "http://127.0.0.1:9"));
    let request = CountTokensRequest {
        encoder_id: "ours".into(),
        texts: vec!["a".into()],
        ..CountTokensRequest::default()
    };
    assert_eq!(
        backend.count_tokens(request, None).await.unwrap_err().code,
        Code::Unimplemented
    );
    let request = isomer_proto::encoder::v1::RerankRequest {
        encoder_id: "ours".into(),
        documents: vec!["a".into()],
        ..Default::default()
    };
    assert_eq!(
        backend.rerank(request, None).await.unwrap_err().code,
        Code::Unimplemented
    );
}

#[tokio::test]
async fn a_record_that_cannot_work_is_refused_by_field() {
    let refused = |change: fn(&mut isomer_proto::gateway::v1::Provider)| {
        let mut provider = provider(ProviderKind::Openai, "http://127.0.0.1:9");
        change(&mut provider);
        try_connect(&provider).unwrap_err().field.unwrap()
    };
    assert_eq!(refused(|provider| provider.encoders.clear()), "provider.encoders");
    assert_eq!(refused(|provider| provider.kind = 99), "provider.kind");
    assert_eq!(
        refused(|provider| provider.address = "grpc://127.0.0.1:9".into()),
        "provider.address"
    );
    assert_eq!(
        refused(|provider| provider.address = "ftp://127.0.0.1".into()),
        "provider.address"
    );
    assert_eq!(
        refused(|provider| provider.address = "127.0.0.1:9".into()),
        "provider.address"
    );
    assert_eq!(
        refused(|provider| provider.address = "http://user:pw@127.0.0.1".into()),
        "provider.address"
    );
    assert_eq!(
        refused(|provider| provider.address = "http://127.0.0.1/?key=1".into()),
        "provider.address"
    );
    assert_eq!(
        refused(|provider| {
            provider.headers.insert("authorization".into(), "x".into());
        }),
        "provider.headers[\"authorization\"]"
    );
    assert_eq!(
        refused(|provider| {
            provider.tls = Some(isomer_proto::gateway::v1::TlsSettings {
                ca_file: "/ca.pem".into(),
                ..Default::default()
            });
        }),
        "provider.tls"
    );
}

/// A server whose vector is [3, -4] for every text.
async fn unscaled() -> Stub {
    Stub::start(|call| {
        let count = call.body["input"].as_array().unwrap().len();
        let data: Vec<_> = (0..count)
            .map(|index| json!({"index": index, "embedding": [3.0, -4.0]}))
            .collect();
        Reply::ok(json!({"data": data}))
    })
    .await
}

#[tokio::test]
async fn vectors_are_scaled_and_packed_by_us_when_that_is_asked() {
    let stub = unscaled().await;
    let backend = connect(&provider(ProviderKind::Openai, &stub.address));
    let plain = backend.encode(of(&["a"]), None).await.unwrap();
    assert_eq!(rows(&plain), [[3.0, -4.0]]);
    let plain = plain.vector_space.unwrap();
    assert!(!plain.normalised);
    let scaled = EncodeRequest {
        normalise: Some(true),
        ..of(&["a"])
    };
    let scaled = backend.encode(scaled, None).await.unwrap();
    assert_eq!(rows(&scaled), [[0.6, -0.8]]);
    let scaled = scaled.vector_space.unwrap();
    assert!(scaled.normalised && scaled.pooling == "provider>normalize" && scaled.digest != plain.digest);
    let as_it_is = EncodeRequest {
        normalise: Some(false),
        ..of(&["a"])
    };
    let as_it_is = backend.encode(as_it_is, None).await.unwrap().vector_space.unwrap();
    assert_eq!(as_it_is.digest, plain.digest);

    let halves = EncodeRequest {
        output_dtype: Dtype::F16.into(),
        ..of(&["a"])
    };
    let matrix = backend.encode(halves, None).await.unwrap().embeddings.unwrap();
    assert_eq!(
        matrix.data.as_ref(),
        [f16::from_f32(3.0).to_le_bytes(), f16::from_f32(-4.0).to_le_bytes()].concat()
    );
    let bits = EncodeRequest {
        output_dtype: Dtype::Ubinary.into(),
        ..of(&["a"])
    };
    let matrix = backend.encode(bits, None).await.unwrap().embeddings.unwrap();
    assert_eq!((matrix.cols, matrix.data.as_ref()), (2, [0b1000_0000].as_slice()));
}

#[tokio::test]
async fn raw_vectors_of_a_provider_that_scales_are_refused() {
    let stub = Stub::start(|call| Reply::ok(listed(call))).await;
    let backend = connect(&provider(ProviderKind::Openai, &stub.address));
    let raw = || EncodeRequest {
        normalise: Some(false),
        ..of(&["a"])
    };
    for _ in 0..2 {
        let fault = backend.encode(raw(), None).await.unwrap_err();
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::Unimplemented, Some("normalise"))
        );
    }
    assert_eq!(stub.calls().len(), 1, "what is known is refused without a call");
}
