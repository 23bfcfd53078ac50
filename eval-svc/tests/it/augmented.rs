//! Scores of augmented vectors (GASE): the requests to the augmentation service, and the use of its
//! responses.

use std::sync::Arc;

use isomer_eval::EvalConfig;
use isomer_proto::{
    common::v1::{Provenance, Usage, VectorSpace},
    eval::v1::{DatasetAugmentation, ItemEvidence, ScoreResponse, TaskType, task_service_client::TaskServiceClient},
    transform::v1::{
        AugmentationPooling, AugmentationSpec, EncodeAugmentedRequest, EncodeAugmentedResponse, GeneratorCall,
        MissingReason, MissingVariant, StopwordRemoval, TransformResult, VariantSource, Variants,
        augmentation_service_server::{AugmentationService, AugmentationServiceServer},
        transformation::Kind,
    },
};
use isomer_service_kit::{Fault, GrpcChannel, Services};
use isomer_stubs::{
    encoder::{StubEncoder, matrix},
    promise::promised,
    request,
    rpc::channel,
};
use parking_lot::Mutex;
use tonic::{Code, Request, Response, Status};

use crate::harness::{encoder, serve, vector};

const STS: &str = "\
{\"sentence1\": \"a dog runs\", \"sentence2\": \"the dog runs fast\", \"score\": 4.5}
{\"sentence1\": \"rain falls on the town\", \"sentence2\": \"a dog runs\", \"score\": 0.5}
{\"sentence1\": \"he plays a song\", \"sentence2\": \"he sings a song\", \"score\": 3.0}
";

/// Returns the vector of the text in capitals, which differs from all plain vectors. Texts with
/// `rain` lack their variant; with `barren` every text does.
#[derive(Clone, Default)]
struct FakeAugmenter {
    seen: Arc<Mutex<Vec<EncodeAugmentedRequest>>>,
    barren: bool,
}

#[tonic::async_trait]
impl AugmentationService for FakeAugmenter {
    async fn encode_augmented(
        &self,
        request: Request<EncodeAugmentedRequest>,
    ) -> Result<Response<EncodeAugmentedResponse>, Status> {
        let request = request.into_inner();
        self.seen.lock().push(request.clone());
        let used = request.items.iter().zip(0..).map(|(item, index)| {
            if self.barren || item.text.contains("rain") {
                let missing = MissingVariant {
                    source: 0,
                    reason: MissingReason::Checks.into(),
                    message: "every attempt failed".into(),
                };
                return Variants {
                    index,
                    missing: vec![missing],
                    ..Variants::default()
                };
            }
            let variant = TransformResult {
                // One word is one token; texts with `sings` come from a cache.
                calls: vec![GeneratorCall {
                    prompt_tokens: 10,
                    generated_tokens: item.text.split(' ').count() as u64,
                    tokens_estimated: item.text.contains("plays"),
                    ..GeneratorCall::default()
                }],
                provenance: Some(Provenance {
                    cache_hit: item.text.contains("sings"),
                    ..Provenance::default()
                }),
                ..TransformResult::default()
            };
            Variants {
                index,
                variants: vec![variant],
                sources: vec![0],
                ..Variants::default()
            }
        });
        let alone = request.original_weight == Some(0.0);
        let rows = request.items.iter().map(|item| match alone {
            true => vector(&format!("only {}", item.text)),
            false => vector(&format!("{} VARIANT", item.text)),
        });
        Ok(Response::new(EncodeAugmentedResponse {
            used: used.collect(),
            embeddings: Some(matrix(rows)),
            vector_space: Some(VectorSpace {
                digest: "augmented".into(),
                augmentation: "gase/1 mean".into(),
                ..VectorSpace::default()
            }),
            usage: Some(Usage {
                generator_calls: 1,
                ..Usage::default()
            }),
            ..EncodeAugmentedResponse::default()
        }))
    }
}

struct Harness {
    tasks: TaskServiceClient<GrpcChannel>,
    encoder: StubEncoder,
    augmenter: FakeAugmenter,
    _home: tempfile::TempDir,
}

async fn harness(barren: bool) -> Harness {
    let encoder = encoder(Arc::default());
    let augmenter = FakeAugmenter {
        barren,
        ..FakeAugmenter::default()
    };
    let transform = channel(Services::new().add(AugmentationServiceServer::new(augmenter.clone()))).await;
    let (tasks, home) = serve(EvalConfig::default(), None, encoder.channel().await, transform).await;
    Harness {
        tasks: TaskServiceClient::new(tasks),
        encoder,
        augmenter,
        _home: home,
    }
}

fn wanted() -> DatasetAugmentation {
    DatasetAugmentation {
        spec: Some(AugmentationSpec {
            sources: vec![VariantSource {
                generator_id: String::new(),
                transformation: Some(Kind::StopwordRemoval(StopwordRemoval {}).into()),
            }],
            seed: Some(7),
            ..AugmentationSpec::default()
        }),
        pooling: AugmentationPooling::Weighted.into(),
        original_weight: Some(0.25),
        normalise_before: Some(true),
        ..DatasetAugmentation::default()
    }
}

async fn score(
    harness: &mut Harness,
    task: TaskType,
    files: &[(&str, &str)],
    augmentation: Option<DatasetAugmentation>,
) -> Result<ScoreResponse, Fault> {
    let mut request = request::score(task, "fake", request::inline(files.iter().copied()));
    request::dataset(&mut request).augmentation = augmentation;
    request.evidence = true;
    let answer = harness.tasks.score(request).await;
    answer
        .map(Response::into_inner)
        .map_err(|status| Fault::from_status(&status))
}

#[tokio::test]
async fn a_dataset_is_scored_with_augmented_vectors_and_the_report_counts_the_variants() {
    let mut harness = harness(false).await;
    let files = [("test.jsonl", STS)];
    let plain = score(&mut harness, TaskType::Sts, &files, None).await.unwrap();
    assert!(plain.augmentation.is_none());
    harness.encoder.forget();
    let augmented = score(&mut harness, TaskType::Sts, &files, Some(wanted()))
        .await
        .unwrap();
    assert_eq!(augmented.items, plain.items);
    assert_ne!(augmented.scores["cosine_pearson"], plain.scores["cosine_pearson"]);
    let report = augmented.augmentation.unwrap();
    assert_eq!((report.augmented_texts, report.plain_texts), (5, 0));
    assert_eq!((report.variants, report.missing), (vec![4], vec![1]));
    assert_eq!(report.missing_reasons["checks"], 1);
    assert_eq!(augmented.vector_space.unwrap().augmentation, "gase/1 mean");
    assert_eq!(augmented.usage.unwrap().generator_calls, 1);
    assert!(harness.encoder.texts().is_empty(), "no plain vector is needed");
    // Each distinct text is sent once, with the request's own settings.
    let seen = harness.augmenter.seen.lock().clone();
    let items: Vec<_> = seen.iter().flat_map(|request| &request.items).collect();
    assert_eq!(items.len(), 5);
    assert!(items.iter().all(|item| item.id.is_empty()));
    assert_eq!(seen[0].spec, wanted().spec);
    assert_eq!(
        (seen[0].original_weight, seen[0].normalise_before),
        (Some(0.25), Some(true))
    );
    assert_eq!(seen[0].pooling(), AugmentationPooling::Weighted);
}

#[tokio::test]
async fn the_difference_to_the_plain_score_has_an_interval_over_its_items() {
    let mut harness = harness(false).await;
    // The pairs share no text, so each is a cluster.
    let rows: String = (0..12)
        .map(|i| {
            let (a, b) = ("a ".repeat(i + 1), "b ".repeat(12 - i % 5));
            format!(
                "{{\"sentence1\": \"{a}{i}\", \"sentence2\": \"{b}{i}\", \"score\": {}}}\n",
                i * 7 % 5
            )
        })
        .collect();
    let files = [("test.jsonl", rows.as_str())];
    let plain = score(&mut harness, TaskType::Sts, &files, None).await.unwrap();
    let evidence = plain.evidence.clone().unwrap();
    assert_eq!(evidence.clusters.len(), 12);
    let with = |evidence| DatasetAugmentation {
        plain: Some(evidence),
        ..wanted()
    };
    let augmented = score(&mut harness, TaskType::Sts, &files, Some(with(evidence.clone())))
        .await
        .unwrap();
    let delta = augmented.main_score - plain.main_score;
    let interval = augmented.augmentation.unwrap().delta.unwrap();
    assert!(interval.low <= delta && delta <= interval.high, "{delta} {interval:?}");
    assert_eq!((interval.level, interval.clusters), (0.95, 12));
    // Evidence of other data, or missing evidence, is refused.
    let other = [("test.jsonl", STS)];
    for wrong in [evidence, ItemEvidence::default()] {
        let fault = score(&mut harness, TaskType::Sts, &other, Some(with(wrong)))
            .await
            .unwrap_err();
        promised("DatasetAugmentation.plain INVALID_ARGUMENT plain", &fault);
    }
}

#[tokio::test]
async fn a_source_that_gives_nothing_is_an_error_and_not_the_plain_score() {
    let mut harness = harness(true).await;
    let fault = score(&mut harness, TaskType::Sts, &[("test.jsonl", STS)], Some(wanted()))
        .await
        .unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::FailedPrecondition, "NO_VARIANTS")
    );
}

