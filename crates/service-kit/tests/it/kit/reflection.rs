use futures::stream;
use isomer_service_kit::{GrpcChannel, LimitsConfig};
use prost::Message;
use prost_types::FileDescriptorProto;

use crate::support::{ScriptedEncoder, in_memory};

/// The same requests in both versions: v1 for new clients, v1alpha for Python's.
macro_rules! reflection {
    ($version:ident) => {
        mod $version {
            use tonic_reflection::pb::$version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
            };

            use super::*;

            async fn ask(channel: &GrpcChannel, question: MessageRequest) -> MessageResponse {
                let mut client = ServerReflectionClient::new(channel.clone());
                let request = ServerReflectionRequest {
                    host: String::new(),
                    message_request: Some(question),
                };
                let answers = client
                    .server_reflection_info(stream::iter([request]))
                    .await
                    .unwrap();
                answers
                    .into_inner()
                    .message()
                    .await
                    .unwrap()
                    .unwrap()
                    .message_response
                    .unwrap()
            }

            async fn file(channel: &GrpcChannel, question: MessageRequest) -> FileDescriptorProto {
                match ask(channel, question).await {
                    MessageResponse::FileDescriptorResponse(found) => {
                        FileDescriptorProto::decode(found.file_descriptor_proto[0].as_slice()).unwrap()
                    }
                    other => panic!("{other:?}"),
                }
            }

            #[tokio::test]
            async fn lists_what_is_served_and_nothing_else() {
                let channel = in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
                let MessageResponse::ListServicesResponse(list) =
                    ask(&channel, MessageRequest::ListServices(String::new())).await
                else {
                    panic!("not a list");
                };
                let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
                assert_eq!(
                    names,
                    [
                        "grpc.health.v1.Health",
                        "grpc.reflection.v1.ServerReflection",
                        "grpc.reflection.v1alpha.ServerReflection",
                        "isomer.encoder.v1.EncoderService"
                    ]
                );
            }

            #[tokio::test]
            async fn every_symbol_and_every_file_it_needs_is_found() {
                let channel = in_memory(&ScriptedEncoder::default(), &LimitsConfig::default()).await;
                for symbol in [
                    "isomer.encoder.v1.EncoderService",
                    "isomer.encoder.v1.EncoderService.Encode",
                    "isomer.common.v1.Matrix",
                    "grpc.health.v1.Health",
                    "grpc.reflection.v1.ServerReflection",
                    "grpc.reflection.v1alpha.ServerReflection",
                ] {
                    let mut wanted =
                        vec![file(&channel, MessageRequest::FileContainingSymbol(symbol.to_owned())).await];
                    while let Some(next) = wanted.pop() {
                        for dependency in next.dependency {
                            let found = file(&channel, MessageRequest::FileByFilename(dependency.clone())).await;
                            assert_eq!(found.name(), dependency);
                            wanted.push(found);
                        }
                    }
                }
            }
        }
    };
}

reflection!(v1);
reflection!(v1alpha);
