//! Requests that cannot be served.

use isomer_stubs::promise::promised;

use super::*;

#[tokio::test]
async fn bad_requests_are_refused_with_their_field() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let good = || spec([paraphrase("stub")]);
    let with = |change: &dyn Fn(&mut EncodeAugmentedRequest)| {
        let mut request = request(good(), &[TEXT]);
        change(&mut request);
        request
    };
    let cases = [
        (with(&|r| r.spec = None), "spec.sources"),
        (with(&|r| r.spec.as_mut().unwrap().k = Some(2)), "spec.k"),
        (
            with(&|r| r.spec.as_mut().unwrap().sources = vec![paraphrase("stub"); 9]),
            "spec.sources",
        ),
        (
            with(&|r| r.spec.as_mut().unwrap().sources.push(VariantSource::default())),
            "spec.sources[1].transformation",
        ),
        (
            with(&|r| {
                let several = source("stub", Kind::Distractors(Distractors::default()));
                r.spec.as_mut().unwrap().sources = vec![several];
            }),
            "spec.sources[0].transformation",
        ),
        (
            with(&|r| {
                let noise = Noise {
                    channel: "keyboard".into(),
                    dose: None,
                };
                r.spec.as_mut().unwrap().sources = vec![source("none", Kind::Noise(noise))];
            }),
            "spec.sources[0].transformation",
        ),
        (
            with(&|r| {
                let all = RandomKeywords { keep_ratio: Some(1.5) };
                r.spec.as_mut().unwrap().sources = vec![source("none", Kind::RandomKeywords(all))];
            }),
            "spec.sources[0].transformation.random_keywords.keep_ratio",
        ),
        (
            with(&|r| r.spec.as_mut().unwrap().sources = vec![paraphrase("none")]),
            "spec.sources[0].generator_id",
        ),
        (
            with(&|r| r.spec.as_mut().unwrap().sources = vec![paraphrase("nobody")]),
            "spec.sources[0].generator_id",
        ),
        (
            with(&|r| r.spec.as_mut().unwrap().generation_budget = Some(prost_types::Duration::default())),
            "spec.generation_budget",
        ),
        (
            with(&|r| r.spec.as_mut().unwrap().max_attempts = Some(11)),
            "spec.max_attempts",
        ),
        (
            with(&|r| r.spec.as_mut().unwrap().partial_failure = 9),
            "spec.partial_failure",
        ),
        (with(&|r| r.items.clear()), "items"),
        (with(&|r| r.encoder_id.clear()), "encoder_id"),
        (with(&|r| r.encoder_id = "nobody".into()), "encoder_id"),
        (with(&|r| r.encoder_address = "127.0.0.1:1".into()), "encoder_address"),
        (with(&|r| r.original_weight = Some(0.5)), "original_weight"),
        (
            with(&|r| {
                r.pooling = AugmentationPooling::Weighted.into();
                r.original_weight = Some(1.01);
            }),
            "original_weight",
        ),
        (
            with(&|r| {
                r.pooling = AugmentationPooling::Weighted.into();
                r.original_weight = Some(f64::NAN);
            }),
            "original_weight",
        ),
        (with(&|r| r.pooling = 77), "pooling"),
        (
            with(&|r| {
                r.prompt_name = "query".into();
                r.literal_prompt = Some("query: ".into());
            }),
            "literal_prompt",
        ),
    ];
    for (request, field) in cases {
        let fault = encode(&mut client, request).await.unwrap_err();
        assert!(
            matches!(fault.code, Code::InvalidArgument | Code::NotFound),
            "{field}: {fault:?}"
        );
        assert_eq!(fault.field.as_deref(), Some(field), "{fault}");
        assert!(!fault.message.contains("spec.transformation"), "{fault}");
    }
    assert_eq!(harness.stub.calls(), 0, "nothing was generated for a wrong request");

    let alone = service(harness.config.clone(), harness.home.path());
    let mut client = AugmentationServiceClient::new(channel(services(alone)).await);
    let fault = encode(&mut client, request(good(), &[TEXT])).await.unwrap_err();
    promised(
        "AugmentationService.EncodeAugmented FAILED_PRECONDITION NO_ENCODER_SERVICE",
        &fault,
    );
}
