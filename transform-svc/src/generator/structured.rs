//! Answers as JSON with the text in a field of it.

use async_openai::types::chat::{ResponseFormat, ResponseFormatJsonSchema};
use serde::Deserialize;
use serde_json::json;

/// An answer by the schema.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StructuredText {
    text: String,
}

/// The form of the answer that a request asks for.
pub(super) fn response_format() -> ResponseFormat {
    ResponseFormat::JsonSchema {
        json_schema: ResponseFormatJsonSchema {
            description: None,
            name: "text".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {"text": {"type": "string", "description": "The requested text and nothing else."}},
                "required": ["text"],
                "additionalProperties": false,
            }),
            strict: Some(true),
        },
    }
}

/// The text of an answer by the schema; `None` if the server ignored it.
pub(super) fn text(content: &str) -> Option<String> {
    let read: StructuredText = serde_json::from_str(content.trim()).ok()?;
    Some(read.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_by_the_schema_is_unpacked() {
        assert_eq!(
            text(r#" {"text": "A \"red\" car."} "#).as_deref(),
            Some("A \"red\" car.")
        );
        for other in [
            "A red car.",
            r#"{"text": "A red"#,
            r#"{"text": 7}"#,
            r#"{"text": "a", "note": "b"}"#,
            "[]",
        ] {
            assert_eq!(text(other), None, "{other}");
        }
    }
}
