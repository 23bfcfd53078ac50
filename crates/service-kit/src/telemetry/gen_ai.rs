//! Spans of model calls, by OpenTelemetry's semantic conventions 1.45 for generative AI. Those
//! conventions are still in development.
//!
//! Inputs and outputs of a model are never part of a span.

use tracing::{Span, field::Empty};

/// The operation of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Computing vectors of texts.
    Embeddings,
    /// Scoring documents. The conventions have no name for this operation.
    Rerank,
    /// The next message of a conversation.
    Chat,
    /// The continuation of a text.
    TextCompletion,
}

isomer_names::names!(Operation {
    Embeddings = "embeddings", Rerank = "rerank", Chat = "chat", TextCompletion = "text_completion"
});

/// The provider that answers, with its kind and address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    name: &'static str,
    server: Option<(String, u16)>,
}

impl Provider {
    /// A model in this process.
    pub const HERE: Self = Self {
        name: "isomer",
        server: None,
    };

    /// A server; `name` is its name in the conventions, if there is one.
    pub fn server(name: &'static str, host: impl Into<String>, port: u16) -> Self {
        Self {
            name,
            server: Some((host.into(), port)),
        }
    }
}

/// The span of one call of a model. It ends when dropped.
#[derive(Debug)]
#[must_use = "the span ends when this is dropped"]
pub struct ModelCall(Span);

impl ModelCall {
    /// Begins a call: CLIENT for a call to a server, INTERNAL for one in this process.
    pub fn start(operation: Operation, provider: &Provider, model: &str) -> Self {
        let server = provider.server.as_ref();
        Self(tracing::info_span!(
            "model",
            otel.kind = if server.is_some() { "client" } else { "internal" },
            otel.name = format!("{} {model}", operation.name()),
            otel.status_code = Empty,
            gen_ai.operation.name = operation.name(),
            gen_ai.provider.name = provider.name,
            gen_ai.request.model = model,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            server.address = server.map(|(host, _)| host.as_str()),
            server.port = server.map(|(_, port)| i64::from(*port)),
            "error.type" = Empty,
        ))
    }

    /// The span, for work within the call.
    pub fn span(&self) -> Span {
        self.0.clone()
    }

    /// Records the tokens of the input.
    pub fn input_tokens(&self, tokens: u64) {
        self.0.record("gen_ai.usage.input_tokens", number(tokens));
    }

    /// Records the tokens of the output.
    pub fn output_tokens(&self, tokens: u64) {
        self.0.record("gen_ai.usage.output_tokens", number(tokens));
    }

    /// Records that the call failed; `kind` is one of a bounded set.
    pub fn failed(&self, kind: &str) {
        self.0.record("error.type", kind);
        self.0.record("otel.status_code", "ERROR");
    }
}

/// A number as an attribute. It is signed because an unsigned number would become text.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
