//! PARTIAL's two transformations: texts that have the words, or the beginning, of an original but
//! not its meaning.

use isomer_proto::transform::v1::{
    Check, Continuation, MultiSwap, OnFailure, Outcome, TextItem, TransformRequest, TransformResponse, TransformSpec,
    transformation::Kind,
};
use isomer_service_kit::Fault;
use isomer_stubs::{
    openai::{Answer, Stub, numbers},
    promise::promised,
};
use tonic::Code;

use crate::{
    support::{client, config, spec, transform, try_transform},
    tiny::TinyModel,
};

const SWAPPABLE: &str =
    "Yesterday Maria Lopez quickly sold an old boat to Peter Brown, and he slowly repaired the new engine.";

fn swap() -> TransformSpec {
    spec(Kind::MultiSwap(MultiSwap::default()))
}

fn continuation(generator: &str, cuts: u32) -> TransformSpec {
    TransformSpec {
        generator_id: generator.to_owned(),
        ..spec(Kind::Continuation(Continuation {
            stride: None,
            cuts: Some(cuts),
        }))
    }
}

#[tokio::test]
async fn a_swapped_text_comes_three_times_without_a_generator() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let response = transform(&mut client, swap(), &[SWAPPABLE]).await;
    let result = &response.results[0];
    assert_eq!(result.outcome(), Outcome::Ok);
    assert!(result.text.is_empty());
    assert_eq!((result.texts.len(), result.text_measures.len()), (3, 3));
    // All words are kept.
    assert!(result.text_measures.iter().all(|measures| measures.jaccard == 1.0));
    assert!(result.text_measures.iter().all(|measures| measures.edit_distance > 0.0));
    assert_eq!(stub.calls(), 0);

    // The draw depends on the seed and the id, not on the other texts or the order.
    let other = transform(&mut client, swap(), &[SWAPPABLE, "Hello there."]).await;
    assert_eq!(other.results[0].texts, result.texts);
    let one = spec(Kind::MultiSwap(MultiSwap { swaps: Some(1) }));
    let one = transform(&mut client, one, &[SWAPPABLE]).await;
    assert_eq!(one.results[0].texts, result.texts[..1]);
}

#[tokio::test]
async fn a_text_with_too_few_words_to_swap_says_so_and_is_never_copied() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    for on_failure in [OnFailure::KeepOriginal, OnFailure::Drop] {
        let wanted = TransformSpec {
            on_failure: on_failure.into(),
            ..swap()
        };
        let response = transform(&mut client, wanted, &["A dog sleeps.", SWAPPABLE]).await;
        let result = &response.results[0];
        assert_eq!(result.outcome(), Outcome::Failed);
        assert!(result.text.is_empty() && result.texts.is_empty());
        assert_eq!(result.failed_checks, [i32::from(Check::TooFew)]);
        assert!(result.error.contains("3 are needed"), "{}", result.error);
        assert_eq!(response.results[1].outcome(), Outcome::Ok);
    }
}

#[tokio::test]
async fn a_language_without_a_tagger_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let german =
        "Gestern verkaufte Maria Lopez schnell ein altes Boot an Peter Braun, und er reparierte den neuen Motor.";
    let request = |language: Option<&str>| TransformRequest {
        spec: Some(swap()),
        items: vec![TextItem {
            id: "a".into(),
            text: german.into(),
            language: language.map(str::to_owned),
        }],
        ..Default::default()
    };
    let status = client.transform(request(Some("de"))).await.unwrap_err();
    let fault = Fault::from_status(&status);
    assert_eq!(fault.code, Code::InvalidArgument);
    assert!(fault.message.contains("German"), "{fault}");
    assert!(fault.hint.unwrap().contains("English"));

    // With a detected language, only this text fails.
    let response = client.transform(request(None)).await.unwrap().into_inner();
    assert_eq!(response.results[0].outcome(), Outcome::Failed);
    assert!(
        response.results[0].error.contains("German"),
        "{}",
        response.results[0].error
    );
}

#[tokio::test]
async fn a_number_of_swaps_or_cuts_out_of_range_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    for (wanted, field) in [
        (spec(Kind::MultiSwap(MultiSwap { swaps: Some(4) })), "multi_swap.swaps"),
        (continuation("stub", 0), "continuation.cuts"),
    ] {
        let fault = try_transform(&mut client, wanted, &[SWAPPABLE]).await.unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument);
        assert!(format!("{fault:?}").contains(field), "{fault:?}");
    }
}

