//! Errors of a remote generator, and the results of each text.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use isomer_proto::transform::v1::{Check, Outcome, Sampling, TransformSpec};
use isomer_stubs::{
    openai::{Answer, ReceivedRequest, Stub},
    promise::promised,
};
use isomer_transform::config::{BudgetConfig, GeneratorConfig, TransformConfig};

use super::{TEXT, counts, one, status};
use crate::support::{client, config, paraphrase, transform, try_transform};

#[tokio::test]
async fn a_good_answer_is_ok_with_measures_and_provenance() {
    let (response, stub) = one([], paraphrase()).await;
    let result = &response.results[0];
    assert_eq!(result.outcome(), Outcome::Ok);
    assert!(result.text.starts_with("Indeed town."));
    assert_eq!(
        (result.id.as_str(), result.index, result.language.as_str()),
        ("t0", 0, "en")
    );
    let measures = result.measures.unwrap();
    assert!(measures.edit_distance > 0.5 && measures.jaccard > 0.8, "{measures:?}");
    let provenance = result.provenance.clone().unwrap();
    assert_eq!(provenance.generator_id, "stub");
    assert_eq!(
        (provenance.seed, provenance.attempts, provenance.cache_hit),
        (1337, 1, false)
    );
    assert!(provenance.prompt_version.starts_with("paraphrase@"));
    assert_eq!((provenance.prompt_digest.len(), provenance.content_key.len()), (64, 64));
    let usage = response.usage.unwrap();
    assert_eq!(
        (usage.texts, usage.tokens, usage.generated_tokens, usage.generator_calls),
        (1, 11, 7, 1)
    );
    assert_eq!(response.summary.unwrap().ok, 1);
    let seen = &stub.seen()[0];
    assert_eq!(
        (seen.temperature(), seen.body["top_p"].as_f64(), seen.seed()),
        (0.0, Some(1.0), 1337)
    );
    assert_eq!(seen.body["model"], "stub-model");
    assert!(
        seen.user().ends_with(&format!("<text>\n{TEXT}\n</text>")),
        "the text comes last and delimited"
    );
}

#[tokio::test]
async fn a_slow_answer_is_waited_for() {
    let (response, _) = one(
        [Answer::Slow(Duration::from_millis(300), Box::new(Answer::Good))],
        paraphrase(),
    )
    .await;
    assert_eq!(response.results[0].outcome(), Outcome::Ok);
}

#[tokio::test]
async fn overload_is_retried_after_as_long_as_the_server_asks() {
    for code in [429, 503] {
        let (response, stub) = one([Answer::Status(code, Some("1".into()))], paraphrase()).await;
        assert_eq!(response.results[0].outcome(), Outcome::Ok);
        let seen = stub.seen();
        assert_eq!(seen.len(), 2);
        let waited = seen[1].at - seen[0].at;
        assert!(
            (Duration::from_secs(1)..Duration::from_secs(60)).contains(&waited),
            "{waited:?}"
        );
        // One attempt at the text, two calls to the server.
        assert_eq!(response.summary.as_ref().unwrap().generator_calls, 1);
        assert_eq!(response.usage.unwrap().generator_calls, 2);
        assert_eq!(counts(&response), []);
    }
}

#[tokio::test]
async fn a_longer_wait_than_we_are_willing_to_make_fails_the_text() {
    let (response, stub) = one([Answer::Status(429, Some("3600".into()))], paraphrase()).await;
    assert_eq!(stub.calls(), 1);
    assert_eq!(response.results[0].outcome(), Outcome::KeptOriginal);
    assert!(response.results[0].failed_checks().eq([Check::GeneratorError]));
}

#[tokio::test]
async fn a_passing_server_error_is_retried_without_a_new_attempt() {
    let (response, stub) = one([status(500), status(502)], paraphrase()).await;
    assert_eq!(response.results[0].outcome(), Outcome::Ok);
    assert_eq!((stub.calls(), response.usage.unwrap().generator_calls), (3, 3));
    let seeds: Vec<_> = stub.seen().iter().map(ReceivedRequest::seed).collect();
    assert_eq!(seeds, [1337, 1337, 1337]);
}

#[tokio::test]
async fn a_lasting_server_error_is_a_generator_error_of_that_text() {
    let (response, stub) = one(vec![status(500); 50], paraphrase()).await;
    let result = &response.results[0];
    assert_eq!(stub.calls(), 4, "one retry policy: four tries, not four times three");
    assert_eq!(result.outcome(), Outcome::KeptOriginal);
    assert_eq!(result.text, TEXT);
    assert!(
        result.error.contains("500") && result.error.contains("4 tries"),
        "{}",
        result.error
    );
    assert_eq!(counts(&response), [("generator_error".to_owned(), 1)]);
    assert_eq!(response.summary.unwrap().kept_original, 1);
}

