//! Messages of OpenAI's protocol. Requests are async-openai's types with the fields that they lack.
//! Answers have types of their own: async-openai's refuse what many servers send.

use async_openai::types::{
    chat::{
        ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage,
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest, Prompt,
    },
    completions::CreateCompletionRequest,
};
use serde::{Deserialize, Serialize};

use super::Request;
use crate::prompt::{Message, Role};

/// OpenAI's seeds are signed.
const SEED_MASK: u64 = i64::MAX as u64;

/// A request with the fields that async-openai's type lacks, or has with fewer digits.
#[derive(Debug, Serialize)]
pub(super) struct Extended<R> {
    #[serde(flatten)]
    request: R,
    temperature: f64,
    top_p: f64,
    /// vLLM, Ollama and llama.cpp have it, OpenAI itself does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
}

impl<R> Extended<R> {
    fn new(request: R, sampling: &Request) -> Self {
        Self {
            request,
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            top_k: sampling.top_k,
        }
    }
}

fn seed(request: &Request) -> Option<i64> {
    i64::try_from(request.seed & SEED_MASK).ok()
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
pub(super) fn conversation(model: &str, request: &Request) -> Extended<CreateChatCompletionRequest> {
    let chat = CreateChatCompletionRequest {
        model: model.to_owned(),
        messages: request.messages.iter().map(message).collect(),
        max_tokens: Some(request.max_tokens),
        seed: seed(request),
        stream: Some(false),
        ..CreateChatCompletionRequest::default()
    };
    Extended::new(chat, request)
}

/// A text to continue, for `/completions`.
pub(super) fn continuation(model: &str, text: &str, request: &Request) -> Extended<CreateCompletionRequest> {
    let completion = CreateCompletionRequest {
        model: model.to_owned(),
        prompt: Prompt::String(text.to_owned()),
        max_tokens: Some(request.max_tokens),
        seed: seed(request),
        stream: Some(false),
        ..CreateCompletionRequest::default()
    };
    Extended::new(completion, request)
}

/// The fields that are read of an answer, to a conversation or to a text. Servers differ in the
/// rest.
#[derive(Debug, Deserialize)]
pub(super) struct Reply {
    choices: Vec<Choice>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
}

/// One choice; which field is set depends on the request.
#[derive(Debug, Deserialize)]
struct Choice {
    /// The next message of a conversation.
    #[serde(default)]
    message: Option<ReplyMessage>,
    /// The continuation of a text.
    #[serde(default)]
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ReplyMessage {
    #[serde(default)]
    content: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
}

impl Choice {
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

    /// The texts of all choices.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.choices.iter().filter_map(Choice::content)
    }

    /// The reason why it is not a completion.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let empty = |choice: &Choice| choice.message.is_none() && choice.text.is_none();
        if self.choices.is_empty() {
            Some("it has no choices")
        } else if self.choices.iter().any(empty) {
            Some("a choice has neither a message nor a text")
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
        assert_eq!(to_value(conversation("m", &asked)).unwrap(), expected);

        let asked = request(vec![says(Role::Text, "Once")], None);
        let expected = json!({
            "model": "m", "temperature": 0.7, "top_p": 0.95, "max_tokens": 96, "seed": i64::MAX, "stream": false, "prompt": "Once",
        });
        assert_eq!(to_value(continuation("m", "Once", &asked)).unwrap(), expected);
    }

    fn reads<T: DeserializeOwned>(answer: &Value) -> bool {
        serde_json::from_str::<T>(&answer.to_string()).is_ok()
    }

    /// Each is a change that servers make, with which async-openai's type cannot be read and ours
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
