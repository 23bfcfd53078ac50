//! Requests of OpenAI's protocol: async-openai's types plus missing fields. [`super::reply`] has
//! the responses.

use async_openai::types::{
    chat::{
        ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage,
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest, Prompt,
    },
    completions::CreateCompletionRequest,
};
use serde::Serialize;

use super::{
    Request,
    parameters::{OmittedParameters, Parameter},
    structured::response_format,
};
use crate::prompt::{Message, Role};

/// OpenAI's seeds are signed.
const SEED_MASK: u64 = i64::MAX as u64;

/// A request with the fields that async-openai's type lacks or stores with less precision.
#[derive(Debug, Serialize)]
pub(super) struct ExtendedRequest<R> {
    #[serde(flatten)]
    request: R,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    /// Supported by vLLM, Ollama and llama.cpp, but not by OpenAI itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
}

impl<R> ExtendedRequest<R> {
    fn new(request: R, sampling: &Request, omitted: OmittedParameters) -> Self {
        Self {
            request,
            temperature: omitted.unless(Parameter::Temperature, sampling.temperature),
            top_p: omitted.unless(Parameter::TopP, sampling.top_p),
            top_k: sampling.top_k.and_then(|top_k| omitted.unless(Parameter::TopK, top_k)),
        }
    }
}

fn seed(request: &Request, omitted: OmittedParameters) -> Option<i64> {
    omitted.unless(Parameter::Seed, i64::try_from(request.seed & SEED_MASK).ok()?)
}

fn message(message: &Message) -> ChatCompletionRequestMessage {
    let content = message.content.as_str();
    match message.role {
        Role::System => ChatCompletionRequestSystemMessage::from(content).into(),
        Role::Assistant => ChatCompletionRequestAssistantMessage::from(content).into(),
        Role::User | Role::Text => ChatCompletionRequestUserMessage::from(content).into(),
    }
}

/// A conversation for `/chat/completions`.
#[expect(
    deprecated,
    reason = "every compatible server knows max_tokens and seed, few know their successors"
)]
pub(super) fn conversation(
    model: &str,
    request: &Request,
    omitted: OmittedParameters,
) -> ExtendedRequest<CreateChatCompletionRequest> {
    let max_tokens = omitted.unless(Parameter::MaxTokens, request.max_tokens);
    let successor = omitted.unless(Parameter::MaxCompletionTokens, request.max_tokens);
    let is_structured = request.is_one_text && !omitted.has(Parameter::ResponseFormat);
    let chat = CreateChatCompletionRequest {
        model: model.to_owned(),
        messages: request.messages.iter().map(message).collect(),
        max_tokens,
        max_completion_tokens: successor.filter(|_| max_tokens.is_none()),
        response_format: is_structured.then(response_format),
        seed: seed(request, omitted),
        stream: Some(false),
        ..CreateChatCompletionRequest::default()
    };
    ExtendedRequest::new(chat, request, omitted)
}

/// A text to continue, for `/completions`.
pub(super) fn continuation(
    model: &str,
    text: &str,
    request: &Request,
    omitted: OmittedParameters,
) -> ExtendedRequest<CreateCompletionRequest> {
    let completion = CreateCompletionRequest {
        model: model.to_owned(),
        prompt: Prompt::String(text.to_owned()),
        max_tokens: omitted.unless(Parameter::MaxTokens, request.max_tokens),
        seed: seed(request, omitted),
        stream: Some(false),
        ..CreateCompletionRequest::default()
    };
    ExtendedRequest::new(completion, request, omitted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{json, to_value};

    use super::*;

    fn request(messages: Vec<Message>, top_k: Option<u32>) -> Request {
        Request {
            messages,
            temperature: 0.7,
            top_p: 0.95,
            top_k,
            max_tokens: 96,
            seed: u64::MAX,
            is_one_text: false,
        }
    }

    fn says(role: Role, content: &str) -> Message {
        Message {
            role,
            content: content.to_owned(),
        }
    }

    #[test]
    fn requests_hold_what_was_asked_for_and_nothing_else() {
        let roles = [Role::System, Role::User, Role::Assistant, Role::User];
        let asked = request(roles.map(|role| says(role, "A text.")).into(), Some(40));
        let expected = json!({
            "model": "m", "temperature": 0.7, "top_p": 0.95, "top_k": 40, "max_tokens": 96, "seed": i64::MAX, "stream": false,
            "messages": [
                {"role": "system", "content": "A text."}, {"role": "user", "content": "A text."},
                {"role": "assistant", "content": "A text."}, {"role": "user", "content": "A text."},
            ],
        });
        assert_eq!(
            to_value(conversation("m", &asked, OmittedParameters::default())).unwrap(),
            expected
        );

        let asked = request(vec![says(Role::Text, "Once")], None);
        let expected = json!({
            "model": "m", "temperature": 0.7, "top_p": 0.95, "max_tokens": 96, "seed": i64::MAX, "stream": false, "prompt": "Once",
        });
        assert_eq!(
            to_value(continuation("m", "Once", &asked, OmittedParameters::default())).unwrap(),
            expected
        );
    }
}
