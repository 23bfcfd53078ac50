//! Variants, vectors and pooling in one call (GASE), with stubs for the generators and the encoder.

use std::time::{Duration, Instant};

use isomer_proto::transform::v1::{
    AugmentRequest, AugmentationPooling, AugmentationSpec, Distractors, EncodeAugmentedRequest,
    EncodeAugmentedResponse, MissingReason, PartialFailurePolicy, RandomKeywords, StopwordRemoval, TextItem,
    Transformation, VariantSource, augmentation_service_client::AugmentationServiceClient, transformation::Kind,
};
use isomer_proto::transform::v1::{Expansion, Paraphrase, Summarisation};
use isomer_service_kit::{Fault, GrpcChannel, LimitsConfig, memory};
use isomer_transform::{TransformConfig, services};
use tonic::Code;

use crate::{
    status,
    support::{
        config,
        encoder::{StubEncoder, own_space, vector},
        service,
        stub::{Answer, Stub},
    },
};

type Client = AugmentationServiceClient<GrpcChannel>;

const TEXT: &str = "A man is playing the guitar on a busy street in town.";
const OTHER: &str = "Two small dogs are running over the wet grass.";

/// Services with a fast generator `stub`, a slow one `slow`, and an encoder.
struct House {
    home: tempfile::TempDir,
    stub: Stub,
    slow: Stub,
    encoder: StubEncoder,
    config: TransformConfig,
}

impl House {
    async fn new(slow: Duration) -> Self {
        let home = tempfile::tempdir().unwrap();
        let stub = Stub::start(Answer::Good).await;
        let late = Stub::start(Answer::Slow(slow, Box::new(Answer::Good))).await;
        let mut config = config(&stub, home.path());
        let mut generator = config.generators["stub"].clone();
        generator.url = Some(late.url());
        config.generators.insert("slow".into(), generator);
        Self {
            home,
            stub,
            slow: late,
            encoder: StubEncoder::new(Duration::from_millis(5)),
            config,
        }
    }

    async fn client(&self) -> Client {
        let service = service(self.config.clone(), self.home.path()).with_encoder(self.encoder.channel().await);
        let channel = memory::channel(services(service), &LimitsConfig::default())
            .await
            .unwrap();
        AugmentationServiceClient::new(channel)
    }
}

fn source(generator: &str, kind: Kind) -> VariantSource {
    VariantSource {
        generator_id: generator.into(),
        transformation: Some(Transformation { kind: Some(kind) }),
    }
}

fn paraphrase(generator: &str) -> VariantSource {
    source(generator, Kind::Paraphrase(Paraphrase {}))
}

fn without_stopwords() -> VariantSource {
    source("none", Kind::StopwordRemoval(StopwordRemoval {}))
}

fn spec(sources: impl IntoIterator<Item = VariantSource>) -> AugmentationSpec {
    AugmentationSpec {
        sources: sources.into_iter().collect(),
        ..AugmentationSpec::default()
    }
}

fn items(texts: &[&str]) -> Vec<TextItem> {
    crate::support::items(texts)
}

fn request(spec: AugmentationSpec, texts: &[&str]) -> EncodeAugmentedRequest {
    EncodeAugmentedRequest {
        spec: Some(spec),
        items: items(texts),
        encoder_id: "stub".into(),
        ..EncodeAugmentedRequest::default()
    }
}

async fn encode(client: &mut Client, request: EncodeAugmentedRequest) -> Result<EncodeAugmentedResponse, Fault> {
    let answer = client.encode_augmented(request).await;
    answer
        .map(tonic::Response::into_inner)
        .map_err(|status| Fault::from_status(&status))
}

fn rows(response: &EncodeAugmentedResponse) -> Vec<Vec<f32>> {
    let matrix = response.embeddings.as_ref().unwrap();
    let values: Vec<f32> = matrix
        .data
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    values.chunks_exact(matrix.cols as usize).map(<[f32]>::to_vec).collect()
}

/// What the stub generator makes of a text.
fn reversed(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().rev().collect();
    format!("Indeed {}", words.join(" "))
}

fn mean(texts: &[&str]) -> Vec<f32> {
    let mut sum = vec![0.0_f64; 4];
    for text in texts {
        for (sum, value) in sum.iter_mut().zip(vector(text)) {
            *sum += f64::from(value);
        }
    }
    sum.into_iter().map(|sum| (sum / texts.len() as f64) as f32).collect()
}

