//! The pooled vectors, and the name of the result.

use super::*;

#[tokio::test]
async fn one_generator_with_several_transformations_is_encoded_and_pooled_by_item() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let sources = [paraphrase("stub"), without_stopwords()];
    let response = encode(&mut client, request(spec(sources), &[TEXT, OTHER, TEXT]))
        .await
        .unwrap();
    let rows = rows(&response);
    assert_eq!(rows.len(), 3);
    assert_eq!(
        rows[0],
        mean(&[TEXT, &reversed(TEXT), &response.used[0].variants[1].text])
    );
    assert_eq!(rows[0], rows[2]);
    assert_ne!(rows[0], rows[1]);
    let removed = &response.used[0].variants[1].text;
    assert!(removed.starts_with("man playing guitar"), "{removed}");
    for (used, index) in response.used.iter().zip(0..) {
        assert_eq!((used.index, used.id.as_str()), (index, format!("t{index}").as_str()));
        assert_eq!(used.sources, [0, 1]);
        assert!(used.missing.is_empty());
        let provenance = used.variants[0].provenance.as_ref().unwrap();
        assert_eq!(provenance.generator_id, "stub");
    }
    // Equal texts are generated and encoded once, and never more than the encoder's maximum.
    assert_eq!(harness.stub.calls(), 2);
    assert_eq!(harness.encoder.texts().len(), 6);
    assert!(
        harness
            .encoder
            .calls()
            .iter()
            .all(|call| call.request.inputs.len() <= 3)
    );
    let usage = response.usage.unwrap();
    assert_eq!((usage.texts, usage.generator_calls), (3, 2));
    assert_eq!(usage.tokens, 2 * 11 + 6 * 5);
}

#[tokio::test]
async fn several_generators_with_one_transformation_and_k_of_them() {
    let harness = Harness::new(Duration::ZERO).await;
    harness.slow.mark(
        "guitar",
        [Answer::Text("Someone makes music with a guitar in town.".into())],
    );
    let mut client = harness.client().await;
    let sources = || [paraphrase("stub"), paraphrase("slow")];
    let both = encode(&mut client, request(spec(sources()), &[TEXT])).await.unwrap();
    let expected = mean(&[TEXT, &reversed(TEXT), "Someone makes music with a guitar in town."]);
    assert_eq!(rows(&both)[0], expected);
    let first = AugmentationSpec {
        k: Some(1),
        ..spec(sources())
    };
    let one = encode(&mut client, request(first, &[TEXT])).await.unwrap();
    assert_eq!(rows(&one)[0], mean(&[TEXT, &reversed(TEXT)]));
    assert_ne!(
        one.vector_space.as_ref().unwrap().digest,
        both.vector_space.as_ref().unwrap().digest
    );
    let none = AugmentationSpec {
        k: Some(0),
        ..spec(sources())
    };
    let plain = encode(&mut client, request(none, &[TEXT])).await.unwrap();
    assert_eq!(rows(&plain)[0], vector(TEXT));
    assert_eq!(
        plain.vector_space.unwrap(),
        own_space(),
        "plain vectors are of the encoder's own space"
    );
}

#[tokio::test]
async fn the_space_is_marked_and_its_digest_covers_the_spec() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let base = || request(spec([paraphrase("stub")]), &[TEXT]);
    let mut digests = std::collections::HashSet::new();
    let weighted = |weight| EncodeAugmentedRequest {
        pooling: AugmentationPooling::Weighted.into(),
        original_weight: weight,
        ..base()
    };
    let variants = [
        base(),
        request(spec([source("stub", Kind::Summarisation(Summarisation {}))]), &[TEXT]),
        request(spec([paraphrase("slow")]), &[TEXT]),
        request(spec([paraphrase("stub"), paraphrase("slow")]), &[TEXT]),
        request(
            AugmentationSpec {
                seed: Some(7),
                ..spec([paraphrase("stub")])
            },
            &[TEXT],
        ),
        EncodeAugmentedRequest {
            pooling: AugmentationPooling::Max.into(),
            ..base()
        },
        weighted(None),
        weighted(Some(0.5)),
        EncodeAugmentedRequest {
            normalise_before: Some(true),
            ..base()
        },
        EncodeAugmentedRequest {
            normalise_after: Some(true),
            ..base()
        },
    ];
    let count = variants.len();
    for variant in variants {
        let space = encode(&mut client, variant).await.unwrap().vector_space.unwrap();
        assert!(space.augmentation.starts_with("gase/1"), "{}", space.augmentation);
        assert_eq!(space.model_id, "stub");
        digests.insert(space.digest);
    }
    assert_eq!(digests.len(), count);
    assert!(!digests.contains("stub-space"));
    let again = encode(&mut client, base()).await.unwrap().vector_space.unwrap();
    assert!(digests.contains(&again.digest), "the same spec has the same space");
    assert_eq!(again.augmentation, "gase/1 mean(original, paraphrase by stub)");
}

