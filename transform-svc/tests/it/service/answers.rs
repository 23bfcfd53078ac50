//! Responses of servers that omit or change what OpenAI's protocol requires. Each is accepted as a
//! completion.

use isomer_proto::transform::v1::{Check, Outcome, Sampling, TransformSpec};
use isomer_stubs::openai::{Answer, Stub};
use serde_json::{Value, json};
use tonic::Code;

use super::{TEXT, counts, one};
use crate::support::{client, config, paraphrase, transform, try_transform};

/// The deviation of a response, the response, and whether its tokens are those of its usage, 11 and
/// 7.
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
        (
            "content in parts",
            with(&|answer| {
                let (start, end) = content.split_at(9);
                answer["choices"][0]["message"]["content"] = json!([
                    {"type": "text", "text": start}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": end},
                ]);
            }),
            true,
        ),
        (
            "null and absent counts",
            with(&|answer| answer["usage"] = json!({"prompt_tokens": null, "completion_tokens": null})),
            false,
        ),
        (
            "one count",
            with(&|answer| answer["usage"] = json!({"prompt_tokens": 11, "completion_tokens": null})),
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
        (json!({"message": {"content": 7}}), "did not match"),
        (
            json!({"message": {"content": "A text."}, "finish_reason": "error"}),
            "ended with an error",
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

/// A text that passes the checks, with the reason why it ends.
fn ended_by(reason: &str) -> Answer {
    let words: Vec<&str> = TEXT.split_whitespace().rev().collect();
    let message = json!({"role": "assistant", "content": format!("Indeed {}", words.join(" "))});
    Answer::Raw(json!({"choices": [{"message": message, "finish_reason": reason}]}).to_string())
}

#[tokio::test]
async fn a_text_that_was_cut_is_asked_for_with_more_room() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.script([ended_by("length")]);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    for round in 0..2 {
        let response = transform(&mut client, paraphrase(), &[TEXT]).await;
        assert_eq!(response.results[0].outcome(), Outcome::Recovered, "{response:?}");
        // The second time both answers come from the cache, and the truncated one is recognised as
        // such.
        let truncated = [("truncated".to_owned(), 1)];
        assert_eq!(counts(&response), truncated[usize::min(round, 1)..], "round {round}");
        assert_eq!(stub.calls(), 2);
    }
    let seen = stub.seen();
    assert_eq!(seen[1].max_tokens(), 4 * seen[0].max_tokens());
}

#[tokio::test]
async fn a_text_that_is_always_cut_is_never_accepted() {
    // A server that reports the truncation, and one that only counts: 40 tokens are the maximum.
    let counted = |content: &str| {
        let choice = json!({"message": {"content": content}});
        json!({"choices": [choice], "usage": {"prompt_tokens": 11, "completion_tokens": 40}}).to_string()
    };
    for answer in [
        ended_by("length"),
        Answer::Raw(counted("A man plays the guitar on a street.")),
    ] {
        let sampling = Sampling {
            max_tokens: Some(40),
            ..Sampling::default()
        };
        let spec = TransformSpec {
            sampling: Some(sampling),
            ..paraphrase()
        };
        let (response, stub) = one(vec![answer; 20], spec).await;
        let result = &response.results[0];
        assert_eq!((result.outcome(), result.text.as_str()), (Outcome::KeptOriginal, TEXT));
        assert!(result.failed_checks().eq([Check::Truncated]), "{result:?}");
        assert!(stub.seen().iter().all(|seen| seen.max_tokens() == 40));
    }
}

#[tokio::test]
async fn a_text_that_is_withheld_is_named_and_not_kept() {
    let refusal = json!({"choices": [{"message": {"content": null, "refusal": "I can't help with that."}, "finish_reason": "stop"}]});
    for (answer, check, reason) in [
        (
            ended_by("content_filter"),
            Check::Filtered,
            "content filter withheld the text",
        ),
        (
            Answer::Raw(refusal.to_string()),
            Check::Refusal,
            "the model declined: I can't help with that.",
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(answer).await;
        let mut client = client(config(&stub, home.path()), home.path()).await;
        for round in 1..=2 {
            let response = transform(&mut client, paraphrase(), &[TEXT]).await;
            let result = &response.results[0];
            assert_eq!((result.outcome(), result.text.as_str()), (Outcome::KeptOriginal, TEXT));
            assert!(result.failed_checks().eq([check]), "{result:?}");
            assert!(result.error.contains(reason), "{}", result.error);
            assert_eq!(stub.calls(), round);
        }
    }
}

#[tokio::test]
async fn an_error_with_status_200_is_one_with_its_code() {
    let of_body = |error: Value| Answer::Raw(json!({"error": error}).to_string());
    let of_choice = json!({"choices": [{"message": {"content": ""}, "error": {"code": 502, "message": "upstream"}}]});
    for passing in [
        of_body(json!({"code": 429, "message": "slow down"})),
        of_body(json!({"code": "503", "message": "loading"})),
        of_body(json!("overloaded")),
        Answer::Raw(of_choice.to_string()),
    ] {
        let (response, stub) = one([passing], paraphrase()).await;
        assert_eq!(response.results[0].outcome(), Outcome::Ok, "{response:?}");
        assert_eq!(stub.calls(), 2);
    }
    let (response, stub) = one([of_body(json!({"code": 400, "message": "too long"}))], paraphrase()).await;
    let result = &response.results[0];
    assert!(result.error.contains("400: too long"), "{}", result.error);
    assert_eq!(stub.calls(), 1);

    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(of_body(json!({"code": 401, "message": "no such key"}))).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let fault = try_transform(&mut client, paraphrase(), &[TEXT]).await.unwrap_err();
    assert_eq!(fault.code, Code::FailedPrecondition, "{fault}");
    assert!(fault.to_string().contains("no such key"), "{fault}");
}

#[tokio::test]
async fn an_answer_that_is_not_a_rewrite_is_asked_for_again_and_never_accepted() {
    for (answer, check) in [
        ("I'm sorry, but I can't help with that request.", Check::Refusal),
        (
            "Could you please share the text that you want me to paraphrase?",
            Check::Refusal,
        ),
        (
            "Als KI-Sprachmodell kann ich diese Anfrage nicht bearbeiten.",
            Check::Refusal,
        ),
        (
            "On a street, somebody is playing his guitar for money. I hope this helps!",
            Check::Remark,
        ),
        (
            "1. On a street, a man performs on a guitar.\n2. A guitar is being played by a man on the street.",
            Check::Alternatives,
        ),
        ("On a street, somebody performs on a guitar. (formal tone)", Check::Note),
        (
            "On a street, somebody performs on a guitar, isnâ€™t he.",
            Check::Garbled,
        ),
        ("On a street, [Name] performs on a guitar.", Check::Placeholder),
    ] {
        let (response, stub) = one([Answer::Text(answer.into())], paraphrase()).await;
        let result = &response.results[0];
        assert_eq!(result.outcome(), Outcome::Recovered, "{answer}: {result:?}");
        assert!(
            result.first_checks().any(|fired| fired == check),
            "{answer}: {result:?}"
        );
        assert_eq!(stub.calls(), 2);

        let (response, _) = one(vec![Answer::Text(answer.into()); 3], paraphrase()).await;
        let result = &response.results[0];
        assert_eq!((result.outcome(), result.text.as_str()), (Outcome::KeptOriginal, TEXT));
        assert!(
            result.failed_checks().any(|fired| fired == check),
            "{answer}: {result:?}"
        );
    }
}

#[tokio::test]
async fn texts_of_another_revision_are_not_found() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    for (revision, calls) in [("", 1), ("2", 2), ("", 2), ("2", 2)] {
        let mut config = config(&stub, home.path());
        config.generators.get_mut("stub").unwrap().revision = revision.into();
        let mut client = client(config, home.path()).await;
        transform(&mut client, paraphrase(), &[TEXT]).await;
        assert_eq!(stub.calls(), calls, "`{revision}`");
    }
}
