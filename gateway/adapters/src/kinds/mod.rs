//! The protocols, one per file. Their messages follow the public documents that each file names, as
//! of November 2026.

mod cohere;
mod hugging_face;
mod jina;
mod listed;
mod ollama;
mod open_inference;
mod openai;
mod tei;
mod tei_grpc;
mod tei_http;
mod voyage;

pub(crate) use open_inference::TensorNames;

use isomer_proto::gateway::v1::{Provider, ProviderKind};
use isomer_service_kit::Fault;

use crate::{Surroundings, foreign::Protocol, grpc::Grpc, rest::Rest, target::Target};

/// The protocol of a kind, with the provider's target. `None` for other kinds.
pub(crate) fn protocol(
    provider: &Provider,
    surroundings: &Surroundings,
) -> Result<Option<(Box<dyn Protocol>, Target)>, Fault> {
    let target = |grpc| Target::new(provider, surroundings, grpc);
    let rest = || Rest::new(target(false)?);
    let grpc = || Grpc::new(target(true)?);
    let protocol: Box<dyn Protocol> = match provider.kind() {
        ProviderKind::TeiGrpc => Box::new(tei_grpc::TeiGrpc::new(grpc()?)),
        ProviderKind::TeiHttp => Box::new(tei_http::TeiHttp::new(rest()?)),
        ProviderKind::Openai => Box::new(openai::OpenAi::new(rest()?)),
        ProviderKind::CohereV2 => Box::new(cohere::Cohere::new(rest()?)),
        ProviderKind::Voyage => Box::new(voyage::Voyage::new(rest()?)),
        ProviderKind::Ollama => Box::new(ollama::Ollama::new(rest()?)),
        ProviderKind::Jina => Box::new(jina::Jina::new(rest()?)),
        ProviderKind::OipV2Grpc => Box::new(open_inference::OpenInference::new(grpc()?)),
        ProviderKind::HuggingFace => Box::new(hugging_face::HuggingFace::new(rest()?, provider.encoders.len())?),
        ProviderKind::Isomer | ProviderKind::Unspecified => return Ok(None),
    };
    Ok(Some((protocol, target(true).or_else(|_| target(false))?)))
}
