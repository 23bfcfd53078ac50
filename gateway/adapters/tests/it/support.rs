//! Providers, requests to them, and their answers.

use std::sync::Arc;

use isomer_adapters::{AddressGuard, EncoderBackend, GuardConfig, Kind, Surroundings};
use isomer_proto::{
    encoder::v1::{EncodeRequest, EncodeResponse, RerankRequest, Truncation, encode_request::Prompt},
    gateway::v1::{Provider, ProviderKind, SecretRef, secret_ref::Source},
};
use isomer_service_kit::Fault;
pub(crate) use isomer_stubs::http::{Call, Reply, Stub};
use isomer_stubs::{openai, request};
use serde_json::Value;
use tempfile::NamedTempFile;

/// The secret of every provider that has one.
pub(crate) const SECRET: &str = "sk-stub-secret-42";

/// A vector of unit length that differs from text to text.
pub(crate) fn vector(text: &str) -> Vec<f32> {
    let mut values = [0.5_f32; 4];
    for (at, byte) in text.bytes().enumerate() {
        values[at % 4] += f32::from(byte);
    }
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    values.iter().map(|value| value / length).collect()
}

/// The texts of a JSON list.
pub(crate) fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list of texts");
    list.iter()
        .map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

/// An answer in OpenAI's shape; each text has seven tokens.
pub(crate) fn listed(call: &Call) -> Value {
    let tokens = 7 * openai::inputs(&call.body).len() as u64;
    openai::embeddings(&call.body, vector, tokens)
}

pub(crate) fn provider(kind: ProviderKind, address: &str) -> Provider {
    Provider {
        id: "stub".into(),
        kind: kind.into(),
        address: address.into(),
        encoders: [("ours".to_owned(), "theirs".to_owned())].into(),
        ..Provider::default()
    }
}

/// A provider of a kind, with an input type if the kind needs one.
pub(crate) fn provider_of(kind: &Kind, address: &str) -> Provider {
    let provider = provider(kind.value, address);
    match kind.needs_input_types() {
        true => with_types(provider, &[("", "search_document")]),
        false => provider,
    }
}

/// The provider, with its secret in a file.
pub(crate) fn with_secret(mut provider: Provider) -> (Provider, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{SECRET}\n")).unwrap();
    provider.secret = Some(SecretRef {
        source: Some(Source::File(file.path().display().to_string())),
    });
    (provider, file)
}

pub(crate) fn surroundings(allow: &[&str]) -> Surroundings {
    let config = GuardConfig {
        allow: allow.iter().map(ToString::to_string).collect(),
    };
    Surroundings {
        guard: AddressGuard::new(&config).unwrap(),
        max_message_bytes: 1 << 20,
    }
}

pub(crate) fn try_connect(provider: &Provider) -> Result<Arc<dyn EncoderBackend>, Fault> {
    isomer_adapters::connect(provider, &surroundings(&["127.0.0.1", "localhost"]))
}

pub(crate) fn connect(provider: &Provider) -> Arc<dyn EncoderBackend> {
    try_connect(provider).unwrap()
}

pub(crate) fn of(texts: &[&str]) -> EncodeRequest {
    request::encode("ours", texts.iter().copied())
}

pub(crate) fn named(prompt: &str, texts: &[&str]) -> EncodeRequest {
    EncodeRequest {
        prompt: Some(Prompt::PromptName(prompt.into())),
        ..of(texts)
    }
}

pub(crate) fn literal(prompt: &str, texts: &[&str]) -> EncodeRequest {
    EncodeRequest {
        prompt: Some(Prompt::LiteralPrompt(prompt.into())),
        ..of(texts)
    }
}

pub(crate) fn rows(answer: &EncodeResponse) -> Vec<Vec<f32>> {
    let matrix = answer.embeddings.as_ref().unwrap();
    let values: Vec<f32> = matrix
        .data
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    values.chunks_exact(matrix.cols as usize).map(<[f32]>::to_vec).collect()
}

pub(crate) fn vectors(texts: &[&str]) -> Vec<Vec<f32>> {
    texts.iter().map(|text| vector(text)).collect()
}

pub(crate) fn with_types(mut provider: Provider, types: &[(&str, &str)]) -> Provider {
    provider.input_types = types
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned()))
        .collect();
    provider
}

pub(crate) fn long(truncation: Truncation, request: EncodeRequest) -> EncodeRequest {
    EncodeRequest {
        truncation: truncation.into(),
        ..request
    }
}

pub(crate) fn rank(top_n: Option<u32>) -> RerankRequest {
    RerankRequest {
        encoder_id: "ours".into(),
        query: "which".into(),
        documents: vec!["first".into(), "second".into(), "third".into()],
        top_n,
        ..RerankRequest::default()
    }
}

/// Headers of every call to a provider with a secret.
pub(crate) fn assert_posted(call: &Call) {
    assert_eq!(call.method, "POST");
    assert_eq!(call.headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(call.headers["content-type"], "application/json");
    assert_eq!(call.headers["x-project"], "search");
}

pub(crate) fn dressed(kind: ProviderKind, address: &str) -> (Provider, NamedTempFile) {
    let mut provider = provider(kind, address);
    provider.headers.insert("x-project".into(), "search".into());
    with_secret(provider)
}