#[tokio::test]
async fn only_queries_are_augmented_where_that_is_asked_and_possible() {
    let mut harness = harness(false).await;
    let files = [
        (
            "corpus.jsonl",
            "{\"_id\": \"d1\", \"title\": \"\", \"text\": \"a dog runs\"}\n{\"_id\": \"d2\", \"title\": \"\", \"text\": \"the sun shines\"}\n",
        ),
        ("queries.jsonl", "{\"_id\": \"q1\", \"text\": \"a dog runs\"}\n"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n"),
    ];
    let only = DatasetAugmentation {
        queries_only: true,
        ..wanted()
    };
    let scored = score(&mut harness, TaskType::Retrieval, &files, Some(only.clone()))
        .await
        .unwrap();
    let report = scored.augmentation.unwrap();
    assert_eq!((report.augmented_texts, report.plain_texts), (1, 2));
    // The query's text is also a document's: it is encoded in both ways.
    let mut plain = harness.encoder.texts();
    plain.sort();
    assert_eq!(plain, ["a dog runs", "the sun shines"]);
    assert_eq!(harness.augmenter.seen.lock()[0].items[0].text, "a dog runs");

    let both = score(&mut harness, TaskType::Retrieval, &files, Some(wanted()))
        .await
        .unwrap();
    assert_eq!(both.augmentation.unwrap().augmented_texts, 2);

    let fault = score(&mut harness, TaskType::Sts, &[("test.jsonl", STS)], Some(only))
        .await
        .unwrap_err();
    promised("DatasetAugmentation.queries_only INVALID_ARGUMENT queries_only", &fault);
}

#[tokio::test]
async fn each_side_of_a_pair_is_augmented_in_its_own_language() {
    let mut harness = harness(false).await;
    // A text on both sides counts as one text in each language.
    let rows = STS.replace("\"he plays a song\"", "\"a dog runs\"");
    score(
        &mut harness,
        TaskType::Sts,
        &[("test.en-ar.jsonl", &rows)],
        Some(wanted()),
    )
    .await
    .unwrap();
    let seen = harness.augmenter.seen.lock().clone();
    let mut asked: Vec<(&str, &str)> = seen
        .iter()
        .flat_map(|request| &request.items)
        .map(|item| (item.text.as_str(), item.language.as_deref().unwrap_or("none")))
        .collect();
    asked.sort_unstable();
    assert_eq!(
        asked,
        [
            ("a dog runs", "ar"),
            ("a dog runs", "en"),
            ("he sings a song", "ar"),
            ("rain falls on the town", "en"),
            ("the dog runs fast", "ar"),
        ]
    );
}

#[tokio::test]
async fn tokens_of_variants_are_told_whether_they_came_from_a_cache_or_not() {
    let mut harness = harness(false).await;
    let files = [("test.jsonl", STS)];
    let plain = score(&mut harness, TaskType::Sts, &files, None).await.unwrap();
    let scored = score(&mut harness, TaskType::Sts, &files, Some(wanted()))
        .await
        .unwrap();
    let report = scored.augmentation.unwrap();
    // Words of the four texts that have a variant: 3, 4, 4 and 4.
    assert_eq!((report.generated_tokens, report.prompt_tokens), (vec![15], vec![40]));
    assert_eq!((report.cached, report.tokens_estimated), (vec![1], true));
    assert_eq!(scored.task_type, i32::from(TaskType::Sts));
    assert!(scored.encoding.is_some());
    assert_eq!(scored.dataset_digest.len(), 64);
    assert_eq!(scored.dataset_digest, plain.dataset_digest);
    let other = [("test.jsonl", STS.replace("4.5", "4.0"))];
    let other: Vec<(&str, &str)> = other.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let other = score(&mut harness, TaskType::Sts, &other, None).await.unwrap();
    assert_ne!(other.dataset_digest, plain.dataset_digest);
}

#[tokio::test]
async fn items_have_words_and_cosines_of_texts_with_their_variants() {
    let mut harness = harness(false).await;
    let ask = |augmentation| {
        let mut request = request::score(TaskType::Sts, "fake", request::inline([("test.jsonl", STS)]));
        request::dataset(&mut request).augmentation = augmentation;
        (request.evidence, request.per_item) = (true, true);
        request
    };
    let column = |response: &ScoreResponse, key: &str| -> Option<Vec<f64>> {
        let items = response.per_item.as_ref().unwrap();
        let found = items.columns.iter().find(|column| column.key == key);
        found.map(|column| column.values.clone())
    };
    let plain = harness.tasks.score(ask(None)).await.unwrap().into_inner();
    assert_eq!(column(&plain, "words"), Some(vec![3.5, 4.0, 4.0]));
    assert_eq!(column(&plain, "cosine_variants"), None);
    let scored = harness.tasks.score(ask(Some(wanted()))).await.unwrap().into_inner();
    let cosine =
        |one: &str, other: &str| f64::from(isomer_eval::metric::similarity::cosine(&vector(one), &vector(other)));
    let first = column(&scored, "cosine_original_variant_1").unwrap();
    assert!(
        (first[0] - cosine("a dog runs", "only a dog runs")).abs() < 1e-6,
        "{first:?}"
    );
    // The first text of the second pair has no variant.
    assert!(first[1].is_nan() && first[2].is_finite());
    let second = column(&scored, "cosine_original_variant_2").unwrap();
    assert!(second.iter().all(|value| value.is_finite()));
    let variants = column(&scored, "cosine_variants").unwrap();
    assert!(variants[1].is_nan());
    assert!((variants[0] - cosine("only a dog runs", "only the dog runs fast")).abs() < 1e-6);
    let originals = column(&scored, "cosine_originals").unwrap();
    assert!((originals[1] - cosine("rain falls on the town", "a dog runs")).abs() < 1e-6);
    // If a second request may get other variants, these columns are missing.
    let mut fresh = wanted();
    fresh.spec.as_mut().unwrap().bypass_cache = true;
    let scored = harness.tasks.score(ask(Some(fresh))).await.unwrap().into_inner();
    assert_eq!(column(&scored, "cosine_originals"), None);
    assert!(column(&scored, "words").is_some());
}