#[tokio::test]
async fn one_generator_with_several_transformations_is_encoded_and_pooled_by_item() {
    let house = House::new(Duration::ZERO).await;
    let mut client = house.client().await;
    let sources = [paraphrase("stub"), without_stopwords()];
    let response = encode(&mut client, request(spec(sources), &[TEXT, OTHER, TEXT]))
        .await
        .unwrap();
    let removed = "man playing guitar busy street town.";
    let rows = rows(&response);
    assert_eq!(rows.len(), 3);
    assert_eq!(
        rows[0],
        mean(&[TEXT, &reversed(TEXT), &response.used[0].variants[1].text])
    );
    assert_eq!(rows[0], rows[2]);
    assert_ne!(rows[0], rows[1]);
    assert!(
        response.used[0].variants[1].text.starts_with("man playing guitar"),
        "{removed}"
    );
    for (used, index) in response.used.iter().zip(0..) {
        assert_eq!((used.index, used.id.as_str()), (index, format!("t{index}").as_str()));
        assert_eq!(used.sources, [0, 1]);
        assert!(used.missing.is_empty());
        let provenance = used.variants[0].provenance.as_ref().unwrap();
        assert_eq!(provenance.generator_id, "stub");
    }
    // Equal texts are generated and encoded once, and never more than the encoder takes.
    assert_eq!(house.stub.calls(), 2);
    assert_eq!(house.encoder.texts().len(), 6);
    assert!(house.encoder.log().iter().all(|call| call.texts.len() <= 3));
    let usage = response.usage.unwrap();
    assert_eq!((usage.texts, usage.generator_calls), (3, 2));
    assert_eq!(usage.tokens, 2 * 11 + 6 * 5);
}

#[tokio::test]
async fn several_generators_with_one_transformation_and_k_of_them() {
    let house = House::new(Duration::ZERO).await;
    house.slow.mark(
        "guitar",
        [Answer::Text("Someone makes music with a guitar in town.".into())],
    );
    let mut client = house.client().await;
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
    let house = House::new(Duration::ZERO).await;
    let mut client = house.client().await;
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
    let mut house = House::new(Duration::ZERO).await;
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
        house.encoder.normalises = normalises;
        let response = encode(&mut house.client().await, ask(after)).await.unwrap();
        let long = length(&rows(&response)[0]);
        assert_eq!((long - 1.0).abs() < 1e-6, unit, "{long}");
        assert_eq!(response.vector_space.unwrap().normalised, unit);
    }
}

#[tokio::test]
async fn originals_are_encoded_while_variants_are_made_and_each_variant_as_it_comes() {
    let late = Duration::from_millis(400);
    let house = House::new(late).await;
    let mut client = house.client().await;
    let began = Instant::now();
    let sources = [paraphrase("slow"), paraphrase("stub")];
    encode(&mut client, request(spec(sources), &[TEXT])).await.unwrap();
    let took = began.elapsed();
    let log = house.encoder.log();
    let slow_answers_at = house.slow.seen()[0].at + late;
    let texts: Vec<_> = log.iter().map(|call| call.texts.clone()).collect();
    // The slow and the fast paraphrase are the same text, so that it is encoded once, when the fast one is there.
    assert_eq!(texts, [vec![TEXT.to_owned()], vec![reversed(TEXT)]]);
    assert!(log[0].at < slow_answers_at, "the original was not kept waiting");
    assert!(log[1].at < slow_answers_at, "the first variant was not kept waiting");
    assert!(took >= late, "{took:?}");
}

