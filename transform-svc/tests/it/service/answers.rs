//! Answers of servers that leave out or change what OpenAI's protocol requires. Each is taken as a
//! completion.

use isomer_proto::transform::v1::{Check, Outcome};
use isomer_stubs::openai::Answer;
use serde_json::{Value, json};

use super::{TEXT, one};
use crate::support::paraphrase;

/// The difference of an answer, the answer, and whether its tokens are those of its usage, 11
/// and 7.
fn loose() -> Vec<(&'static str, Value, bool)> {
    let words: Vec<&str> = TEXT.split_whitespace().rev().collect();
    let content = format!("Indeed {}", words.join(" "));
    let message = json!({"role": "assistant", "content": content});
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18});
    let whole = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_780_000_000, "model": "stub-model",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage,
    });
    let with = |change: &dyn Fn(&mut Value)| {
        let mut answer = whole.clone();
        change(&mut answer);
        answer
    };
    vec![
        ("nothing", whole.clone(), true),
        (
            "only what is read",
            json!({"choices": [{"message": {"content": content}}], "usage": usage}),
            true,
        ),
        (
            "null instead of values",
            with(&|answer| {
                for field in ["id", "object", "created", "model"] {
                    answer[field] = Value::Null;
                }
                answer["choices"][0]["finish_reason"] = Value::Null;
            }),
            true,
        ),
        (
            "a time with a fraction",
            with(&|answer| answer["created"] = json!(1_780_000_000.25)),
            true,
        ),
        (
            "a time after 2106",
            with(&|answer| answer["created"] = json!(1_780_000_000_000_u64)),
            true,
        ),
        (
            "another role",
            with(&|answer| answer["choices"][0]["message"]["role"] = "model".into()),
            true,
        ),
        (
            "another finish reason",
            with(&|answer| answer["choices"][0]["finish_reason"] = "eos_token".into()),
            true,
        ),
        (
            "another service tier",
            with(&|answer| answer["service_tier"] = "on_demand".into()),
            true,
        ),
        (
            "no index",
            with(&|answer| answer["choices"][0] = json!({"message": message})),
            true,
        ),
        (
            "log probabilities of another shape",
            with(&|answer| answer["choices"][0]["logprobs"] = json!({"tokens": []})),
            true,
        ),
        (
            "calls of tools of another shape",
            with(&|answer| answer["choices"][0]["message"]["tool_calls"] = json!([{}])),
            true,
        ),
        (
            "further fields",
            with(&|answer| {
                answer["provider"] = "house".into();
                answer["timings"] = json!({"prompt_ms": 4.5});
                answer["choices"][0]["message"]["reasoning_content"] = "Let me think.".into();
            }),
            true,
        ),
        (
            "no total",
            with(&|answer| answer["usage"] = json!({"prompt_tokens": 11, "completion_tokens": 7})),
            true,
        ),
        (
            "details of usage",
            with(&|answer| {
                answer["usage"]["prompt_tokens_details"] = json!({"cached_tokens": 4, "audio_tokens": null});
                answer["usage"]["completion_tokens_details"] = json!({"reasoning_tokens": 2.5});
                answer["usage"]["cost"] = json!(0.000_1);
            }),
            true,
        ),
        (
            "no usage",
            with(&|answer| drop(answer.as_object_mut().unwrap().remove("usage"))),
            false,
        ),
        ("null usage", with(&|answer| answer["usage"] = Value::Null), false),
        ("empty usage", with(&|answer| answer["usage"] = json!({})), false),
    ]
}

#[tokio::test]
async fn loose_answers_are_completions() {
    for (what, answer, counted) in loose() {
        let (response, stub) = one([Answer::Raw(answer.to_string())], paraphrase()).await;
        assert_eq!(
            response.results[0].outcome(),
            Outcome::Ok,
            "{what}: {:?}",
            response.results[0]
        );
        assert!(response.results[0].text.starts_with("Indeed town."), "{what}");
        assert_eq!(stub.calls(), 1, "{what}");
        let usage = response.usage.unwrap();
        assert_eq!(
            (usage.tokens, usage.generated_tokens) == (11, 7),
            counted,
            "{what}: {usage:?}"
        );
    }
}

#[tokio::test]
async fn answers_without_a_text_are_none() {
    for (choice, reason) in [
        (
            json!({"message": {"content": [{"type": "text", "text": "A part."}]}}),
            "expected a string",
        ),
        (json!({"message": null}), "neither a message nor a text"),
        (
            json!({"delta": {"content": "A piece."}}),
            "neither a message nor a text",
        ),
    ] {
        let answer = json!({"choices": [choice]}).to_string();
        let (response, stub) = one(vec![Answer::Raw(answer); 4], paraphrase()).await;
        let result = &response.results[0];
        assert!(result.failed_checks().eq([Check::GeneratorError]), "{result:?}");
        assert!(
            result.error.contains("not a completion") && result.error.contains(reason),
            "{}",
            result.error
        );
        assert_eq!(stub.calls(), 4, "{reason}");
    }
}