#[tokio::test]
async fn truncated_json_is_retried_and_then_a_generator_error() {
    let (response, stub) = one([Answer::TruncatedJson], paraphrase()).await;
    assert_eq!((response.results[0].outcome(), stub.calls()), (Outcome::Ok, 2));
    for bad in [
        Answer::TruncatedJson,
        Answer::Raw("[]".into()),
        Answer::Raw(r#"{"choices": []}"#.into()),
        Answer::Raw(String::new()),
    ] {
        let (response, stub) = one(vec![bad; 10], paraphrase()).await;
        assert_eq!(stub.calls(), 4);
        assert!(response.results[0].failed_checks().eq([Check::GeneratorError]));
        assert!(
            response.results[0].error.contains("not a completion"),
            "{}",
            response.results[0].error
        );
    }
}

#[tokio::test]
async fn a_rejected_text_fails_alone_and_at_once() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.mark("poison", [status(400)]);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let response = transform(
        &mut client,
        paraphrase(),
        &[
            "A good text of five words.",
            "This one holds poison for it.",
            "Another good text of words.",
        ],
    )
    .await;
    let outcomes: Vec<_> = response.results.iter().map(|result| result.outcome()).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::KeptOriginal, Outcome::Ok]);
    assert_eq!(stub.calls(), 3);
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_on() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Hang).await;
    let mut config = config(&stub, home.path());
    config.generators.get_mut("stub").unwrap().timeout_seconds = 0.3;
    let mut client = client(config, home.path()).await;
    let response = transform(&mut client, paraphrase(), &[TEXT]).await;
    assert!(response.results[0].failed_checks().eq([Check::GeneratorError]));
    assert!(
        response.results[0].error.contains("in time"),
        "{}",
        response.results[0].error
    );
    assert!((2..=3).contains(&stub.calls()), "{}", stub.calls());
}

#[tokio::test]
async fn an_unreachable_generator_is_said_to_be_so_soon() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut config = config(&stub, home.path());
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    config.generators.get_mut("stub").unwrap().url = Some(format!("http://127.0.0.1:{port}/v1"));
    let mut client = client(config, home.path()).await;
    let began = Instant::now();
    let texts: Vec<String> = (0..200).map(|n| format!("This is the text of number {n}.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let fault = try_transform(&mut client, paraphrase(), &texts).await.unwrap_err();
    // 200 texts in turn would take half an hour.
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
    promised("TransformService.Transform UNAVAILABLE GENERATOR_UNREACHABLE", &fault);
    assert!(fault.message.contains("stub") && fault.hint.is_some(), "{fault}");
    assert!(
        fault.message.contains(&format!("127.0.0.1:{port}")),
        "the address: {fault}"
    );
}

#[tokio::test]
async fn an_unknown_model_or_path_ends_the_request() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(status(404)).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let fault = try_transform(&mut client, paraphrase(), &[TEXT]).await.unwrap_err();
    assert_eq!(fault.reason, "GENERATOR_REFUSED");
    assert!(fault.hint.unwrap().contains("stub-model"));
}

#[tokio::test]
async fn sampling_is_passed_on() {
    let sampling = Sampling {
        temperature: Some(0.9),
        top_p: Some(0.5),
        max_tokens: Some(77),
        top_k: None,
    };
    let (_, stub) = one(
        [],
        TransformSpec {
            sampling: Some(sampling),
            seed: Some(u64::MAX),
            ..paraphrase()
        },
    )
    .await;
    let seen = &stub.seen()[0];
    assert_eq!(
        (
            seen.temperature(),
            seen.body["top_p"].as_f64(),
            seen.body["max_tokens"].as_u64()
        ),
        (0.9, Some(0.5), Some(77))
    );
    assert_eq!(seen.seed(), i64::MAX as u64, "a seed that servers can read");
}

/// A completion of a server that does not count tokens.
fn uncounted(text: &str) -> Answer {
    let body = serde_json::json!({"choices": [{"message": {"role": "assistant", "content": text}}]});
    Answer::Raw(body.to_string())
}

#[tokio::test]
async fn tokens_that_a_server_does_not_count_are_estimated_and_said_to_be() {
    let (response, _) = one([], paraphrase()).await;
    assert!(!response.usage.unwrap().tokens_estimated);
    let (response, _) = one(
        [uncounted(
            "In town, someone plays the guitar on a street full of people.",
        )],
        paraphrase(),
    )
    .await;
    assert_eq!(response.results[0].outcome(), Outcome::Ok);
    let usage = response.usage.unwrap();
    assert!(usage.tokens_estimated);
    // The prompt is some 300 words of instructions and examples, the answer 12.
    assert!((200..900).contains(&usage.tokens), "{usage:?}");
    assert!((12..30).contains(&usage.generated_tokens), "{usage:?}");
}