#[tokio::test]
async fn what_arrives_within_the_budget_is_pooled_and_the_rest_is_named() {
    let house = House::new(Duration::from_secs(60)).await;
    let mut client = house.client().await;
    let limited = AugmentationSpec {
        generation_budget: Some(prost_types::Duration {
            seconds: 1,
            nanos: 500_000_000,
        }),
        ..spec([paraphrase("slow"), paraphrase("stub"), without_stopwords()])
    };
    let began = Instant::now();
    let response = encode(&mut client, request(limited.clone(), &[TEXT, OTHER]))
        .await
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(30));
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
    assert!(house.slow.calls() >= 1);
    // What was not there in time is no longer asked for.
    tokio::time::timeout(Duration::from_secs(20), async {
        while house.slow.in_flight() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
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
    let house = House::new(Duration::ZERO).await;
    house.stub.mark("guitar", [Answer::Text("...".into())]);
    let mut client = house.client().await;
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
    assert_eq!(fault.code, Code::Aborted);
    assert!(fault.message.contains("`t0`"), "{fault}");
}

#[tokio::test]
async fn a_generator_that_is_away_costs_its_variants_and_not_the_request() {
    let mut house = House::new(Duration::ZERO).await;
    let mut away = house.config.generators["stub"].clone();
    away.url = Some("http://127.0.0.1:9/v1".into());
    away.max_tries = 1;
    house.config.generators.insert("away".into(), away);
    let mut client = house.client().await;
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
    // Single calls that fail are the same matter.
    house.stub.mark("guitar", [status(400)]);
    let response = encode(
        &mut house.client().await,
        request(spec([paraphrase("stub")]), &[TEXT, OTHER]),
    )
    .await;
    let missing = &response.unwrap().used[0].missing;
    assert!(missing.is_empty(), "from the cache: {missing:?}");
}

#[tokio::test]
async fn texts_that_cannot_be_encoded_are_named_and_variants_that_cannot_are_left_out() {
    let house = House::new(Duration::ZERO).await;
    house.stub.mark(
        "guitar",
        [Answer::Text(
            "An unencodable way to put the same thing about music.".into(),
        )],
    );
    let mut client = house.client().await;
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

#[tokio::test]
async fn a_second_call_is_served_from_the_cache_and_gives_the_same_bits() {
    let house = House::new(Duration::ZERO).await;
    let mut client = house.client().await;
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
    let calls = house.stub.calls();
    let second = encode(&mut house.client().await, request(sources(), &texts))
        .await
        .unwrap();
    assert_eq!(house.stub.calls(), calls);
    assert_eq!(first.embeddings, second.embeddings);
    assert_eq!(first.vector_space, second.vector_space);
    assert!(
        second
            .used
            .iter()
            .all(|used| used.variants[0].provenance.as_ref().unwrap().cache_hit)
    );
    // Alone and in another order each text has the vector it had.
    let alone = encode(&mut client, request(sources(), &texts[7..8])).await.unwrap();
    assert_eq!(rows(&alone)[0], rows(&first)[7]);
    let backwards: Vec<&str> = texts.iter().rev().copied().collect();
    let backwards = encode(&mut client, request(sources(), &backwards)).await.unwrap();
    assert!(rows(&backwards).iter().rev().eq(rows(&first).iter()));
}

#[tokio::test]
async fn augment_gives_variants_only_and_asks_no_encoder() {
    let house = House::new(Duration::ZERO).await;
    let mut client = house.client().await;
    let request = AugmentRequest {
        spec: Some(spec([paraphrase("stub"), without_stopwords()])),
        items: items(&[TEXT, OTHER]),
    };
    let response = client.augment(request).await.unwrap().into_inner();
    assert_eq!(response.items[1].variants[0].text, reversed(OTHER));
    assert_eq!(response.items[1].variants[0].index, 1);
    assert_eq!(response.usage.unwrap().generator_calls, 2);
    assert!(house.encoder.log().is_empty());
}

#[tokio::test]
async fn the_prompt_of_the_encoder_goes_with_originals_and_variants() {
    use isomer_proto::encoder::v1::encode_request::Prompt;
    let house = House::new(Duration::ZERO).await;
    let named = EncodeAugmentedRequest {
        prompt_name: "query".into(),
        ..request(spec([paraphrase("stub")]), &[TEXT])
    };
    encode(&mut house.client().await, named).await.unwrap();
    let log = house.encoder.log();
    assert_eq!(log.len(), 2);
    assert!(
        log.iter()
            .all(|call| call.prompt == Some(Prompt::PromptName("query".into())))
    );
}

#[tokio::test]
async fn bad_requests_are_refused_with_their_field() {
    let house = House::new(Duration::ZERO).await;
    let mut client = house.client().await;
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
    assert_eq!(house.stub.calls(), 0, "nothing was generated for a wrong request");

    let alone = service(house.config.clone(), house.home.path());
    let channel = memory::channel(services(alone), &LimitsConfig::default())
        .await
        .unwrap();
    let fault = encode(&mut AugmentationServiceClient::new(channel), request(good(), &[TEXT]))
        .await
        .unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::FailedPrecondition, "NO_ENCODER_SERVICE")
    );
}
