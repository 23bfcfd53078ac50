//! Variants that arrive late or not at all.

use isomer_stubs::{promise::promised, wait::until};

use super::*;

#[tokio::test]
async fn originals_are_encoded_while_variants_are_made_and_each_variant_as_it_comes() {
    let harness = Harness::with(Answer::Held(Box::new(Answer::Good))).await;
    let mut client = harness.client().await;
    let sources = [paraphrase("slow"), paraphrase("stub")];
    let asked = encode(&mut client, request(spec(sources), &[TEXT]));
    let meanwhile = async {
        harness.slow.wait_for_calls(1).await;
        until("the original and the first variant are encoded", || {
            harness.encoder.calls().len() == 2
        })
        .await;
        harness.slow.release();
    };
    let (answer, ()) = tokio::join!(asked, meanwhile);
    answer.unwrap();
    let log = harness.encoder.calls();
    let encoded: Vec<Vec<&str>> = log.iter().map(|call| texts(&call.request).collect()).collect();
    // The slow and the fast paraphrase are the same text, so it is encoded once, when the fast one
    // arrives.
    assert_eq!(encoded, [[TEXT], [&reversed(TEXT)]]);
}

#[tokio::test]
async fn what_arrives_within_the_budget_is_pooled_and_the_rest_is_named() {
    let harness = Harness::with(Answer::Hang).await;
    let mut client = harness.client().await;
    let limited = AugmentationSpec {
        generation_budget: Some(prost_types::Duration {
            // The fast generator responds in this time even on a busy machine.
            seconds: 4,
            nanos: 0,
        }),
        ..spec([paraphrase("slow"), paraphrase("stub"), without_stopwords()])
    };
    let response = encode(&mut client, request(limited.clone(), &[TEXT, OTHER]))
        .await
        .unwrap();
    for (used, text) in response.used.iter().zip([TEXT, OTHER]) {
        assert_eq!(used.sources, [1, 2]);
        assert_eq!(used.missing.len(), 1);
        assert_eq!(
            (used.missing[0].source, used.missing[0].reason()),
            (0, MissingReason::Budget)
        );
        let expected = mean(&[text, &reversed(text), &used.variants[1].text]);
        assert_eq!(rows(&response)[used.index as usize], expected);
    }
    assert!(harness.slow.calls() >= 1);
    // Variants that were not ready in time are not requested again.
    harness.slow.wait_until_idle().await;
    let strict = AugmentationSpec {
        partial_failure: PartialFailurePolicy::Fail.into(),
        ..limited
    };
    let fault = encode(&mut client, request(strict, &[TEXT])).await.unwrap_err();
    assert_eq!((fault.code, fault.reason.as_str()), (Code::Aborted, "VARIANT_MISSING"));
    assert_eq!(fault.field.as_deref(), Some("items[0]"));
    assert!(
        fault.message.contains("source 0") && fault.message.contains("budget"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_variant_that_fails_its_checks_is_left_out_or_fails_the_request() {
    let harness = Harness::new(Duration::ZERO).await;
    harness.stub.mark("guitar", [Answer::Text("...".into())]);
    let mut client = harness.client().await;
    let sources = || spec([paraphrase("stub"), without_stopwords()]);
    let response = encode(&mut client, request(sources(), &[TEXT, OTHER])).await.unwrap();
    let (failed, whole) = (&response.used[0], &response.used[1]);
    assert_eq!(
        (failed.sources.as_slice(), whole.sources.as_slice()),
        ([1].as_slice(), [0, 1].as_slice())
    );
    assert_eq!(failed.missing[0].reason(), MissingReason::Checks);
    assert!(failed.missing[0].message.contains("ellipsis"), "{:?}", failed.missing);
    assert_eq!(
        rows(&response)[0],
        mean(&[TEXT, &failed.variants[0].text]),
        "the original does not count twice"
    );
    let strict = AugmentationSpec {
        partial_failure: PartialFailurePolicy::Fail.into(),
        ..sources()
    };
    let fault = encode(&mut client, request(strict, &[TEXT, OTHER])).await.unwrap_err();
    promised("AugmentationService.Augment ABORTED VARIANT_MISSING", &fault);
    promised(
        "PartialFailurePolicy.PARTIAL_FAILURE_POLICY_FAIL ABORTED VARIANT_MISSING",
        &fault,
    );
    assert!(fault.message.contains("`t0`"), "{fault}");
}

#[tokio::test]
async fn a_generator_that_is_away_costs_its_variants_and_not_the_request() {
    let mut harness = Harness::new(Duration::ZERO).await;
    let mut away = harness.config.generators["stub"].clone();
    away.url = Some("http://127.0.0.1:9/v1".into());
    away.max_tries = 1;
    harness.config.generators.insert("away".into(), away);
    let mut client = harness.client().await;
    let sources = || spec([paraphrase("away"), paraphrase("stub")]);
    let response = encode(&mut client, request(sources(), &[TEXT, OTHER])).await.unwrap();
    for used in &response.used {
        assert_eq!(
            (used.sources.as_slice(), used.missing[0].reason()),
            ([1].as_slice(), MissingReason::Generator)
        );
    }
    assert_eq!(rows(&response)[0], mean(&[TEXT, &reversed(TEXT)]));
    let strict = AugmentationSpec {
        partial_failure: PartialFailurePolicy::Fail.into(),
        ..sources()
    };
    let fault = encode(&mut client, request(strict, &[TEXT])).await.unwrap_err();
    assert_eq!(fault.code, Code::Unavailable);
    // Single failed calls are treated in the same way.
    harness.stub.mark("drum", [status(400)]);
    let texts = [TEXT, "A boy beats a drum in the school orchestra."];
    let response = encode(&mut client, request(spec([paraphrase("stub")]), &texts))
        .await
        .unwrap();
    assert!(response.used[0].missing.is_empty());
    assert_eq!(response.used[1].missing[0].reason(), MissingReason::Generator);
    assert_eq!(rows(&response)[1], vector(texts[1]));
}

#[tokio::test]
async fn texts_that_cannot_be_encoded_are_named_and_variants_that_cannot_are_left_out() {
    let harness = Harness::new(Duration::ZERO).await;
    harness.stub.mark(
        "guitar",
        [Answer::Text(
            "An unencodable way to put the same thing about music.".into(),
        )],
    );
    let mut client = harness.client().await;
    let bad = "This is an unencodable text about nothing at all.";
    let response = encode(&mut client, request(spec([paraphrase("stub")]), &[TEXT, bad]))
        .await
        .unwrap();
    assert_eq!(response.used[0].missing[0].reason(), MissingReason::Encoder);
    assert_eq!(rows(&response), [vector(TEXT), vec![0.0; 4]]);
    let [error] = response.errors.as_slice() else {
        panic!("{:?}", response.errors)
    };
    assert_eq!(
        (error.index, error.message.as_str()),
        (1, "the stub cannot encode this")
    );
}
