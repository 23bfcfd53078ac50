//! Open Inference Protocol, version 2, over gRPC: KServe, NVIDIA Triton, MLServer, OpenVINO Model
//! Server and others.
//!
//! Source: `open_inference_grpc.proto` of <https://github.com/kserve/open-inference-protocol>,
//! package `inference`. The messages below describe the fields that are used, by its numbers. A
//! usable model takes strings (one `BYTES` tensor) and returns vectors (a tensor of rank 2 in
//! `FP32`, `FP16` or `FP64`); the model's metadata gives the names of its tensors. The protocol has
//! no truncation, no kinds of input and no choice of dimensions: the model decides them.

mod messages;
mod tensors;

use isomer_proto::gateway::v1::ProviderKind;
use isomer_service_kit::Fault;

use self::messages::{
    InferInput, InferOutput, InferRequest, InferResponse, LiveRequest, LiveResponse, MetadataRequest, ModelMetadata,
};
use super::kind::{Kind, foreign};
use crate::{
    foreign::{Facts, Protocol, Rows, TensorNames},
    grpc::Grpc,
    limits::{AnswerLimit, BatchLimit, Deadline},
    params::{AT_ONCE, Abilities, InputTypes, Params, Piece},
    rest::bad_answer,
};

const ABILITIES: Abilities = Abilities {
    kind: "oip",
    input_types: InputTypes::None,
    cuts: &[],
    dimensions: false,
    token_ids: false,
    counts: false,
    sparse: false,
    reranks: false,
    most_items: BatchLimit::UNKNOWN,
    most_tokens: BatchLimit::UNKNOWN,
    most_documents: BatchLimit::UNKNOWN,
    at_once: AT_ONCE,
};

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::OipV2Grpc,
    grpc: true,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| {
        foreign(&KIND, provider, surroundings, |target| {
            Ok(OpenInference(Grpc::new(target)?))
        })
    },
};

#[derive(Debug)]
pub(super) struct OpenInference(Grpc);

impl OpenInference {
    async fn metadata(&self, model: &str) -> Result<ModelMetadata, Fault> {
        let request = MetadataRequest {
            name: model.to_owned(),
            version: String::new(),
        };
        self.0
            .unary(
                "/inference.GRPCInferenceService/ModelMetadata",
                request,
                AnswerLimit::FACTS,
                None,
            )
            .await
    }
}

#[tonic::async_trait]
impl Protocol for OpenInference {
    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    async fn facts(&self, model: &str) -> Result<Facts, Fault> {
        let metadata = self.metadata(model).await?;
        let names = TensorNames::of(&metadata, model)?;
        Ok(Facts {
            revision: match metadata.versions.as_slice() {
                [one] => one.clone(),
                // If the model has several versions, the server chooses one.
                _ => String::new(),
            },
            architecture: metadata.platform,
            dimensions: names.dimensions,
            max_items: names.most,
            tensors: Some(names),
            ..Facts::default()
        })
    }

    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let id = &self.0.target.id;
        let texts = piece.texts()?;
        let names = facts
            .tensors
            .as_ref()
            .ok_or_else(|| Fault::internal("no metadata of a model's tensors"))?;
        let request = InferRequest {
            model_name: params.model.clone(),
            inputs: vec![InferInput::of_texts(&names.input, names.input_rank, texts)],
            outputs: vec![InferOutput {
                name: names.output.clone(),
            }],
        };
        let limit = AnswerLimit::vectors(texts.len(), facts.dimensions);
        let answer: InferResponse = self
            .0
            .unary("/inference.GRPCInferenceService/ModelInfer", request, limit, deadline)
            .await?;
        let vectors = tensors::vectors(answer, &names.output, texts.len()).map_err(|what| bad_answer(id, what))?;
        Ok(Rows {
            vectors,
            tokens: None,
            each: None,
        })
    }

    async fn healthy(&self) -> Result<(), Fault> {
        let answer: LiveResponse = self
            .0
            .unary(
                "/inference.GRPCInferenceService/ServerLive",
                LiveRequest {},
                AnswerLimit::FACTS,
                None,
            )
            .await?;
        if answer.live {
            return Ok(());
        }
        Err(Fault::unavailable(
            "PROVIDER_NOT_SERVING",
            "the server reports that it is not live",
        ))
    }
}
