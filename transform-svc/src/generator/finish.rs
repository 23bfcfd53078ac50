//! Reasons why a server ended an answer.

use serde_json::Value;

/// The consequence of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinishClass {
    /// The text is whole.
    Complete,
    /// The text ends at a limit of tokens, time or context.
    Cut,
    /// A filter of the server withholds the text.
    Filtered,
    /// The server gave up. Another call may succeed.
    Aborted,
    /// The model called a tool in place of writing the text.
    Called,
    /// A reason that the table lacks. The text is used, because a refusal would exclude servers
    /// that nobody has tried.
    Unknown,
}

/// Every known reason, in lower case.
#[rustfmt::skip]
const CLASSES: [(FinishClass, &[&str]); 5] = [
    (FinishClass::Complete, &[
        // OpenAI; TGI; Together; Anthropic; Cohere; Mistral; watsonx.
        "stop", "eos_token", "stop_sequence", "eos", "end_turn", "complete", "endoftext", "end_of_text",
    ]),
    (FinishClass::Cut, &[
        // OpenAI; Anthropic and Gemini; Mistral; Anthropic, Bedrock and Zhipu; watsonx; Cohere;
        // TensorRT-LLM.
        "length", "max_tokens", "model_length", "model_context_window_exceeded", "token_limit", "time_limit",
        "error_limit", "timeout", "not_finished", "pause_turn", "max_output_tokens", "incomplete",
    ]),
    (FinishClass::Filtered, &[
        // OpenAI; Gemini; Cohere; Bedrock; Zhipu; Anthropic.
        "content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii", "language",
        "model_armor", "error_toxic", "guardrail_intervened", "content_filtered", "sensitive", "refusal",
    ]),
    (FinishClass::Aborted, &[
        // Mistral, OpenRouter and vLLM; vLLM and SGLang; DeepSeek; Zhipu; watsonx and TensorRT-LLM;
        // Cohere; Gemini.
        "error", "abort", "insufficient_system_resource", "network_error", "cancelled", "canceled", "user_cancel",
        "aborted", "failed", "other", "malformed_response", "malformed_model_output",
    ]),
    (FinishClass::Called, &[
        // OpenAI; Cohere; Anthropic and Bedrock; Gemini.
        "tool_calls", "function_call", "tool_call", "tool_use", "malformed_function_call", "unexpected_tool_call",
        "too_many_tool_calls", "malformed_tool_use",
    ]),
];

/// The word of a `finish_reason`; `None` if the server gives none. SGLang's own form is an object
/// with a `type`.
pub(super) fn word(reason: &Value) -> Option<&str> {
    let word = reason.as_str().or_else(|| reason.get("type")?.as_str())?.trim();
    (!word.is_empty()).then_some(word)
}

impl FinishClass {
    /// The class of a reason, letter case aside.
    pub(super) fn of(word: &str) -> Self {
        let word = word.to_ascii_lowercase();
        let known = CLASSES.iter().find(|(_, words)| words.contains(&word.as_str()));
        known.map_or(Self::Unknown, |(class, _)| *class)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_reason_has_one_class_and_is_written_in_lower_case() {
        let words: Vec<&str> = CLASSES.iter().flat_map(|(_, words)| words.iter().copied()).collect();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());
        assert!(words.iter().all(|word| word.to_ascii_lowercase() == **word));
    }

    #[test]
    fn letter_case_and_the_form_of_a_reason_do_not_matter() {
        for (reason, class) in [
            (json!("MAX_TOKENS"), Some(FinishClass::Cut)),
            (json!({"type": "length", "length": 40}), Some(FinishClass::Cut)),
            (json!({"type": "abort"}), Some(FinishClass::Aborted)),
            (json!("SAFETY"), Some(FinishClass::Filtered)),
            (json!("done"), Some(FinishClass::Unknown)),
            (json!(""), None),
            (json!(null), None),
            (json!(7), None),
        ] {
            assert_eq!(word(&reason).map(FinishClass::of), class, "{reason}");
        }
    }
}
