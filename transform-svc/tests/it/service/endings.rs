//! Every reason why an answer ends, and what a message has in place of a text or beside it.

use isomer_proto::transform::v1::{Check, Outcome};
use isomer_stubs::openai::Answer;
use serde_json::{Value, json};

use super::{TEXT, one};
use crate::support::paraphrase;

/// A text that passes the checks.
fn rewrite() -> String {
    let words: Vec<&str> = TEXT.split_whitespace().rev().collect();
    format!("Indeed {}", words.join(" "))
}

fn answer(message: &Value, reason: &Value) -> Answer {
    Answer::Raw(json!({"choices": [{"message": message, "finish_reason": reason}]}).to_string())
}

/// A whole text that ends for this reason.
fn ended_by(reason: &Value) -> Answer {
    answer(&json!({"role": "assistant", "content": rewrite()}), reason)
}

#[tokio::test]
async fn a_whole_text_is_accepted_whatever_its_server_calls_the_end() {
    for reason in [
        json!("stop"),
        json!("STOP"),
        json!("eos_token"),
        json!("end_turn"),
        json!("COMPLETE"),
        json!({"type": "stop", "matched": 151_645}),
        // Unknown reasons.
        json!("done"),
        json!("eosFound"),
    ] {
        let (response, stub) = one([ended_by(&reason)], paraphrase()).await;
        assert_eq!(response.results[0].outcome(), Outcome::Ok, "{reason}: {response:?}");
        assert_eq!(stub.calls(), 1, "{reason}");
    }
}

#[tokio::test]
async fn a_cut_text_is_asked_for_with_more_room_whatever_its_server_calls_the_cut() {
    for reason in [
        json!("length"),
        json!("MAX_TOKENS"),
        json!("model_length"),
        json!("model_context_window_exceeded"),
        json!({"type": "length", "length": 96}),
    ] {
        let (response, stub) = one([ended_by(&reason)], paraphrase()).await;
        let result = &response.results[0];
        assert_eq!(result.outcome(), Outcome::Recovered, "{reason}: {result:?}");
        assert!(result.first_checks().eq([Check::Truncated]), "{reason}: {result:?}");
        let seen = stub.seen();
        assert_eq!(seen[1].max_tokens(), 4 * seen[0].max_tokens(), "{reason}");
    }
}

#[tokio::test]
async fn an_answer_that_the_server_gave_up_is_asked_for_again() {
    for reason in [
        "error",
        "abort",
        "insufficient_system_resource",
        "network_error",
        "OTHER",
    ] {
        let (response, stub) = one([ended_by(&json!(reason))], paraphrase()).await;
        assert_eq!(response.results[0].outcome(), Outcome::Ok, "{reason}: {response:?}");
        assert_eq!(stub.calls(), 2, "{reason}");
    }
}

#[tokio::test]
async fn a_text_that_a_filter_or_a_tool_call_replaces_is_never_accepted() {
    for (reason, check) in [
        ("content_filter", Check::Filtered),
        ("SAFETY", Check::Filtered),
        ("RECITATION", Check::Filtered),
        ("sensitive", Check::Filtered),
        ("refusal", Check::Filtered),
        ("tool_calls", Check::ToolCall),
        ("function_call", Check::ToolCall),
        ("MALFORMED_FUNCTION_CALL", Check::ToolCall),
        ("tool_use", Check::ToolCall),
    ] {
        let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function"}]});
        for message in [call, json!({"content": rewrite()})] {
            let (response, stub) = one([answer(&message, &json!(reason))], paraphrase()).await;
            let result = &response.results[0];
            assert_eq!(
                (result.outcome(), result.text.as_str()),
                (Outcome::KeptOriginal, TEXT),
                "{reason}"
            );
            assert!(result.failed_checks().eq([check]), "{reason}: {result:?}");
            assert!(result.error.contains(reason), "{}", result.error);
            assert_eq!(stub.calls(), 1, "{reason}");
        }
    }
}

#[tokio::test]
async fn a_refusal_beside_a_text_counts() {
    for message in [
        json!({"content": rewrite(), "refusal": "I can't help with that."}),
        json!({"content": [{"type": "text", "text": rewrite()}, {"type": "refusal", "refusal": "I can't help with that."}]}),
        json!({"content": [{"type": "refusal", "refusal": "I can't help with that."}]}),
        json!({"content": "", "refusal": "I can't help with that."}),
    ] {
        let (response, _) = one([answer(&message, &json!("stop"))], paraphrase()).await;
        let result = &response.results[0];
        assert!(result.failed_checks().eq([Check::Refusal]), "{message}: {result:?}");
        assert!(result.error.contains("I can't help with that."), "{}", result.error);
    }
    // Fields that are there and say nothing.
    for refusal in [json!(null), json!(""), json!(false), json!([])] {
        let message = json!({"content": rewrite(), "refusal": refusal});
        let (response, _) = one([answer(&message, &json!("stop"))], paraphrase()).await;
        assert_eq!(response.results[0].outcome(), Outcome::Ok, "{message}: {response:?}");
    }
}

#[tokio::test]
async fn an_answer_of_reasoning_alone_is_asked_for_with_more_room() {
    let thinking = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "The user wants"}]}]);
    for (message, reason) in [
        (
            json!({"content": null, "reasoning_content": "The user wants"}),
            "length",
        ),
        (json!({"content": "", "reasoning_content": "The user wants"}), "stop"),
        (json!({"content": "\n\n", "reasoning": "The user wants"}), "stop"),
        (json!({"content": thinking}), "stop"),
    ] {
        let (response, stub) = one([answer(&message, &json!(reason))], paraphrase()).await;
        let result = &response.results[0];
        assert_eq!(result.outcome(), Outcome::Recovered, "{message}: {result:?}");
        assert!(
            result.first_checks().any(|check| check == Check::Truncated),
            "{message}: {result:?}"
        );
        let seen = stub.seen();
        assert_eq!(seen[1].max_tokens(), 4 * seen[0].max_tokens(), "{message}");
    }
    // Reasoning beside a text is left out.
    let message = json!({"content": rewrite(), "reasoning_content": "The user wants", "reasoning": "The user wants"});
    let (response, stub) = one([answer(&message, &json!("stop"))], paraphrase()).await;
    assert_eq!((response.results[0].outcome(), stub.calls()), (Outcome::Ok, 1));
}
