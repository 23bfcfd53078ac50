//! Parameters that a server refuses, and answers as JSON.

use std::path::Path;

use isomer_proto::transform::v1::{Check, Distractors, Outcome, TransformResponse, transformation::Kind};
use isomer_service_kit::config::Validate;
use isomer_stubs::openai::{Answer, Stub};
use isomer_transform::{
    GeneratorConfig, TransformConfig,
    config::{MaxTokensName, ParametersConfig, Structured},
};
use serde_json::{Value, json};

use super::{TEXT, one};
use crate::support::{client, config, paraphrase, spec, transform};

#[tokio::test]
async fn a_parameter_that_the_server_refuses_is_left_out_from_then_on() {
    let refused = |error: Value| Answer::Body(400, json!({"error": error}).to_string());
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.script([
        refused(json!({
            "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "type": "invalid_request_error", "param": "max_tokens", "code": "unsupported_parameter",
        })),
        refused(json!({"message": "Unsupported value: 'temperature' does not support 0 with this model.", "param": null})),
    ]);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let response = transform(
        &mut client,
        paraphrase(),
        &[TEXT, "A dog runs over the wide green field."],
    )
    .await;
    assert!(
        response.results.iter().all(|result| result.outcome() == Outcome::Ok),
        "{response:?}"
    );
    let last = stub.seen().pop().unwrap().body;
    assert!(
        last.get("max_tokens").is_none() && last.get("temperature").is_none(),
        "{last}"
    );
    assert!(
        last["max_completion_tokens"].is_u64() && last["top_p"].is_number(),
        "{last}"
    );
    let before = stub.calls();
    let response = transform(&mut client, paraphrase(), &["Two birds sit on an old wooden fence."]).await;
    assert_eq!(response.results[0].outcome(), Outcome::Ok);
    assert_eq!(stub.calls(), before + 1);

    // A parameter that the request cannot do without is not omitted.
    let (response, stub) = one(
        [refused(
            json!({"message": "the prompt is too long", "param": "messages"}),
        )],
        paraphrase(),
    )
    .await;
    assert!(response.results[0].error.contains("too long"));
    assert_eq!(stub.calls(), 1);
}

/// The configuration with a change of its generator.
fn with(stub: &Stub, home: &Path, change: impl FnOnce(&mut GeneratorConfig)) -> TransformConfig {
    let mut config = config(stub, home);
    change(config.generators.get_mut("stub").unwrap());
    config
}

async fn run(config: TransformConfig, home: &Path) -> TransformResponse {
    let mut client = client(config, home).await;
    transform(&mut client, paraphrase(), &[TEXT]).await
}

#[tokio::test]
async fn parameters_of_a_generator_are_named_and_left_out_as_configured() {
    let all = ["max_tokens", "max_completion_tokens", "temperature", "top_p", "seed"];
    for (max_tokens, omit, sent) in [
        (
            MaxTokensName::MaxTokens,
            vec![],
            vec!["max_tokens", "temperature", "top_p", "seed"],
        ),
        (
            MaxTokensName::MaxCompletionTokens,
            vec![],
            vec!["max_completion_tokens", "temperature", "top_p", "seed"],
        ),
        (
            MaxTokensName::MaxCompletionTokens,
            vec!["temperature", "top_p"],
            vec!["max_completion_tokens", "seed"],
        ),
        (
            MaxTokensName::MaxTokens,
            vec!["max_tokens", "seed"],
            vec!["temperature", "top_p"],
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(Answer::Good).await;
        let config = with(&stub, home.path(), |generator| {
            generator.parameters = ParametersConfig {
                max_tokens,
                omit: omit.iter().map(ToString::to_string).collect(),
            };
        });
        run(config, home.path()).await;
        let seen = stub.seen();
        let found: Vec<&str> = all
            .into_iter()
            .filter(|name| seen[0].body.get(*name).is_some())
            .collect();
        assert_eq!((found, seen.len()), (sent, 1), "{omit:?}");
    }
}

#[tokio::test]
async fn texts_of_other_parameters_or_another_form_are_generated_again() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let omit = |names: &[&str]| {
        let names = names.iter().map(ToString::to_string).collect();
        with(&stub, home.path(), |generator| generator.parameters.omit = names)
    };
    let named = |max_tokens| {
        with(&stub, home.path(), |generator| {
            generator.parameters.max_tokens = max_tokens
        })
    };
    let structured = |structured| with(&stub, home.path(), |generator| generator.structured = structured);
    for (config, calls) in [
        (config(&stub, home.path()), 1),
        (named(MaxTokensName::MaxCompletionTokens), 1),
        (omit(&["seed", "top_p"]), 2),
        (omit(&["top_p", "seed"]), 2),
        (structured(Structured::Auto), 3),
        (structured(Structured::JsonSchema), 4),
        (config(&stub, home.path()), 4),
    ] {
        run(config, home.path()).await;
        assert_eq!(stub.calls(), calls);
    }
}

