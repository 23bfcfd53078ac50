//! Responses of OpenAI's protocol, with types of our own: async-openai's reject messages that many
//! servers send.

use serde::Deserialize;
use serde_json::Value;

use super::{
    finish::{self, FinishClass},
    structured,
};
use crate::checks::Check;

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
    #[serde(default)]
    content: Option<Content>,
    /// The model's reason for a refusal, in place of the content or beside it.
    #[serde(default)]
    refusal: Option<Value>,
    /// The model's reasoning, where the server separates it from the content: llama.cpp, SGLang,
    /// DeepSeek; vLLM, Ollama, OpenRouter.
    #[serde(default)]
    reasoning_content: Option<Value>,
    #[serde(default)]
    reasoning: Option<Value>,
}

/// The content of a message.
#[derive(Debug, Deserialize)]
#[serde(from = "WireContent")]
struct Content {
    text: String,
    /// The texts of parts that are a refusal.
    refusal: String,
    has_reasoning: bool,
}

/// A text, or a list of parts.
#[derive(Deserialize)]
#[serde(untagged)]
enum WireContent {
    Whole(String),
    Parts(Vec<Part>),
}

impl From<WireContent> for Content {
    fn from(content: WireContent) -> Self {
        let parts = match content {
            WireContent::Whole(text) => {
                return Self {
                    text,
                    refusal: String::new(),
                    has_reasoning: false,
                };
            }
            WireContent::Parts(parts) => parts,
        };
        Self {
            text: parts.iter().filter_map(|part| part.text.as_deref()).collect(),
            refusal: parts
                .iter()
                .filter_map(|part| part.refusal.as_ref()?.as_str())
                .collect(),
            has_reasoning: parts.iter().any(|part| part.thinking.is_some()),
        }
    }
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<Value>,
    /// Mistral's form of reasoning.
    #[serde(default)]
    thinking: Option<Value>,
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
    #[serde(default)]
    prompt_tokens_details: Option<Value>,
}

impl Usage {
    /// Tokens of the prompt. Some servers count those found in their cache apart from the others.
    pub(super) fn prompt(&self) -> Option<u64> {
        let counted = self.prompt_tokens?;
        let cached = self.prompt_tokens_details.as_ref();
        let cached = cached.and_then(|details| details.get("cached_tokens")?.as_u64());
        let apart = cached.filter(|cached| *cached > counted).unwrap_or_default();
        Some(counted.saturating_add(apart))
    }
}

impl Choice {
    fn finish(&self) -> Option<&str> {
        finish::word(self.finish_reason.as_ref()?)
    }

    fn ended(&self) -> Option<FinishClass> {
        self.finish().map(FinishClass::of)
    }

    fn content(&self) -> Option<&str> {
        match &self.message {
            Some(message) => message.content.as_ref().map(|content| content.text.as_str()),
            None => self.text.as_deref(),
        }
    }

    /// The model's reason for a refusal.
    fn refusal(&self) -> Option<&str> {
        let message = self.message.as_ref()?;
        let of_message = message.refusal.as_ref().and_then(Value::as_str);
        let of_content = message.content.as_ref().map(|content| content.refusal.as_str());
        let mut all = of_message.into_iter().chain(of_content).map(str::trim);
        all.find(|refusal| !refusal.is_empty())
    }

    /// Whether the model has reasoned and written nothing else.
    fn has_reasoning_only(&self) -> bool {
        let Some(message) = &self.message else { return false };
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
        let apart = [&message.reasoning_content, &message.reasoning];
        let has_reasoning = apart.into_iter().flatten().any(is_text)
            || message.content.as_ref().is_some_and(|content| content.has_reasoning);
        has_reasoning && self.content().is_none_or(|content| content.trim().is_empty())
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

    /// Replaces contents that are JSON by the schema by their texts.
    pub(super) fn unpack(&mut self) {
        for choice in &mut self.choices {
            let content = choice.message.as_mut().and_then(|message| message.content.as_mut());
            if let Some(content) = content
                && let Some(text) = structured::text(&content.text)
            {
                content.text = text;
            }
        }
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
        let finish = choice.finish().unwrap_or_default();
        match choice.ended() {
            Some(FinishClass::Filtered) => Some(WithheldText {
                check: Check::Filtered,
                reason: format!("the server's content filter withheld the text (finish_reason {finish})"),
            }),
            Some(FinishClass::Called) => Some(WithheldText {
                check: Check::ToolCall,
                reason: format!("the model called a tool in place of writing a text (finish_reason {finish})"),
            }),
            _ => choice.refusal().map(|refusal| WithheldText {
                check: Check::Refusal,
                reason: format!("the model declined: {refusal}"),
            }),
        }
    }

    /// Whether the text is incomplete; `None` if the server does not report why it ends.
    pub(super) fn is_cut(&self) -> Option<bool> {
        let choice = self.choices.first()?;
        if choice.has_reasoning_only() {
            return Some(true);
        }
        choice.ended().map(|class| class == FinishClass::Cut)
    }

    /// Whether the model has spent all its tokens on reasoning.
    pub(super) fn has_reasoning_only(&self) -> bool {
        self.choices.first().is_some_and(Choice::has_reasoning_only)
    }

    /// The reason for the end of the text, if it is not a known one.
    pub(super) fn unknown_finish(&self) -> Option<&str> {
        let finish = self.choices.first()?.finish()?;
        (FinishClass::of(finish) == FinishClass::Unknown).then_some(finish)
    }

    /// The reason why the response is not a completion.
    pub(super) fn problem(&self) -> Option<String> {
        let empty = |choice: &Choice| choice.message.is_none() && choice.text.is_none();
        let aborted = |choice: &&Choice| choice.ended() == Some(FinishClass::Aborted);
        if self.choices.is_empty() {
            return Some("it has no choices".to_owned());
        }
        if self.choices.iter().any(empty) {
            return Some("a choice has neither a message nor a text".to_owned());
        }
        let finish = self.choices.iter().find(aborted)?.finish().unwrap_or_default();
        Some(format!("it ended with an error (finish_reason {finish})"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use async_openai::types::{chat::CreateChatCompletionResponse, completions::CreateCompletionResponse};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

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
