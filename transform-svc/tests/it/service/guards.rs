//! Meaning guards, and their interaction with a request's retry settings.

use isomer_proto::transform::v1::{
    Check, Distractors, Guard, GuardMode, OnFailure, Outcome, Paraphrase, TransformResult, TransformSpec,
    transformation::Kind,
};

use super::one;
use crate::support::{client, config, paraphrase, spec, transform};
use isomer_stubs::openai::{Answer, Stub};

const ORIGINAL: &str = "The dose of 40 mg was not changed for three weeks.";
const KEPT: &str = "For three weeks nobody altered the 40 mg dose.";
const NUMBER: &str = "For three weeks nobody altered the 60 mg dose.";
const BOTH: &str = "For five weeks somebody altered the dose.";

fn with(guards: GuardMode) -> TransformSpec {
    TransformSpec {
        guards: guards.into(),
        ..paraphrase()
    }
}

fn text(text: &str) -> Answer {
    Answer::Text(text.to_owned())
}

/// The result of a text and its number of calls.
async fn made(answers: Vec<Answer>, spec: TransformSpec) -> (TransformResult, usize) {
    let stub = Stub::start(Answer::Good).await;
    stub.mark("dose", answers);
    let home = tempfile::tempdir().unwrap();
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let response = transform(&mut client, spec, &[ORIGINAL]).await;
    (response.results.into_iter().next().unwrap(), stub.calls())
}

fn fired(result: &TransformResult) -> Vec<Guard> {
    result.guards().collect()
}

#[tokio::test]
async fn a_guard_warns_and_changes_nothing_else() {
    let (result, calls) = made(vec![text(NUMBER)], paraphrase()).await;
    assert_eq!((result.outcome(), calls), (Outcome::Ok, 1));
    assert_eq!((result.text.as_str(), fired(&result)), (NUMBER, vec![Guard::Numbers]));
    assert!(result.failed_checks.is_empty() && result.retried_guards.is_empty());
    let (result, _) = made(vec![text(KEPT)], paraphrase()).await;
    assert_eq!(fired(&result), []);
    let (result, _) = made(vec![text(NUMBER)], with(GuardMode::Off)).await;
    assert_eq!(fired(&result), []);
}

#[tokio::test]
async fn a_text_from_the_cache_has_its_guards_and_the_summary_counts_them() {
    let stub = Stub::start(Answer::Good).await;
    stub.mark("dose", [text(NUMBER)]);
    let home = tempfile::tempdir().unwrap();
    let mut client = client(config(&stub, home.path()), home.path()).await;
    // The text is generated without guards; the cache stores nothing about guards.
    transform(&mut client, with(GuardMode::Off), &[ORIGINAL]).await;
    let response = transform(&mut client, paraphrase(), &[ORIGINAL, ORIGINAL]).await;
    assert_eq!(stub.calls(), 1);
    for result in &response.results {
        assert_eq!(fired(result), [Guard::Numbers]);
    }
    assert_eq!(response.summary.unwrap().guard_counts["numbers"], 2);
}

#[tokio::test]
async fn a_guard_may_ask_for_another_attempt_and_the_best_text_is_kept() {
    let (result, calls) = made(vec![text(NUMBER), text(KEPT)], with(GuardMode::Retry)).await;
    assert_eq!((result.outcome(), calls), (Outcome::Recovered, 2));
    assert_eq!((result.text.as_str(), fired(&result)), (KEPT, vec![]));
    assert_eq!(result.retried_guards().collect::<Vec<_>>(), [Guard::Numbers]);

    // No text passes all guards: the result is the text with the fewest findings, and not a
    // failure.
    let (result, calls) = made(vec![text(BOTH), text(NUMBER), text("...")], with(GuardMode::Retry)).await;
    assert_eq!((result.outcome(), calls), (Outcome::Recovered, 3));
    assert_eq!((result.text.as_str(), fired(&result)), (NUMBER, vec![Guard::Numbers]));
    assert_eq!(
        result.retried_checks().collect::<Vec<_>>(),
        [Check::Ellipsis, Check::Truncated]
    );
    assert!(result.first_checks.is_empty());
}

#[tokio::test]
async fn a_request_may_take_identical_texts_as_they_are() {
    for on_failure in [OnFailure::KeepOriginal, OnFailure::Drop, OnFailure::Fail] {
        let spec = TransformSpec {
            retry_identical: Some(false),
            on_failure: on_failure.into(),
            ..paraphrase()
        };
        let (result, calls) = made(vec![text(ORIGINAL); 3], spec).await;
        assert_eq!((result.outcome(), calls), (Outcome::KeptOriginal, 1));
        assert_eq!(result.text, ORIGINAL);
        assert_eq!(result.failed_checks().collect::<Vec<_>>(), [Check::Identical]);
    }
    // Other checks are retried as usual.
    let spec = TransformSpec {
        retry_identical: Some(false),
        ..paraphrase()
    };
    let (result, calls) = made(vec![text("..."), text(KEPT)], spec).await;
    assert_eq!((result.outcome(), calls), (Outcome::Recovered, 2));
    assert_eq!(
        result.first_checks().collect::<Vec<_>>(),
        [Check::Ellipsis, Check::Truncated]
    );
}

#[tokio::test]
async fn retries_are_as_warm_as_the_request_says() {
    for (asked, expected) in [(None, 0.7), (Some(0.0), 0.0), (Some(1.2), 1.2)] {
        let spec = TransformSpec {
            retry_temperature: asked,
            ..paraphrase()
        };
        let (_, stub) = one([Answer::Text("...".into())], spec).await;
        let seen = stub.seen();
        assert_eq!(
            (seen.len(), seen[0].temperature(), seen[1].temperature()),
            (2, 0.0, expected)
        );
        // A server may give another text for another seed.
        assert_ne!(seen[0].seed(), seen[1].seed());
    }
}

#[tokio::test]
async fn distractors_are_sampled_at_the_temperature_of_their_paper_and_the_rest_is_greedy() {
    for (kind, expected) in [
        (Kind::Distractors(Distractors::default()), 1.0),
        (Kind::Paraphrase(Paraphrase {}), 0.0),
    ] {
        let (_, stub) = one([], spec(kind)).await;
        assert_eq!(stub.seen()[0].temperature(), expected);
    }
}