#[test]
fn a_parameter_that_no_request_has_is_refused() {
    for name in ["temprature", "response_format", "messages"] {
        let text =
            format!("[generators.x]\nmodel = \"m\"\nurl = \"http://h/v1\"\nparameters = {{ omit = [\"{name}\"] }}\n");
        let config: TransformConfig = toml::from_str(&text).unwrap();
        let field = "transform.generators.x.parameters.omit";
        assert_eq!(config.validate().unwrap_err().field(), field, "{name}");
    }
    for local in [
        "parameters = { max_tokens = \"max_completion_tokens\" }",
        "structured = \"auto\"",
    ] {
        let text = format!("[generators.x]\nkind = \"local\"\nmodel = \"m\"\n{local}\n");
        let config: TransformConfig = toml::from_str(&text).unwrap();
        assert!(config.validate().is_err(), "{local}");
    }
}

fn in_json(text: &str) -> Answer {
    Answer::Text(json!({"text": text}).to_string())
}

#[tokio::test]
async fn a_server_is_asked_for_json_where_that_is_configured() {
    let rewrite = "On a street in town, somebody performs on a guitar.";
    for (structured, is_asked) in [
        (Structured::Off, false),
        (Structured::Auto, true),
        (Structured::JsonSchema, true),
    ] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(if is_asked {
            in_json(rewrite)
        } else {
            Answer::Text(rewrite.into())
        })
        .await;
        let config = with(&stub, home.path(), |generator| generator.structured = structured);
        let mut client = client(config, home.path()).await;
        let response = transform(&mut client, paraphrase(), &[TEXT]).await;
        assert_eq!(response.results[0].text, rewrite, "{structured:?}");
        let kind = |seen: &Value| seen["response_format"]["type"].as_str().map(str::to_owned);
        assert_eq!(kind(&stub.seen()[0].body).as_deref(), is_asked.then_some("json_schema"));
        // Lists have a form of their own.
        transform(&mut client, spec(Kind::Distractors(Distractors::default())), &[TEXT]).await;
        assert_eq!(kind(&stub.seen().last().unwrap().body), None);
    }
}

#[tokio::test]
async fn json_is_left_out_where_the_server_refuses_or_ignores_it() {
    let refusals = [
        json!({"message": "Invalid value", "param": "response_format"}),
        json!({"message": "Input should be 'text'", "param": "response_format.type"}),
        json!({"message": "'response_format.type' must be 'text'"}),
    ];
    for refusal in &refusals {
        let refused = Answer::Body(400, json!({"error": refusal}).to_string());
        for (structured, outcome, calls) in [
            (Structured::Auto, Outcome::Ok, 2),
            (Structured::JsonSchema, Outcome::KeptOriginal, 1),
        ] {
            let home = tempfile::tempdir().unwrap();
            let stub = Stub::start(Answer::Good).await;
            stub.script([refused.clone()]);
            let config = with(&stub, home.path(), |generator| generator.structured = structured);
            let response = run(config, home.path()).await;
            assert_eq!(response.results[0].outcome(), outcome, "{refusal}: {response:?}");
            assert_eq!(stub.calls(), calls, "{refusal}");
        }
    }
    // A server that does not know the parameter.
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let config = with(&stub, home.path(), |generator| {
        generator.structured = Structured::JsonSchema
    });
    assert_eq!(run(config, home.path()).await.results[0].outcome(), Outcome::Ok);
}

#[tokio::test]
async fn json_that_was_cut_is_not_accepted() {
    let home = tempfile::tempdir().unwrap();
    let choice = json!({"message": {"content": "{\"text\": \"On a street in"}, "finish_reason": "length"});
    let stub = Stub::start(in_json("On a street in town, somebody performs on a guitar.")).await;
    stub.script([Answer::Raw(json!({"choices": [choice]}).to_string())]);
    let config = with(&stub, home.path(), |generator| generator.structured = Structured::Auto);
    let response = run(config, home.path()).await;
    assert_eq!(response.results[0].outcome(), Outcome::Recovered, "{response:?}");
    assert!(
        response.results[0]
            .first_checks()
            .any(|check| check == Check::Truncated)
    );
}