#[tokio::test]
async fn vectors_are_normalised_where_the_request_or_the_encoder_says() {
    let mut harness = Harness::new(Duration::ZERO).await;
    let length = |row: &[f32]| row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    let ask = |after| EncodeAugmentedRequest {
        normalise_after: after,
        ..request(spec([paraphrase("stub")]), &[TEXT])
    };
    for (normalises, after, unit) in [
        (false, None, false),
        (true, None, true),
        (true, Some(false), false),
        (false, Some(true), true),
    ] {
        harness.encoder = encoder(normalises, None);
        let response = encode(&mut harness.client().await, ask(after)).await.unwrap();
        let long = length(&rows(&response)[0]);
        assert_eq!((long - 1.0).abs() < 1e-6, unit, "{long}");
        assert_eq!(response.vector_space.unwrap().normalised, unit);
    }
}

#[tokio::test]
async fn a_second_call_is_served_from_the_cache_and_gives_the_same_bits() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let texts: Vec<String> = (0..40)
        .map(|n| format!("The train of hour {n} leaves from another platform."))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let sources = || {
        spec([
            paraphrase("stub"),
            source("stub", Kind::Expansion(Expansion {})),
            without_stopwords(),
        ])
    };
    let first = encode(&mut client, request(sources(), &texts)).await.unwrap();
    let calls = harness.stub.calls();
    let second = encode(&mut harness.client().await, request(sources(), &texts))
        .await
        .unwrap();
    assert_eq!(harness.stub.calls(), calls);
    assert_eq!(first.embeddings, second.embeddings);
    assert_eq!(first.vector_space, second.vector_space);
    assert!(
        second
            .used
            .iter()
            .all(|used| used.variants[0].provenance.as_ref().unwrap().cache_hit)
    );
    // Each text has the same vector when it is alone and in another order.
    let alone = encode(&mut client, request(sources(), &texts[7..8])).await.unwrap();
    assert_eq!(rows(&alone)[0], rows(&first)[7]);
    let backwards: Vec<&str> = texts.iter().rev().copied().collect();
    let backwards = encode(&mut client, request(sources(), &backwards)).await.unwrap();
    assert!(rows(&backwards).iter().rev().eq(rows(&first).iter()));
}

#[tokio::test]
async fn augment_gives_variants_only_and_asks_no_encoder() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let request = AugmentRequest {
        spec: Some(spec([paraphrase("stub"), without_stopwords()])),
        items: items(&[TEXT, OTHER]),
    };
    let response = client.augment(request).await.unwrap().into_inner();
    assert_eq!(response.items[1].variants[0].text, reversed(OTHER));
    assert_eq!(response.items[1].variants[0].index, 1);
    assert_eq!(response.usage.unwrap().generator_calls, 2);
    assert!(harness.encoder.calls().is_empty());
}

#[tokio::test]
async fn the_prompt_of_the_encoder_goes_with_originals_and_variants() {
    use isomer_proto::encoder::v1::encode_request::Prompt;
    let harness = Harness::new(Duration::ZERO).await;
    let named = EncodeAugmentedRequest {
        prompt_name: "query".into(),
        ..request(spec([paraphrase("stub")]), &[TEXT])
    };
    encode(&mut harness.client().await, named).await.unwrap();
    let log = harness.encoder.calls();
    assert_eq!(log.len(), 2);
    assert!(
        log.iter()
            .all(|call| call.request.prompt == Some(Prompt::PromptName("query".into())))
    );
}

#[tokio::test]
async fn originals_that_were_cut_are_told_and_nothing_is_told_where_the_encoder_is_silent() {
    let mut harness = Harness::new(Duration::ZERO).await;
    let texts = [TEXT, "short", TEXT];
    let asked = || request(spec([without_stopwords()]), &texts);
    let silent = encode(&mut harness.client().await, asked()).await.unwrap();
    assert!(silent.truncated.is_empty());
    harness.encoder = encoder(false, Some(10));
    let told = encode(&mut harness.client().await, asked()).await.unwrap();
    assert_eq!(told.truncated, [true, false, true]);
}
