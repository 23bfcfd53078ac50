//! Variants from the caches alone, and only if a plain search was not good enough.

use isomer_proto::transform::v1::{AugmentationMode, CascadeRule, SearchEvidence};

use super::*;

fn in_mode(mode: AugmentationMode, sources: impl IntoIterator<Item = VariantSource>) -> AugmentationSpec {
    AugmentationSpec {
        mode: mode.into(),
        ..spec(sources)
    }
}

fn cached(sources: impl IntoIterator<Item = VariantSource>) -> AugmentationSpec {
    in_mode(AugmentationMode::Cached, sources)
}

fn reasons(response: &EncodeAugmentedResponse, item: usize) -> Vec<MissingReason> {
    response.used[item]
        .missing
        .iter()
        .map(|missing| missing.reason())
        .collect()
}

#[tokio::test]
async fn cached_takes_what_is_there_and_asks_no_generator() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let sources = || [paraphrase("stub"), without_stopwords()];
    let plain = encode(&mut client, request(cached([paraphrase("stub")]), &[TEXT]))
        .await
        .unwrap();
    assert_eq!(rows(&plain), [vector(TEXT)]);
    assert_eq!(reasons(&plain, 0), [MissingReason::NotCached]);
    let usage = plain.usage.unwrap();
    assert_eq!(
        (
            usage.texts,
            usage.cached_texts,
            usage.generator_calls,
            usage.generated_tokens
        ),
        (1, 0, 0, 0)
    );
    assert_eq!(harness.stub.calls(), 0);

    // Rule-based variants need no generator.
    let by_rule = encode(&mut client, request(cached(sources()), &[TEXT])).await.unwrap();
    assert_eq!(by_rule.used[0].sources, [1]);
    assert_eq!(rows(&by_rule)[0], mean(&[TEXT, &by_rule.used[0].variants[0].text]));

    // The other mode generates the variants, so they are then cached; those of the other text are
    // not.
    let made = encode(&mut client, request(spec(sources()), &[TEXT])).await.unwrap();
    let calls = harness.stub.calls();
    assert_eq!(calls, 1);
    let both = encode(&mut client, request(cached(sources()), &[TEXT, OTHER]))
        .await
        .unwrap();
    assert_eq!(rows(&both)[0], rows(&made)[0]);
    assert!(both.used[0].missing.is_empty());
    assert_eq!(
        (both.used[1].sources.as_slice(), reasons(&both, 1)),
        ([1].as_slice(), vec![MissingReason::NotCached])
    );
    assert_eq!(harness.stub.calls(), calls);
    // Vectors with and without a variant are in one space, whatever the mode.
    assert_eq!(both.vector_space, made.vector_space);
}

#[tokio::test]
async fn what_failed_its_checks_is_told_from_what_nobody_asked_for() {
    let harness = Harness::new(Duration::ZERO).await;
    harness.stub.mark("guitar", [Answer::Text("...".into())]);
    let mut client = harness.client().await;
    let sources = || [paraphrase("stub")];
    encode(&mut client, request(spec(sources()), &[TEXT])).await.unwrap();
    let answer = encode(&mut client, request(cached(sources()), &[TEXT, OTHER]))
        .await
        .unwrap();
    assert_eq!(
        [reasons(&answer, 0), reasons(&answer, 1)],
        [[MissingReason::Checks], [MissingReason::NotCached]]
    );
}

#[tokio::test]
async fn a_strict_request_fails_on_what_is_not_cached_and_not_on_what_is_not_needed() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let strict = |spec| AugmentationSpec {
        partial_failure: PartialFailurePolicy::Fail.into(),
        ..spec
    };
    let missing = encode(&mut client, request(strict(cached([paraphrase("stub")])), &[TEXT])).await;
    assert_eq!(missing.unwrap_err().reason, "VARIANT_MISSING");
    let plain = encode(&mut client, cascade(strict(gap(0.1)), &[TEXT], &[&[0.9, 0.1]])).await;
    assert_eq!(rows(&plain.unwrap()), [vector(TEXT)]);
}

/// A cascade on the gap between the two best results.
fn gap(least: f64) -> AugmentationSpec {
    AugmentationSpec {
        cascade: Some(CascadeRule {
            min_gap: Some(least),
            ..CascadeRule::default()
        }),
        ..in_mode(AugmentationMode::Cascade, [paraphrase("stub")])
    }
}

fn cascade(spec: AugmentationSpec, texts: &[&str], scores: &[&[f64]]) -> EncodeAugmentedRequest {
    EncodeAugmentedRequest {
        evidence: scores
            .iter()
            .map(|scores| SearchEvidence {
                scores: scores.to_vec(),
            })
            .collect(),
        ..request(spec, texts)
    }
}

