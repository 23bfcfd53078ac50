//! PARTIAL's two transformations: texts that have the words, or the beginning, of an original and not its meaning.

use isomer_proto::transform::v1::{
    Check, Continuation, MultiSwap, OnFailure, Outcome, TextItem, TransformRequest, TransformSpec, transformation::Kind,
};
use isomer_service_kit::Fault;
use tonic::Code;

use crate::{
    support::{
        client, config, spec,
        stub::{Answer, Stub},
        transform, try_transform,
    },
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
    // Every word stays.
    assert!(result.text_measures.iter().all(|measures| measures.jaccard == 1.0));
    assert!(result.text_measures.iter().all(|measures| measures.edit_distance > 0.0));
    assert_eq!(stub.calls(), 0);

    // The draw is of the seed and the id, not of the company or the order.
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
    };
    let status = client.transform(request(Some("de"))).await.unwrap_err();
    let fault = Fault::from_status(&status);
    assert_eq!(fault.code, Code::InvalidArgument);
    assert!(fault.message.contains("German"), "{fault}");
    assert!(fault.mend.unwrap().contains("English"));

    // Detected, it is this text alone that fails.
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
async fn a_chat_server_is_refused_for_continuation() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let fault = try_transform(&mut client, continuation("stub", 2), &[SWAPPABLE])
        .await
        .unwrap_err();
    assert_eq!(fault.code, Code::InvalidArgument);
    assert!(fault.message.contains("continues a text"), "{fault}");
    assert!(fault.mend.unwrap().contains("local:"));
    assert_eq!(stub.calls(), 0);
}

#[tokio::test]
async fn each_cut_of_a_continuation_goes_on_where_the_one_before_ended() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let (_folder, path) = TinyModel::new("llama", 3).written();
    let generator = format!("local:{}", path.display());
    let mut config = config(&stub, home.path());
    config.allow_specs = true;
    let mut client = client(config, home.path()).await;
    let wanted = || TransformSpec {
        // What a random model says need not pass the checks.
        max_attempts: Some(1),
        ..continuation(&generator, 3)
    };
    let first = transform(&mut client, wanted(), &[SWAPPABLE]).await;
    let result = &first.results[0];
    if result.outcome() == Outcome::Ok {
        assert_eq!(result.texts.len(), 3);
        assert!(
            result.texts[0].starts_with(SWAPPABLE.trim_end_matches('.')),
            "{:?}",
            result.texts
        );
        assert!(result.texts[0].contains(", and"));
        assert!(
            result
                .texts
                .windows(2)
                .all(|pair| pair[1].starts_with(&pair[0]) && pair[1] != pair[0])
        );
    } else {
        assert!(result.texts.is_empty() && !result.failed_checks.is_empty());
    }
    // Again from the cache, the same.
    let again = transform(&mut client, wanted(), &[SWAPPABLE]).await;
    assert_eq!(again.results[0].texts, result.texts);
    assert_eq!(again.usage.unwrap().generator_calls, 0);
}
