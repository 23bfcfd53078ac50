//! Stored texts and ratings of another version of a generator's model.

use std::collections::HashMap;

use isomer_proto::transform::v1::{
    JudgeRequest, JudgeResponse, JudgeScale, OnFingerprintChange, TransformSpec, judge_request::Pair,
};
use isomer_stubs::openai::{Answer, Stub};
use serde_json::json;

use super::TEXT;
use crate::support::{Client, client, config, paraphrase, transform};

/// A response of this version of a model.
fn of_version(text: &str, model: &str, fingerprint: Option<&str>) -> Answer {
    let choice = json!({"message": {"content": text}, "finish_reason": "stop"});
    Answer::Raw(json!({"model": model, "system_fingerprint": fingerprint, "choices": [choice]}).to_string())
}

const OLD: &str = "On the street, somebody plays a guitar.";
const NEW: &str = "A guitar is played by somebody out on the street.";

#[tokio::test]
async fn texts_are_counted_by_the_version_of_the_model() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Status(500, None)).await;
    stub.script([of_version(OLD, "m-2024", Some("fp_1")), of_version(NEW, "m-2025", None)]);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    transform(&mut client, paraphrase(), &[TEXT]).await;
    let both = transform(&mut client, paraphrase(), &[TEXT, "He sings a song for his daughter."]).await;
    let versions = both.summary.unwrap().fingerprints;
    assert_eq!(
        versions,
        [("m-2024#fp_1".to_owned(), 1), ("m-2025".to_owned(), 1)].into(),
        "a stored text and a new one"
    );
    assert_eq!(both.results[0].calls[0].fingerprint, "m-2024#fp_1");
    assert_eq!(stub.calls(), 2);
}

#[tokio::test]
async fn stored_texts_of_another_version_are_made_again_where_a_request_asks_for_it() {
    let regenerate = || TransformSpec {
        on_fingerprint_change: OnFingerprintChange::Regenerate.into(),
        ..paraphrase()
    };
    for (now, is_same) in [("fp_1", true), ("fp_2", false)] {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(of_version(NEW, "m", Some(now))).await;
        stub.script([of_version(OLD, "m", Some("fp_1"))]);
        let mut client = client(config(&stub, home.path()), home.path()).await;
        assert_eq!(transform(&mut client, paraphrase(), &[TEXT]).await.results[0].text, OLD);
        assert_eq!(
            transform(&mut client, paraphrase(), &[TEXT]).await.results[0].text,
            OLD,
            "the default"
        );
        assert_eq!(stub.calls(), 1);

        let response = transform(&mut client, regenerate(), &[TEXT]).await;
        let expected = if is_same { OLD } else { NEW };
        assert_eq!(response.results[0].text, expected, "{now}");
        // One call queries the version, and another one generates the text.
        assert_eq!(stub.calls(), if is_same { 2 } else { 3 });
        let calls = response.results[0]
            .usage
            .as_ref()
            .map_or(0, |usage| usage.generator_calls);
        assert_eq!(calls, if is_same { 1 } else { 2 }, "both calls are counted");
        let versions: Vec<_> = response.summary.unwrap().fingerprints.into_keys().collect();
        assert_eq!(versions, [format!("m#{now}")]);

        // The new text is stored in addition to the old one.
        let again = transform(&mut client, regenerate(), &[TEXT]).await;
        assert_eq!(again.results[0].text, expected);
        assert_eq!(stub.calls(), if is_same { 3 } else { 4 });
        assert_eq!(transform(&mut client, paraphrase(), &[TEXT]).await.results[0].text, OLD);
    }
}

#[tokio::test]
async fn versions_that_a_request_ignores_are_not_counted() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(of_version(OLD, "m", Some("fp_1"))).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let ignoring = TransformSpec {
        on_fingerprint_change: OnFingerprintChange::Ignore.into(),
        ..paraphrase()
    };
    let response = transform(&mut client, ignoring, &[TEXT]).await;
    assert_eq!(response.results[0].calls[0].fingerprint, "m#fp_1");
    assert!(response.summary.unwrap().fingerprints.is_empty());
}

async fn rate(client: &mut Client, on_change: OnFingerprintChange) -> JudgeResponse {
    let request = JudgeRequest {
        scale: JudgeScale::Similarity.into(),
        pairs: vec![Pair {
            id: "p".into(),
            original: TEXT.into(),
            transformed: OLD.into(),
        }],
        on_fingerprint_change: on_change.into(),
        ..JudgeRequest::default()
    };
    client.judge(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn stored_ratings_of_another_version_are_reported_made_again_or_ignored() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(of_version("4.5", "m", Some("fp_2"))).await;
    stub.script([of_version("3", "m", Some("fp_1"))]);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let versions = |response: &JudgeResponse| response.summary.clone().unwrap().fingerprints;
    let one_of = |version: &str| HashMap::from([(version.to_owned(), 1)]);
    for (on_change, score, counted, calls) in [
        (OnFingerprintChange::Report, 3.0, one_of("m#fp_1"), 1),
        (OnFingerprintChange::Unspecified, 3.0, one_of("m#fp_1"), 1),
        // One call asks for the version, and one for the rating.
        (OnFingerprintChange::Regenerate, 4.5, one_of("m#fp_2"), 3),
        (OnFingerprintChange::Ignore, 3.0, HashMap::new(), 3),
        (OnFingerprintChange::Report, 3.0, one_of("m#fp_1"), 3),
    ] {
        let response = rate(&mut client, on_change).await;
        assert_eq!(response.ratings[0].score, Some(score), "{on_change:?}");
        assert_eq!(versions(&response), counted, "{on_change:?}");
        assert_eq!(stub.calls(), calls, "{on_change:?}");
    }
}

#[tokio::test]
async fn a_rating_that_was_cut_is_asked_for_with_more_room() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(of_version("4.5", "m", None)).await;
    let cut = json!({"choices": [{"message": {"content": "4"}, "finish_reason": "length"}]});
    stub.script([Answer::Raw(cut.to_string())]);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let response = rate(&mut client, OnFingerprintChange::Report).await;
    assert_eq!(
        (response.ratings[0].score, response.ratings[0].unreadable),
        (Some(4.5), 1)
    );
    let seen = stub.seen();
    assert_eq!(seen[1].max_tokens(), 4 * seen[0].max_tokens());
}