#[tokio::test]
async fn a_cascade_augments_the_queries_whose_plain_search_was_not_good_enough() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    // First, without a search, the texts are plain.
    let first = encode(&mut client, cascade(gap(0.1), &[TEXT, OTHER], &[]))
        .await
        .unwrap();
    assert_eq!(rows(&first), [vector(TEXT), vector(OTHER)]);
    assert_eq!(reasons(&first, 0), [MissingReason::NotNeeded]);
    assert_eq!(harness.stub.calls(), 0);
    // Then with search results; the same text may be good enough in one search and not in another.
    let texts = [TEXT, OTHER, TEXT];
    let found: [&[f64]; 3] = [&[0.9, 0.5], &[0.9, 0.85], &[]];
    let second = encode(&mut client, cascade(gap(0.1), &texts, &found)).await.unwrap();
    let augmented = |text: &str| mean(&[text, &reversed(text)]);
    assert_eq!(rows(&second), [vector(TEXT), augmented(OTHER), augmented(TEXT)]);
    assert_eq!(reasons(&second, 0), [MissingReason::NotNeeded]);
    assert!(
        second.used[0].missing[0].message.contains("gap 0.4"),
        "{:?}",
        second.used[0]
    );
    assert!(second.used[1].missing.is_empty() && second.used[2].missing.is_empty());
    assert_eq!(harness.stub.calls(), 2, "the query that stays plain costs nothing");
    assert_eq!(first.vector_space, second.vector_space);
}

#[tokio::test]
async fn modes_without_what_they_need_are_refused() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let budget = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    let always = || in_mode(AugmentationMode::Always, [paraphrase("stub")]);
    let rule = |rule| AugmentationSpec {
        cascade: Some(rule),
        ..gap(0.1)
    };
    let none = CascadeRule::default();
    let cases = [
        (AugmentationSpec { mode: 9, ..always() }, "spec.mode"),
        (
            AugmentationSpec {
                priority: 9,
                ..always()
            },
            "spec.priority",
        ),
        (
            in_mode(AugmentationMode::Budget, [paraphrase("stub")]),
            "spec.generation_budget",
        ),
        (
            AugmentationSpec {
                generation_budget: budget,
                ..always()
            },
            "spec.generation_budget",
        ),
        (
            AugmentationSpec {
                generation_budget: budget,
                ..cached([paraphrase("stub")])
            },
            "spec.generation_budget",
        ),
        (
            AugmentationSpec {
                bypass_cache: true,
                ..cached([paraphrase("stub")])
            },
            "spec.bypass_cache",
        ),
        (
            AugmentationSpec {
                bypass_cache: true,
                make_missing: Some(true),
                ..always()
            },
            "spec.make_missing",
        ),
        (
            AugmentationSpec {
                cascade: Some(none),
                ..always()
            },
            "spec.cascade",
        ),
        (
            AugmentationSpec {
                cascade: None,
                ..gap(0.1)
            },
            "spec.cascade",
        ),
        (rule(none), "spec.cascade"),
        (
            rule(CascadeRule {
                min_score: Some(f64::NAN),
                ..none
            }),
            "spec.cascade.min_score",
        ),
        (gap(f64::INFINITY), "spec.cascade.min_gap"),
        (
            rule(CascadeRule {
                min_results: Some(3),
                gap_rank: Some(2),
                ..none
            }),
            "spec.cascade.gap_rank",
        ),
        (
            rule(CascadeRule {
                min_gap: Some(0.1),
                gap_rank: Some(1),
                ..none
            }),
            "spec.cascade.gap_rank",
        ),
    ];
    let cases = cases.map(|(spec, field)| (request(spec, &[TEXT]), field));
    let evidence = [
        (cascade(always(), &[TEXT], &[&[0.9]]), "evidence"),
        (cascade(gap(0.1), &[TEXT, OTHER], &[&[0.9]]), "evidence"),
        (cascade(gap(0.1), &[TEXT], &[&[0.1, 0.9]]), "evidence[0].scores"),
        (
            cascade(gap(0.1), &[TEXT, OTHER], &[&[], &[f64::NAN]]),
            "evidence[1].scores",
        ),
    ];
    for (request, field) in cases.into_iter().chain(evidence) {
        let fault = encode(&mut client, request).await.unwrap_err();
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::InvalidArgument, Some(field)),
            "{fault}"
        );
        assert!(fault.hint.is_some(), "{fault}");
    }
    let variants_only = AugmentRequest {
        spec: Some(gap(0.1)),
        items: items(&[TEXT]),
    };
    let fault = Fault::from_status(&client.augment(variants_only).await.unwrap_err());
    assert_eq!(fault.field.as_deref(), Some("spec.mode"));
    assert_eq!(harness.stub.calls(), 0);
}