#[tokio::test]
async fn a_spent_budget_keeps_what_was_done_names_itself_and_lets_a_larger_one_go_on() {
    let texts: Vec<String> = (0..6).map(|n| format!("This is the text of number {n}.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (budget, field) in [
        (
            BudgetConfig {
                requests: Some(3),
                ..BudgetConfig::default()
            },
            "budget.requests",
        ),
        // The stub counts 11 and 7 tokens per call; the third call exceeds the limit.
        (
            BudgetConfig {
                tokens: Some(40),
                ..BudgetConfig::default()
            },
            "budget.tokens",
        ),
        (
            BudgetConfig {
                cost: Some(0.000_05),
                prompt_price: 1.0,
                generated_price: 1.0,
                ..BudgetConfig::default()
            },
            "budget.cost",
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(Answer::Good).await;
        let mut config = config(&stub, home.path());
        let generator = config.generators.get_mut("stub").unwrap();
        // One call at a time, so that no call is in flight when the last token is spent.
        generator.concurrency = 1;
        generator.budget = budget;
        let mut poor = client(config.clone(), home.path()).await;
        let response = transform(&mut poor, paraphrase(), &texts).await;
        assert_eq!(stub.calls(), 3, "{field}");
        let (done, rest) = response.results.split_at(3);
        assert!(done.iter().all(|result| result.outcome() == Outcome::Ok));
        for (result, text) in rest.iter().zip(&texts[3..]) {
            assert_eq!((result.outcome(), result.text.as_str()), (Outcome::KeptOriginal, *text));
            assert!(result.failed_checks().eq([Check::GeneratorError]));
            assert!(
                result.error.contains("`stub`") && result.error.contains(field),
                "{}",
                result.error
            );
        }
        let summary = response.summary.unwrap();
        assert_eq!((summary.ok, summary.kept_original, summary.generator_calls), (3, 3, 3));
        // A repeated run with the same budget calls nothing, and the generated texts are cached.
        let again = transform(&mut poor, paraphrase(), &texts).await.summary.unwrap();
        assert_eq!((stub.calls(), again.ok, again.cache_hits), (3, 3, 3));
        assert_eq!(again.generator_calls, 0);
        drop(poor);
        config.generators.get_mut("stub").unwrap().budget = BudgetConfig::default();
        let mut rich = client(config, home.path()).await;
        let summary = transform(&mut rich, paraphrase(), &texts).await.summary.unwrap();
        assert_eq!((stub.calls(), summary.ok, summary.cache_hits), (6, 6, 3));
    }
}

#[tokio::test]
async fn a_server_that_fails_one_call_in_five_leaves_every_text_with_an_outcome() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::OneInFiveFails(Duration::from_millis(5))).await;
    let mut config = config(&stub, home.path());
    let generator = config.generators.get_mut("stub").unwrap();
    generator.timeout_seconds = 0.5;
    generator.concurrency = 32;
    let mut client = client(config, home.path()).await;
    let texts: Vec<String> = (0..200).map(|n| format!("This is the text of number {n}.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let response = transform(&mut client, paraphrase(), &texts).await;
    assert_eq!(response.results.len(), 200);
    let mut good = 0;
    for result in &response.results {
        match result.outcome() {
            Outcome::Ok => good += 1,
            Outcome::KeptOriginal => {
                assert!(result.failed_checks().eq([Check::GeneratorError]));
                assert!(!result.error.is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
    // With four attempts, two for a server that hangs, hardly a text in a hundred fails.
    assert!(good >= 180, "{good}");
    assert!(stub.calls() > 220, "{}", stub.calls());
}

/// With the pause between two tries that is the default.
fn patient(stub: &Stub, home: &Path) -> TransformConfig {
    let mut config = config(stub, home);
    config.generators.get_mut("stub").unwrap().retry_delay_seconds = GeneratorConfig::default().retry_delay_seconds;
    config
}

#[tokio::test]
async fn a_generator_that_fails_on_everything_ends_the_request_within_20_calls() {
    for code in [500, 429] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(status(code)).await;
        let mut client = client(patient(&stub, home.path()), home.path()).await;
        let texts: Vec<String> = (0..300).map(|n| format!("{TEXT} It was seen {n} times.")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let fault = try_transform(&mut client, paraphrase(), &texts).await.unwrap_err();
        assert_eq!(fault.reason, "GENERATOR_REFUSED", "{fault}");
        assert!(fault.message.contains(&code.to_string()), "{fault}");
        assert!(stub.calls() <= 20, "{code}: {} calls", stub.calls());
    }
}

#[tokio::test]
async fn a_generator_that_recovers_from_an_outage_is_used_on() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.script((0..17).map(|_| status(500)));
    let mut client = client(patient(&stub, home.path()), home.path()).await;
    let texts: Vec<String> = (0..40).map(|n| format!("{TEXT} It was seen {n} times.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let response = transform(&mut client, paraphrase(), &texts).await;
    assert_eq!(response.summary.unwrap().ok, 40);
}
