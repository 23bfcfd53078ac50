//! Texts that a check rejects: their retries, and their results when retries do not help.

use isomer_proto::transform::v1::{Check, OnFailure, Outcome, Summarisation, TransformSpec, transformation::Kind};
use isomer_stubs::{
    openai::{Answer, Stub},
    promise::promised,
};

use super::{TEXT, counts, one};
use crate::support::{client, config, paraphrase, spec, try_transform};

/// Answers that a check rejects, and the check.
fn bad_texts() -> Vec<(&'static str, Check)> {
    vec![
        ("", Check::Empty),
        ("   \n", Check::Empty),
        ("...", Check::Ellipsis),
        (
            "{\"paraphrase\": \"Someone plays guitar in a street of the town.\"}",
            Check::Structured,
        ),
        (
            "Let me think about this. Someone plays guitar in the street.",
            Check::ReasoningLeak,
        ),
        (TEXT, Check::Identical),
        (
            "Here is the paraphrased text: someone plays guitar in the street.",
            Check::InstructionPrefix,
        ),
        (
            "Ein Mann spielt auf einer belebten Straße in der Stadt Gitarre.",
            Check::WrongLanguage,
        ),
        ("Music.", Check::Truncated),
    ]
}

#[tokio::test]
async fn a_text_that_a_check_catches_is_made_again_with_a_new_seed_and_warmer() {
    for (bad, check) in bad_texts() {
        let (response, stub) = one([Answer::Text(bad.into())], paraphrase()).await;
        let result = &response.results[0];
        assert_eq!(result.outcome(), Outcome::Recovered, "{bad}");
        assert!(
            result.retried_checks().any(|fired| fired == check),
            "{bad}: {:?}",
            result.retried_checks
        );
        assert_eq!(result.failed_checks().count(), 0);
        assert!(counts(&response).contains(&(check.name_in_summary(), 1)), "{bad}");
        assert_eq!(response.summary.unwrap().recovered, 1);
        let seen = stub.seen();
        assert_eq!(seen.len(), 2);
        assert_ne!(seen[1].seed(), 1337);
        assert!(seen[1].temperature() >= 0.7);
        assert_eq!(result.provenance.as_ref().unwrap().seed, seen[1].seed());
    }
}

#[tokio::test]
async fn a_text_that_never_passes_ends_as_the_policy_says() {
    for (bad, check) in bad_texts() {
        let (response, stub) = one(vec![Answer::Text(bad.into()); 10], paraphrase()).await;
        let result = &response.results[0];
        assert_eq!((result.outcome(), stub.calls()), (Outcome::KeptOriginal, 3), "{bad}");
        assert_eq!(result.text, TEXT);
        assert!(result.failed_checks().any(|fired| fired == check));
        assert!(counts(&response).contains(&(check.name_in_summary(), 3)));
    }
    let dropped = TransformSpec {
        on_failure: OnFailure::Drop.into(),
        max_attempts: Some(2),
        ..paraphrase()
    };
    let (response, stub) = one(vec![Answer::Text(String::new()); 10], dropped).await;
    let result = &response.results[0];
    assert_eq!(
        (result.outcome(), result.text.as_str(), stub.calls()),
        (Outcome::Failed, "", 2)
    );
    assert_eq!(result.measures, None);
    assert_eq!(response.summary.unwrap().failed, 1);
}

#[tokio::test]
async fn a_request_that_should_fail_names_the_text() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.mark("poison", [Answer::Text(String::new())]);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let failing = TransformSpec {
        on_failure: OnFailure::Fail.into(),
        ..paraphrase()
    };
    let fault = try_transform(
        &mut client,
        failing,
        &["A good text of five words.", "This text holds poison for it."],
    )
    .await
    .unwrap_err();
    promised("OnFailure.ON_FAILURE_FAIL ABORTED TEXT_FAILED", &fault);
    assert!(
        fault.message.contains("t1") && fault.message.contains("empty"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_summary_that_grows_is_caught() {
    let longer = format!("Indeed, {TEXT} And it is a lovely sound.");
    let (response, _) = one(
        vec![Answer::Text(longer); 3],
        spec(Kind::Summarisation(Summarisation {})),
    )
    .await;
    assert!(
        response.results[0]
            .failed_checks()
            .any(|check| check == Check::SummaryLonger)
    );
}

/// The name under which a summary counts a check.
trait SummaryName {
    fn name_in_summary(&self) -> String;
}

impl SummaryName for Check {
    fn name_in_summary(&self) -> String {
        self.as_str_name().trim_start_matches("CHECK_").to_lowercase()
    }
}
