//! Messages of OpenAI's protocol. Requests are async-openai's types plus missing fields. Responses
//! have our own types, because async-openai's reject messages that many servers send.

use async_openai::types::{
    chat::{
        ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage,
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest, Prompt,
    },
    completions::CreateCompletionRequest,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{
    Request,
    parameters::{OmittedParameters, Parameter},
};
use crate::{
    checks::Check,
    prompt::{Message, Role},
};

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
    let chat = CreateChatCompletionRequest {
        model: model.to_owned(),
        messages: request.messages.iter().map(message).collect(),
        max_tokens,
        max_completion_tokens: max_tokens.is_none().then_some(request.max_tokens),
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

/// The fields that are read from a response, to a conversation or to a text. Servers differ in the
/// other fields.
#[derive(Debug, Deserialize)]
pub(super) struct Reply {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    /// The model that responded, which may be a dated version of the requested one.
    #[serde(default)]
    model: Option<String>,
    /// Changes with the server's configuration of the model.
    #[serde(default)]
    system_fingerprint: Option<String>,
    /// An error that some servers send with status 200.
    #[serde(default)]
    error: Option<Value>,
}

/// One choice. The request determines which field is set.
#[derive(Debug, Deserialize)]
struct Choice {
    /// The next message of a conversation.
    #[serde(default)]
    message: Option<ReplyMessage>,
    /// The continuation of a text.
    #[serde(default)]
    text: Option<String>,
    /// The reason why the text ends; servers use values beyond OpenAI's.
    #[serde(default)]
    finish_reason: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct ReplyMessage {
    #[serde(default, deserialize_with = "joined")]
    content: Option<String>,
    /// The model's reason for a refusal, in place of the content.
    #[serde(default)]
    refusal: Option<String>,
}

/// A text, or the texts of a list of parts.
fn joined<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Content {
        Whole(String),
        Parts(Vec<Part>),
    }
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        text: Option<String>,
    }
    Ok(Option::deserialize(deserializer)?.map(|content| match content {
        Content::Whole(text) => text,
        Content::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
    }))
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct WithheldText {
    /// The check that fails.
    pub(super) check: Check,
    pub(super) reason: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default)]
    pub(super) completion_tokens: Option<u64>,
}

impl Choice {
    fn ended_by(&self, reason: &str) -> bool {
        self.finish_reason.as_ref().is_some_and(|own| own == reason)
    }

    fn content(&self) -> Option<&str> {
        match &self.message {
            Some(message) => message.content.as_deref(),
            None => self.text.as_deref(),
        }
    }
}

impl Reply {
    /// The first choice's text; `None` if the model returned none.
    pub(super) fn content(&self) -> Option<&str> {
        self.choices.first()?.content()
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.choices.iter().filter_map(Choice::content)
    }

    /// The error that the server sent instead of a completion.
    pub(super) fn error(&self) -> Option<&Value> {
        let of_choice = self.choices.first().and_then(|choice| choice.error.as_ref());
        self.error.as_ref().filter(|_| self.choices.is_empty()).or(of_choice)
    }

    /// The version of the model, to the extent that the server names it.
    pub(super) fn fingerprint(&self) -> String {
        let parts = [&self.model, &self.system_fingerprint].into_iter().flatten();
        parts.map(String::as_str).collect::<Vec<_>>().join("#")
    }

    /// The reason why the server or the model withholds the text.
    pub(super) fn withheld(&self) -> Option<WithheldText> {
        let choice = self.choices.first()?;
        if choice.ended_by("content_filter") {
            return Some(WithheldText {
                check: Check::Filtered,
                reason: "the server's content filter withheld the text (finish_reason content_filter)".into(),
            });
        }
        let refusal = choice.message.as_ref()?.refusal.as_deref()?;
        let is_empty = choice.content().is_none_or(|content| content.trim().is_empty());
        is_empty.then(|| WithheldText {
            check: Check::Refusal,
            reason: format!("the model declined: {refusal}"),
        })
    }

    /// Whether the text ends at the token limit; `None` if the server does not report why it ends.
    pub(super) fn is_cut(&self) -> Option<bool> {
        let choice = self.choices.first()?;
        choice.finish_reason.as_ref()?.as_str()?;
        Some(
            ["length", "max_tokens", "MAX_TOKENS"]
                .iter()
                .any(|word| choice.ended_by(word)),
        )
    }

    /// The reason why the response is not a completion.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let empty = |choice: &Choice| choice.message.is_none() && choice.text.is_none();
        if self.choices.is_empty() {
            Some("it has no choices")
        } else if self.choices.iter().any(empty) {
            Some("a choice has neither a message nor a text")
        } else if self.choices.iter().any(|choice| choice.ended_by("error")) {
            Some("it ended with an error (finish_reason error)")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use async_openai::types::{chat::CreateChatCompletionResponse, completions::CreateCompletionResponse};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json, to_value};

    use super::*;

    fn request(messages: Vec<Message>, top_k: Option<u32>) -> Request {
        Request {
            messages,
            temperature: 0.7,
            top_p: 0.95,
            top_k,
            max_tokens: 96,
            seed: u64::MAX,
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

    fn reads<T: DeserializeOwned>(answer: &Value) -> bool {
        serde_json::from_str::<T>(&answer.to_string()).is_ok()
    }

    /// Each case is a change made by real servers that async-openai's type cannot parse but ours
    /// can. `tests/it/service/answers.rs` sends more of them through a server.
    #[test]
    fn the_types_of_async_openai_refuse_answers_that_servers_give() {
        let chat = json!({
            "id": "1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "A text."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        });
        assert!(reads::<CreateChatCompletionResponse>(&chat) && reads::<Reply>(&chat));
        let changes: [(&str, Value); 7] = [
            ("/id", Value::Null),
            ("/created", json!(1.5)),
            ("/model", Value::Null),
            ("/choices/0/index", Value::Null),
            ("/choices/0/finish_reason", json!("eos_token")),
            ("/choices/0/message/role", json!("model")),
            ("/usage/total_tokens", Value::Null),
        ];
        for (place, value) in changes {
            let mut answer = chat.clone();
            *answer.pointer_mut(place).unwrap() = value;
            assert!(
                !reads::<CreateChatCompletionResponse>(&answer),
                "{place}: async-openai reads it"
            );
            let reply: Reply = serde_json::from_str(&answer.to_string()).unwrap();
            assert_eq!((reply.content(), reply.problem()), (Some("A text."), None), "{place}");
        }

        let text = json!({"choices": [{"text": " upon a time"}]});
        assert!(!reads::<CreateCompletionResponse>(&text));
        let reply: Reply = serde_json::from_str(&text.to_string()).unwrap();
        assert_eq!((reply.content(), reply.problem()), (Some(" upon a time"), None));
    }

    #[test]
    fn a_message_without_content_is_a_completion_without_a_text() {
        for message in [
            json!({}),
            json!({"content": null}),
            json!({"content": null, "refusal": "No."}),
        ] {
            let reply: Reply = serde_json::from_value(json!({"choices": [{"message": message}]})).unwrap();
            assert_eq!(
                (reply.content(), reply.problem(), reply.texts().count()),
                (None, None, 0)
            );
        }
    }
}
