//! The Open Inference Protocol over gRPC.

use isomer_proto::gateway::v1::{ProviderKind, ProviderLimits};
use isomer_stubs::grpc::{GrpcStub, Method, method};
use prost::Message;
use tonic::{Code, Status};

use crate::support::{connect, of, provider, rows, vector, vectors};

/// `inference` as published, with the parts that a server needs.
mod oip {
    use super::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Empty {}

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Live {
        #[prost(bool, tag = "1")]
        pub(super) live: bool,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct NameVersion {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) version: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TensorMetadata {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) datatype: String,
        #[prost(int64, repeated, tag = "3")]
        pub(super) shape: Vec<i64>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ModelMetadata {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, repeated, tag = "2")]
        pub(super) versions: Vec<String>,
        #[prost(string, tag = "3")]
        pub(super) platform: String,
        #[prost(message, repeated, tag = "4")]
        pub(super) inputs: Vec<TensorMetadata>,
        #[prost(message, repeated, tag = "5")]
        pub(super) outputs: Vec<TensorMetadata>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Contents {
        #[prost(bool, repeated, tag = "1")]
        pub(super) bools: Vec<bool>,
        #[prost(float, repeated, tag = "6")]
        pub(super) fp32: Vec<f32>,
        #[prost(double, repeated, tag = "7")]
        pub(super) fp64: Vec<f64>,
        #[prost(bytes = "vec", repeated, tag = "8")]
        pub(super) bytes: Vec<Vec<u8>>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Tensor {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) datatype: String,
        #[prost(int64, repeated, tag = "3")]
        pub(super) shape: Vec<i64>,
        #[prost(message, optional, tag = "5")]
        pub(super) contents: Option<Contents>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct RequestedOutput {
        #[prost(string, tag = "1")]
        pub(super) name: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct InferRequest {
        #[prost(string, tag = "1")]
        pub(super) model_name: String,
        #[prost(string, tag = "2")]
        pub(super) model_version: String,
        #[prost(string, tag = "3")]
        pub(super) id: String,
        #[prost(message, repeated, tag = "5")]
        pub(super) inputs: Vec<Tensor>,
        #[prost(message, repeated, tag = "6")]
        pub(super) outputs: Vec<RequestedOutput>,
        #[prost(bytes = "vec", repeated, tag = "7")]
        pub(super) raw_input_contents: Vec<Vec<u8>>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct InferResponse {
        #[prost(string, tag = "1")]
        pub(super) model_name: String,
        #[prost(string, tag = "2")]
        pub(super) model_version: String,
        #[prost(message, repeated, tag = "5")]
        pub(super) outputs: Vec<Tensor>,
        #[prost(bytes = "vec", repeated, tag = "6")]
        pub(super) raw_output_contents: Vec<Vec<u8>>,
    }
}

fn tensor(name: &str, datatype: &str, shape: &[i64]) -> oip::TensorMetadata {
    oip::TensorMetadata {
        name: name.into(),
        datatype: datatype.into(),
        shape: shape.to_vec(),
    }
}

fn oip_methods(
    inputs: Vec<oip::TensorMetadata>,
    outputs: Vec<oip::TensorMetadata>,
    raw: bool,
) -> Vec<(&'static str, Method)> {
    vec![
        (
            "/inference.GRPCInferenceService/ServerLive",
            method(|_: oip::Empty| Ok(oip::Live { live: true })),
        ),
        (
            "/inference.GRPCInferenceService/ModelMetadata",
            method(move |request: oip::NameVersion| match request.name.as_str() {
                "theirs" => Ok(oip::ModelMetadata {
                    name: request.name,
                    versions: vec!["3".into()],
                    platform: "ensemble".into(),
                    inputs: inputs.clone(),
                    outputs: outputs.clone(),
                }),
                _ => Err(Status::not_found("Request for unknown model")),
            }),
        ),
        (
            "/inference.GRPCInferenceService/ModelInfer",
            method(move |request: oip::InferRequest| {
                let texts = request.inputs[0].contents.clone().unwrap().bytes;
                let values: Vec<f32> = texts
                    .iter()
                    .flat_map(|text| vector(str::from_utf8(text).unwrap()))
                    .collect();
                let mut tensor = oip::Tensor {
                    name: request.outputs[0].name.clone(),
                    datatype: "FP32".into(),
                    shape: vec![texts.len().try_into().unwrap(), 4],
                    contents: None,
                };
                let mut response = oip::InferResponse::default();
                if raw {
                    response.raw_output_contents = vec![values.iter().flat_map(|value| value.to_le_bytes()).collect()];
                } else {
                    tensor.contents = Some(oip::Contents {
                        fp32: values,
                        ..oip::Contents::default()
                    });
                }
                response.outputs = vec![tensor];
                Ok(response)
            }),
        ),
    ]
}

#[tokio::test]
async fn open_inference_finds_the_tensors_and_reads_both_kinds_of_contents() {
    for (raw, shape) in [(true, vec![-1]), (false, vec![-1, 1])] {
        let outputs = vec![
            tensor("last_hidden_state", "FP32", &[-1, -1, 4]),
            tensor("norms", "FP32", &[-1, 1]),
            tensor("sentence_embedding", "FP32", &[-1, 4]),
        ];
        let stub = GrpcStub::start(oip_methods(vec![tensor("TEXT", "BYTES", &shape)], outputs, raw)).await;
        let mut limited = provider(ProviderKind::OipV2Grpc, &stub.address);
        limited.limits = Some(ProviderLimits {
            max_batch_items: 2,
            ..ProviderLimits::default()
        });
        let backend = connect(&limited);
        let answer = backend.encode(of(&["one", "two", "three"]), None).await.unwrap();
        assert_eq!(rows(&answer), vectors(&["one", "two", "three"]));
        assert_eq!(answer.vector_space.unwrap().model_id, "oip/theirs@3");
        assert!(answer.usage.unwrap().tokens_estimated);
        let sent: Vec<oip::InferRequest> = stub.sent("/inference.GRPCInferenceService/ModelInfer");
        let first = sent.iter().find(|request| request.inputs[0].shape[0] == 2).unwrap();
        let mut expected = shape.clone();
        expected[0] = 2;
        assert_eq!(first.model_name, "theirs");
        assert_eq!(
            first.inputs,
            [oip::Tensor {
                name: "TEXT".into(),
                datatype: "BYTES".into(),
                shape: expected,
                contents: Some(oip::Contents {
                    bytes: vec![b"one".to_vec(), b"two".to_vec()],
                    ..oip::Contents::default()
                }),
            }]
        );
        assert_eq!(first.outputs[0].name, "sentence_embedding");
        backend.healthy().await.unwrap();
        assert_eq!(backend.get("ours").await.unwrap().dimensions, 4);
    }
}

#[tokio::test]
async fn open_inference_models_that_take_or_give_something_else_are_refused() {
    let text = || vec![tensor("TEXT", "BYTES", &[-1])];
    let vectors = || vec![tensor("V", "FP32", &[-1, 4])];
    let ids = vec![
        tensor("input_ids", "INT64", &[-1, -1]),
        tensor("attention_mask", "INT64", &[-1, -1]),
    ];
    let tokens = vec![tensor("last_hidden_state", "FP32", &[-1, -1, 4])];
    let two = vec![tensor("a", "FP32", &[-1, 4]), tensor("b", "FP32", &[-1, 4])];
    for (inputs, outputs, says) in [
        (ids, vectors(), "input_ids"),
        (text(), tokens, "last_hidden_state"),
        (text(), two, "b (FP32"),
    ] {
        let stub = GrpcStub::start(oip_methods(inputs, outputs, true)).await;
        let fault = connect(&provider(ProviderKind::OipV2Grpc, &stub.address))
            .encode(of(&["a"]), None)
            .await
            .unwrap_err();
        assert_eq!(fault.reason, "PROVIDER_OTHER_MODEL");
        assert!(fault.message.contains(says), "{fault}");
    }
    let stub = GrpcStub::start(oip_methods(text(), vectors(), true)).await;
    let mut unknown = provider(ProviderKind::OipV2Grpc, &stub.address);
    unknown.encoders.insert("ours".into(), "other".into());
    let fault = connect(&unknown).encode(of(&["a"]), None).await.unwrap_err();
    assert_eq!(fault.code, Code::NotFound);
}