#[tokio::test]
async fn a_server_without_completions_ends_the_request_and_is_told_apart_from_one_without_the_model() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Status(404, None)).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let fault = try_transform(&mut client, continuation("stub", 2), &[SWAPPABLE])
        .await
        .unwrap_err();
    promised("Continuation FAILED_PRECONDITION GENERATOR_REFUSED", &fault);
    assert!(fault.message.contains("404"), "{fault}");
    assert!(fault.hint.unwrap().contains("/completions"));
    assert_eq!(stub.calls(), 1);
}

#[tokio::test]
async fn each_cut_of_a_continuation_goes_on_where_the_one_before_ended() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Continue).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let wanted = || continuation("stub", 4);
    let first = transform(&mut client, wanted(), &[SWAPPABLE]).await;
    let result = &first.results[0];
    assert_eq!(result.outcome(), Outcome::Ok, "{result:?}");
    // PARTIAL: after ", and", five more tokens each time.
    let begun = format!("{}, and", SWAPPABLE.trim_end_matches('.'));
    let cuts: Vec<String> = (1..=4)
        .map(|cut| format!("{begun} {}", numbers()[..5 * cut].join(" ")))
        .collect();
    assert_eq!(result.texts, cuts);
    let seen = stub.seen();
    let asked: Vec<_> = seen.iter().map(|call| (call.prompt(), call.max_tokens())).collect();
    let prompts = [&begun, &cuts[0], &cuts[1], &cuts[2]];
    assert_eq!(asked, prompts.map(|prompt| (Some(prompt.as_str()), 5)));
    assert!(seen.iter().all(|call| call.body.get("messages").is_none()));
    // The repeated request gives the same text from the cache; one more cut is one more call.
    let again = transform(&mut client, wanted(), &[SWAPPABLE]).await;
    assert_eq!(again.results[0].texts, result.texts);
    assert_eq!(again.usage.unwrap().generator_calls, 0);
    let longer = transform(&mut client, continuation("stub", 5), &[SWAPPABLE]).await;
    assert_eq!(longer.results[0].texts[..4], cuts);
    assert_eq!(stub.calls(), 5);
}

#[tokio::test]
async fn a_text_that_ends_by_itself_is_too_few_cuts_and_is_attempted_again() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Continue).await;
    // The second cut of the first attempt returns nothing.
    stub.mark(
        "five",
        [Answer::Raw(r#"{"choices": [{"text": ""}]}"#.into()), Answer::Continue],
    );
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let response = transform(&mut client, continuation("stub", 2), &[SWAPPABLE]).await;
    let result = &response.results[0];
    assert_eq!(result.outcome(), Outcome::Recovered, "{result:?}");
    assert_eq!(result.retried_checks().collect::<Vec<_>>(), [Check::TooFew]);
    assert_eq!((result.texts.len(), stub.calls()), (2, 4));
}

#[tokio::test]
async fn a_local_model_with_a_chat_template_continues_a_text_as_it_stands() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let (_folder, path) = TinyModel::new("llama", 3).written();
    let generator = format!("local:{}", path.display());
    let mut config = config(&stub, home.path());
    config.allow_specs = true;
    config.by_owner = true;
    let mut client = client(config, home.path()).await;
    // The model's weights are random: the checks of one attempt may fire, but always the same.
    let wanted = || TransformSpec {
        max_attempts: Some(1),
        ..continuation(&generator, 3)
    };
    let first = transform(&mut client, wanted(), &[SWAPPABLE]).await;
    let again = transform(&mut client, wanted(), &[SWAPPABLE]).await;
    let told = |response: &TransformResponse| {
        let result = &response.results[0];
        (result.outcome, result.texts.clone(), result.failed_checks.clone())
    };
    assert_eq!(told(&first), told(&again));
    let usage = |response: TransformResponse| response.usage.unwrap();
    assert_eq!(usage(again).generator_calls, 0);
    assert!(usage(first).generated_tokens > 0, "it did speak");
    assert_eq!(stub.calls(), 0);
}
