//! Requests to a model, and its answers.

use crate::LocalError;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ChatMessage {
    /// `system`, `user` or `assistant`; the model's template decides which other roles are
    /// permitted. With [`ChatMessage::TEXT`] the model continues the content directly, without its
    /// template.
    pub role: String,
    /// The text. The text of a control token inside it is treated as plain text.
    pub content: String,
}

impl ChatMessage {
    /// Role of a text that is not a turn of a conversation. It must be the only message.
    pub const TEXT: &str = "text";

    /// A message with role `user`.
    pub fn user(content: impl Into<String>) -> Self {
        Self {
            role: "user".to_owned(),
            content: content.into(),
        }
    }

    /// A message with role `system`.
    pub fn system(content: impl Into<String>) -> Self {
        Self {
            role: "system".to_owned(),
            content: content.into(),
        }
    }
}

/// One text to generate.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateRequest {
    /// The conversation. A model without a chat template continues the contents, joined by blank
    /// lines.
    pub messages: Vec<ChatMessage>,
    /// 0 selects the likeliest token each time. If above 0, logits are divided by it before
    /// sampling.
    pub temperature: f64,
    /// Sampling is limited to the likeliest tokens with this total probability, in (0, 1].
    pub top_p: f64,
    /// Sampling is limited to the k likeliest tokens, k at least 1; `None`: no limit.
    pub top_k: Option<usize>,
    /// Maximum number of generated tokens, at least 1.
    pub max_tokens: usize,
    /// Seed of the sampling (ChaCha); has no effect at temperature 0.
    pub seed: u64,
    /// Generation ends before the first occurrence of any of these.
    pub stop: Vec<String>,
}

impl Default for GenerateRequest {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            temperature: 0.0,
            top_p: 1.0,
            top_k: None,
            max_tokens: 256,
            seed: 0,
            stop: Vec::new(),
        }
    }
}

impl GenerateRequest {
    pub(crate) fn validate(&self) -> Result<(), LocalError> {
        let invalid = |field, message: String| Err(LocalError::Invalid { field, message });
        if self.messages.is_empty() {
            return invalid("messages", "empty; give at least one message".to_owned());
        }
        if !self.temperature.is_finite() || self.temperature < 0.0 {
            return invalid("temperature", format!("{} is not a number from 0 up", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return invalid("top_p", format!("{} is not above 0 and at most 1", self.top_p));
        }
        if self.top_k == Some(0) {
            return invalid("top_k", "0; leave it out to draw among all tokens".to_owned());
        }
        if self.max_tokens == 0 {
            return invalid("max_tokens", "0; ask for at least 1".to_owned());
        }
        if self.stop.iter().any(String::is_empty) {
            return invalid("stop", "an empty string would end every text; leave it out".to_owned());
        }
        Ok(())
    }
}

/// The reason why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its turn, or a stop string occurred.
    Stop,
    /// `max_tokens` were generated.
    Length,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// The text, without control tokens, truncated before the stop string.
    pub text: String,
    pub prompt_tokens: usize,
    /// Number of generated tokens, including the one that ended the turn.
    pub generated_tokens: usize,
    /// The reason why it ended.
    pub finish: Finish,
}
