//! text-embeddings-inference over gRPC.

use isomer_adapters::metered;
use isomer_proto::{
    encoder::v1::{Capability, CountTokensRequest, EncodeRequest, Output, RerankRequest, Truncation},
    gateway::v1::ProviderKind,
};
use isomer_stubs::grpc::{GrpcStub, Method, method};
use isomer_usage::Count;
use prost::Message;
use tonic::{Code, Status};

use crate::support::{SECRET, connect, named, of, provider, rows, vector, vectors, with_secret};

/// `tei.v1` as published.
mod tei {
    use super::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Empty {}

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Info {
        #[prost(string, tag = "1")]
        pub(super) version: String,
        #[prost(string, optional, tag = "2")]
        pub(super) sha: Option<String>,
        #[prost(string, optional, tag = "3")]
        pub(super) docker_label: Option<String>,
        #[prost(string, tag = "4")]
        pub(super) model_id: String,
        #[prost(string, optional, tag = "5")]
        pub(super) model_sha: Option<String>,
        #[prost(string, tag = "6")]
        pub(super) model_dtype: String,
        #[prost(int32, tag = "7")]
        pub(super) model_type: i32,
        #[prost(uint32, tag = "8")]
        pub(super) max_concurrent_requests: u32,
        #[prost(uint32, tag = "9")]
        pub(super) max_input_length: u32,
        #[prost(uint32, tag = "10")]
        pub(super) max_batch_tokens: u32,
        #[prost(uint32, tag = "12")]
        pub(super) max_client_batch_size: u32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Metadata {
        #[prost(uint32, tag = "1")]
        pub(super) compute_chars: u32,
        #[prost(uint32, tag = "2")]
        pub(super) compute_tokens: u32,
        #[prost(uint64, tag = "3")]
        pub(super) total_time_ns: u64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct EmbedRequest {
        #[prost(string, tag = "1")]
        pub(super) inputs: String,
        #[prost(bool, tag = "2")]
        pub(super) truncate: bool,
        #[prost(bool, optional, tag = "3")]
        pub(super) normalize: Option<bool>,
        #[prost(int32, tag = "4")]
        pub(super) truncation_direction: i32,
        #[prost(string, optional, tag = "5")]
        pub(super) prompt_name: Option<String>,
        #[prost(uint32, optional, tag = "6")]
        pub(super) dimensions: Option<u32>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct EmbedResponse {
        #[prost(float, repeated, tag = "1")]
        pub(super) embeddings: Vec<f32>,
        #[prost(message, optional, tag = "2")]
        pub(super) metadata: Option<Metadata>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct EmbedSparseRequest {
        #[prost(string, tag = "1")]
        pub(super) inputs: String,
        #[prost(bool, tag = "2")]
        pub(super) truncate: bool,
        #[prost(int32, tag = "3")]
        pub(super) truncation_direction: i32,
        #[prost(string, optional, tag = "4")]
        pub(super) prompt_name: Option<String>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct SparseValue {
        #[prost(uint32, tag = "1")]
        pub(super) index: u32,
        #[prost(float, tag = "2")]
        pub(super) value: f32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct EmbedSparseResponse {
        #[prost(message, repeated, tag = "1")]
        pub(super) sparse_embeddings: Vec<SparseValue>,
        #[prost(message, optional, tag = "2")]
        pub(super) metadata: Option<Metadata>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct RerankRequest {
        #[prost(string, tag = "1")]
        pub(super) query: String,
        #[prost(string, repeated, tag = "2")]
        pub(super) texts: Vec<String>,
        #[prost(bool, tag = "3")]
        pub(super) truncate: bool,
        #[prost(bool, tag = "4")]
        pub(super) raw_scores: bool,
        #[prost(bool, tag = "5")]
        pub(super) return_text: bool,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Rank {
        #[prost(uint32, tag = "1")]
        pub(super) index: u32,
        #[prost(string, optional, tag = "2")]
        pub(super) text: Option<String>,
        #[prost(float, tag = "3")]
        pub(super) score: f32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct RerankResponse {
        #[prost(message, repeated, tag = "1")]
        pub(super) ranks: Vec<Rank>,
        #[prost(message, optional, tag = "2")]
        pub(super) metadata: Option<Metadata>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TokenizeRequest {
        #[prost(string, tag = "1")]
        pub(super) inputs: String,
        #[prost(bool, tag = "2")]
        pub(super) add_special_tokens: bool,
        #[prost(string, optional, tag = "3")]
        pub(super) prompt_name: Option<String>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Token {
        #[prost(uint32, tag = "1")]
        pub(super) id: u32,
        #[prost(string, tag = "2")]
        pub(super) text: String,
        #[prost(bool, tag = "3")]
        pub(super) special: bool,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TokenizeResponse {
        #[prost(message, repeated, tag = "1")]
        pub(super) tokens: Vec<Token>,
    }
}

fn tei_methods(model_type: i32) -> Vec<(&'static str, Method)> {
    vec![
        (
            "/tei.v1.Info/Info",
            method(move |_: tei::Empty| {
                Ok(tei::Info {
                    model_id: "theirs".into(),
                    model_sha: Some("abc".into()),
                    model_dtype: "float32".into(),
                    model_type,
                    max_input_length: 128,
                    max_client_batch_size: 32,
                    ..tei::Info::default()
                })
            }),
        ),
        (
            "/tei.v1.Embed/Embed",
            method(|request: tei::EmbedRequest| match request.inputs.as_str() {
                "busy" => Err(Status::resource_exhausted("Model is overloaded")),
                "long" => Err(Status::invalid_argument("`inputs` must have less than 128 tokens")),
                text => Ok(tei::EmbedResponse {
                    embeddings: match text {
                        "large" => vec![1.0; 1 << 20],
                        text => vector(text),
                    },
                    metadata: Some(tei::Metadata {
                        compute_tokens: 6,
                        ..tei::Metadata::default()
                    }),
                }),
            }),
        ),
        (
            "/tei.v1.Rerank/Rerank",
            method(|request: tei::RerankRequest| {
                let rank = |(index, text): (usize, &String)| tei::Rank {
                    index: index.try_into().unwrap(),
                    score: text.len() as f32,
                    ..tei::Rank::default()
                };
                Ok(tei::RerankResponse {
                    ranks: request.texts.iter().enumerate().map(rank).collect(),
                    metadata: Some(tei::Metadata {
                        compute_tokens: 11,
                        ..tei::Metadata::default()
                    }),
                })
            }),
        ),
        (
            "/tei.v1.Tokenize/Tokenize",
            method(|request: tei::TokenizeRequest| {
                Ok(tei::TokenizeResponse {
                    tokens: vec![tei::Token::default(); request.inputs.len()],
                })
            }),
        ),
    ]
}

#[tokio::test]
async fn an_answer_that_is_too_long_counts_and_a_refusal_does_not() {
    let stub = GrpcStub::start(tei_methods(0)).await;
    let backend = connect(&provider(ProviderKind::TeiGrpc, &stub.address));
    for (text, code, texts) in [
        ("large", Code::OutOfRange, 1),
        ("long", Code::InvalidArgument, 0),
        ("busy", Code::ResourceExhausted, 0),
    ] {
        let count = Count::default();
        let fault = metered(&count, backend.encode(of(&[text]), None)).await.unwrap_err();
        assert_eq!((fault.code, count.used().texts), (code, texts), "{fault}");
    }
}

#[tokio::test]
async fn tei_is_sent_a_text_a_call() {
    let stub = GrpcStub::start(tei_methods(0)).await;
    let (mut provider, _secret) = with_secret(provider(ProviderKind::TeiGrpc, &stub.address));
    provider.input_types.insert("query".into(), "q".into());
    provider.headers.insert("x-project".into(), "search".into());
    let backend = connect(&provider);
    let all: Vec<String> = (0..50).map(|number| format!("text {number}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let answer = backend.encode(of(&all), None).await.unwrap();
    assert_eq!(rows(&answer), vectors(&all));
    let usage = answer.usage.unwrap();
    assert_eq!((usage.tokens, usage.tokens_estimated), (300, false));
    assert_eq!(answer.token_counts, [6; 50]);
    let space = answer.vector_space.unwrap();
    assert_eq!(
        (space.model_id.as_str(), space.pooling.as_str()),
        ("tei/theirs@abc", "provider")
    );
    let asked = EncodeRequest {
        truncation: Truncation::Head.into(),
        normalise: Some(false),
        dimensions: Some(4),
        ..named("query", &["last"])
    };
    backend.encode(asked, None).await.unwrap();
    let sent: Vec<tei::EmbedRequest> = stub.sent("/tei.v1.Embed/Embed");
    assert!(sent.contains(&tei::EmbedRequest {
        inputs: "text 7".into(),
        truncate: true,
        normalize: Some(true),
        ..tei::EmbedRequest::default()
    }));
    let last = tei::EmbedRequest {
        inputs: "last".into(),
        truncate: true,
        normalize: Some(false),
        truncation_direction: 1,
        prompt_name: Some("q".into()),
        dimensions: Some(4),
    };
    assert_eq!(sent.last(), Some(&last));
    let metadata = stub.metadata("/tei.v1.Embed/Embed");
    assert_eq!(
        metadata.get("authorization").unwrap(),
        format!("Bearer {SECRET}").as_str()
    );
    assert_eq!(metadata.get("x-project").unwrap(), "search");
    assert!(metadata.contains_key("grpc-timeout"));
    let busy = backend.encode(of(&["busy"]), None).await.unwrap_err();
    assert_eq!(busy.code, Code::ResourceExhausted);
    let long = backend.encode(of(&["long"]), None).await.unwrap_err();
    assert_eq!(long.code, Code::InvalidArgument);
    backend.healthy().await.unwrap();
    // The names of its prompts are reported, without their texts, which the server does not report.
    let described = backend.get("ours").await.unwrap();
    assert_eq!(described.prompt_names, ["query"]);
    assert!(described.prompts.is_empty());
}

#[tokio::test]
async fn tei_counts_and_ranks() {
    let stub = GrpcStub::start(tei_methods(2)).await;
    let backend = connect(&provider(ProviderKind::TeiGrpc, &stub.address));
    let request = CountTokensRequest {
        encoder_id: "ours".into(),
        texts: vec!["ab".into(), "abc".into()],
        ..CountTokensRequest::default()
    };
    assert_eq!(backend.count_tokens(request, None).await.unwrap().token_counts, [2, 3]);
    let sent: Vec<tei::TokenizeRequest> = stub.sent("/tei.v1.Tokenize/Tokenize");
    assert!(
        sent.iter()
            .all(|request| request.add_special_tokens && request.prompt_name.is_none())
    );
    let request = RerankRequest {
        encoder_id: "ours".into(),
        query: "which".into(),
        documents: vec!["a".into(), "aaa".into(), "aa".into()],
        top_n: Some(2),
        ..RerankRequest::default()
    };
    let ranked = backend.rerank(request, None).await.unwrap();
    let order: Vec<u32> = ranked.results.iter().map(|result| result.index).collect();
    assert_eq!(
        (order.as_slice(), ranked.usage.unwrap().tokens),
        ([1, 2].as_slice(), 11)
    );
    let sent: Vec<tei::RerankRequest> = stub.sent("/tei.v1.Rerank/Rerank");
    assert_eq!(
        sent,
        [tei::RerankRequest {
            query: "which".into(),
            texts: vec!["a".into(), "aaa".into(), "aa".into()],
            truncate: true,
            ..tei::RerankRequest::default()
        }]
    );
}

/// `core/src/infer.rs` of version 1.9: SPLADE pooling refuses vectors of unit length.
#[tokio::test]
async fn tei_with_splade_gives_sparse_vectors_a_text_a_call() {
    let mut methods = tei_methods(0);
    methods.retain(|(path, _)| *path != "/tei.v1.Embed/Embed");
    methods.push((
        "/tei.v1.Embed/Embed",
        method(|_: tei::EmbedRequest| -> Result<tei::EmbedResponse, _> {
            Err(Status::failed_precondition(
                "`normalize` is not available for SPLADE models",
            ))
        }),
    ));
    methods.push((
        "/tei.v1.Embed/EmbedSparse",
        method(|request: tei::EmbedSparseRequest| {
            let value = request.inputs.len() as f32;
            Ok(tei::EmbedSparseResponse {
                sparse_embeddings: [3, 9].map(|index| tei::SparseValue { index, value }).into(),
                metadata: Some(tei::Metadata {
                    compute_tokens: 6,
                    ..tei::Metadata::default()
                }),
            })
        }),
    ));
    let stub = GrpcStub::start(methods).await;
    let backend = connect(&provider(ProviderKind::TeiGrpc, &stub.address));
    let request = EncodeRequest {
        output: Output::Sparse.into(),
        ..of(&["a", "ab"])
    };
    let answer = backend.encode(request, None).await.unwrap();
    let values: Vec<_> = answer
        .sparse_embeddings
        .iter()
        .map(|vector| vector.values.clone())
        .collect();
    assert_eq!(values, [vec![1.0, 1.0], vec![2.0, 2.0]]);
    assert_eq!(answer.sparse_embeddings[0].indices, [3, 9]);
    assert_eq!(answer.usage.unwrap().tokens, 12);
    let sent: Vec<tei::EmbedSparseRequest> = stub.sent("/tei.v1.Embed/EmbedSparse");
    assert!(sent.iter().all(|request| request.truncate), "{sent:?}");
    // The server does not name its pooling.
    let encoder = backend.get("ours").await.unwrap();
    assert_eq!(encoder.capabilities, [i32::from(Capability::Sparse)]);
}
