//! Stub servers over HTTP, and requests.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, extract::Request, response::IntoResponse};
use http::{HeaderMap, StatusCode};
use isomer_adapters::{AddressGuard, EncoderBackend, GuardConfig, Surroundings};
use isomer_proto::{
    encoder::v1::{EncodeRequest, EncodeResponse, Input, RerankRequest, Truncation, encode_request::Prompt, input},
    gateway::v1::{Provider, ProviderKind, SecretRef, secret_ref::Source},
};
use isomer_service_kit::Fault;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// The secret of every provider that has one.
pub(crate) const SECRET: &str = "sk-stub-secret-42";

/// What a stub was sent.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// What a stub answers.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) after: Duration,
}

impl Reply {
    pub(crate) fn ok(body: Value) -> Self {
        Self::of(200, body)
    }

    pub(crate) fn of(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.to_string(),
            after: Duration::ZERO,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn after(mut self, time: Duration) -> Self {
        self.after = time;
        self
    }
}

/// A server on a port of its own that remembers what it was sent.
pub(crate) struct Stub {
    pub(crate) address: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Stub {
    pub(crate) async fn start(answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let router = router(Arc::clone(&calls), answer);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, calls }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// The calls of one path.
    pub(crate) fn calls_of(&self, path: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.path == path).collect()
    }
}

pub(crate) fn router(calls: Arc<Mutex<Vec<Call>>>, answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Router {
    let answer = Arc::new(answer);
    Router::new().fallback(move |request: Request| {
        let (calls, answer) = (Arc::clone(&calls), Arc::clone(&answer));
        async move {
            let (parts, body) = request.into_parts();
            let body: Bytes = axum::body::to_bytes(body, 64 << 20).await.unwrap();
            let call = Call {
                method: parts.method.to_string(),
                path: parts.uri.path().to_owned(),
                headers: parts.headers,
                body: serde_json::from_slice(&body).unwrap_or(Value::Null),
            };
            let reply = answer(&call);
            calls.lock().unwrap().push(call);
            tokio::time::sleep(reply.after).await;
            let mut response = (StatusCode::from_u16(reply.status).unwrap(), reply.body).into_response();
            for (name, value) in reply.headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
    })
}

/// A vector of unit length that tells texts apart.
pub(crate) fn vector(text: &str) -> Vec<f32> {
    let mut values = [0.5_f32; 4];
    for (at, byte) in text.bytes().enumerate() {
        values[at % 4] += f32::from(byte);
    }
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    values.iter().map(|value| value / length).collect()
}

/// The texts of a list in JSON.
pub(crate) fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list of texts");
    list.iter()
        .map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

/// An answer in OpenAI's shape, with the vectors as numbers and backwards: clients go by the index.
pub(crate) fn listed(call: &Call) -> Value {
    let texts = texts(&call.body["input"]);
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .rev()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text)}))
        .collect();
    json!({"object": "list", "data": data, "model": call.body["model"], "usage": {"prompt_tokens": 7 * texts.len(), "total_tokens": 7 * texts.len()}})
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

/// The provider with the secret in a file.
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
    let input = |text: &&str| Input {
        input: Some(input::Input::Text((*text).to_owned())),
    };
    EncodeRequest {
        encoder_id: "ours".into(),
        inputs: texts.iter().map(input).collect(),
        ..EncodeRequest::default()
    }
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

/// Sent by everyone with a secret.
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
