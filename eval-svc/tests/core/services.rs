//! The gRPC faces, over a channel in memory, with an encoder that is made up but behaves like one.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_eval::{
    EvalClients, EvalConfig, EvalService,
    dataset::{LoadOptions, Source, load},
    metric::VectorMatrix,
    mteb_result,
    task::{Profile, TaskType},
};
use isomer_proto::{
    common::v1::{Dtype, Matrix, Similarity, Usage, VectorSpace},
    encoder::v1::{
        EncodeRequest, EncodeResponse, Encoder, GetEncoderRequest, GetEncoderResponse, Priority,
        encoder_service_server::{EncoderService, EncoderServiceServer},
        input,
    },
    eval::v1::{
        self as proto, CompareRequest, DatasetInput, DatasetRef, InlineFile, InlineFiles, ListTasksRequest, PairVectors,
        RankStabilityRequest, RetrievalVectors, ScoreRequest, ScoreResponse, ScoreSeries, dataset_ref,
        retrieval_vectors::Judgement, score_request, statistics_service_client::StatisticsServiceClient,
        task_service_client::TaskServiceClient,
    },
};
use isomer_service_kit::{Fault, GrpcChannel, Services, limits::LimitsConfig, memory};
use tonic::{Code, Request, Response, Status};

use crate::support::{close, fixture, floats, matrix, shared, strings};

const DIMENSIONS: usize = 16;

/// Vectors that depend on the text alone.
fn vector(text: &str) -> Vec<f32> {
    let words = text.split_whitespace();
    let mut vector = vec![0.01_f32; DIMENSIONS];
    for word in words {
        let word = word.to_lowercase();
        let hash = word.bytes().fold(7_usize, |h, b| h.wrapping_mul(31).wrapping_add(usize::from(b)));
        vector[hash % DIMENSIONS] += 1.0;
    }
    vector
}

#[derive(Default)]
struct Seen {
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    requests: AtomicUsize,
    overloads_left: AtomicUsize,
    texts: Mutex<Vec<String>>,
}

#[derive(Clone, Default)]
struct FakeEncoder(Arc<Seen>);

#[tonic::async_trait]
impl EncoderService for FakeEncoder {
    async fn get_encoder(&self, request: Request<GetEncoderRequest>) -> Result<Response<GetEncoderResponse>, Status> {
        let id = request.into_inner().id;
        if !id.starts_with("fake") {
            return Err(Fault::not_found("UNKNOWN_ENCODER", format!("there is no encoder `{id}`")).field("id").into());
        }
        let mut encoder = Encoder { id, max_batch_items: 7, ..Encoder::default() };
        encoder.set_similarity(Similarity::Cosine);
        Ok(Response::new(GetEncoderResponse { encoder: Some(encoder) }))
    }

    async fn encode(&self, request: Request<EncodeRequest>) -> Result<Response<EncodeResponse>, Status> {
        let seen = &self.0;
        let request = request.into_inner();
        assert_eq!(request.priority(), Priority::Batch);
        assert!(request.inputs.len() <= 7, "more texts than the encoder permits");
        if seen.overloads_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            return Err(Fault::overloaded("the queue is full", Duration::from_millis(1)).into());
        }
        let now = seen.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most_in_flight.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
        let texts: Vec<String> = request
            .inputs
            .into_iter()
            .map(|input| match input.input {
                Some(input::Input::Text(text)) => text,
                other => panic!("{other:?}"),
            })
            .collect();
        let number = seen.requests.fetch_add(1, Ordering::SeqCst);
        let data: Vec<u8> = texts.iter().flat_map(|t| vector(t)).flat_map(f32::to_le_bytes).collect();
        let mut embeddings =
            Matrix { rows: texts.len() as u32, cols: DIMENSIONS as u32, data: data.into(), ..Matrix::default() };
        embeddings.set_dtype(Dtype::F32);
        let digest = if request.encoder_id == "fake-drifting" { format!("space {number}") } else { "space".into() };
        let mut errors = Vec::new();
        if request.encoder_id == "fake-failing" {
            let message = "made to fail".to_owned();
            errors.push(isomer_proto::common::v1::ItemError { index: 0, code: 3, message });
        }
        let usage = Usage { texts: texts.len() as u64, tokens: 2 * texts.len() as u64, ..Usage::default() };
        seen.texts.lock().unwrap().extend(texts);
        seen.in_flight.fetch_sub(1, Ordering::SeqCst);
        Ok(Response::new(EncodeResponse {
            embeddings: Some(embeddings),
            vector_space: Some(VectorSpace { digest, ..VectorSpace::default() }),
            usage: Some(usage),
            errors,
            ..EncodeResponse::default()
        }))
    }
}

struct House {
    tasks: TaskServiceClient<GrpcChannel>,
    statistics: StatisticsServiceClient<GrpcChannel>,
    encoder: FakeEncoder,
    /// Removed with the house.
    _home: tempfile::TempDir,
}

async fn house() -> House {
    house_with(EvalConfig { encode_in_flight: 3, ..EvalConfig::default() }).await
}

async fn house_with(config: EvalConfig) -> House {
    let home = tempfile::tempdir().unwrap();
    let limits = LimitsConfig::default();
    let encoder = FakeEncoder::default();
    let services = Services::new().add(EncoderServiceServer::new(encoder.clone()));
    let channel = memory::channel(services, &limits).await.unwrap();
    let clients = EvalClients { encoder: channel.clone(), transform: channel };
    let service = EvalService::new(EvalConfig { home: home.path().to_owned(), ..config }, clients).unwrap();
    let channel = memory::channel(isomer_eval::services(service), &limits).await.unwrap();
    House {
        tasks: TaskServiceClient::new(channel.clone()),
        statistics: StatisticsServiceClient::new(channel),
        encoder,
        _home: home,
    }
}

fn packed(matrix: &VectorMatrix) -> Option<Matrix> {
    let data: Vec<u8> = matrix.data().iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut packed =
        Matrix { rows: matrix.rows() as u32, cols: matrix.cols() as u32, data: data.into(), ..Matrix::default() };
    packed.set_dtype(Dtype::F32);
    Some(packed)
}

fn request(task: proto::TaskType, input: score_request::Input) -> ScoreRequest {
    ScoreRequest { task_type: task.into(), input: Some(input), ..ScoreRequest::default() }
}

fn with_dataset(task: proto::TaskType, encoder: &str, source: dataset_ref::Source) -> ScoreRequest {
    let dataset = DatasetRef { source: Some(source), ..DatasetRef::default() };
    let input = DatasetInput { dataset: Some(dataset), encoder_id: encoder.to_owned(), limit: None };
    request(task, score_request::Input::Dataset(input))
}

fn builtin(name: &str) -> dataset_ref::Source {
    dataset_ref::Source::Builtin(name.to_owned())
}

async fn refused(request: ScoreRequest) -> (Code, Fault) {
    let status = house().await.tasks.score(request).await.unwrap_err();
    (status.code(), Fault::from_status(&status))
}

fn same(response: &ScoreResponse, expected: &serde_json::Value) {
    for (key, value) in expected.as_object().unwrap() {
        if let Some(value) = value.as_f64() {
            close(response.scores[key], value, 1e-6, key);
        }
    }
}

#[tokio::test]
async fn vectors_and_labels_over_the_wire_score_as_mteb_does() {
    let fixture = fixture("tasks.json");
    let mut house = house().await;
    let tasks = &mut house.tasks;

    let case = &fixture["sts"][0];
    let pairs = |case: &serde_json::Value, labels: &str| PairVectors {
        first: packed(&matrix(&case["first"])),
        second: packed(&matrix(&case["second"])),
        labels: floats(&case[labels]),
    };
    let sts = request(proto::TaskType::Sts, score_request::Input::Pairs(pairs(case, "gold")));
    let response = tasks.score(sts).await.unwrap().into_inner();
    same(&response, &case["expected"]);
    assert_eq!((response.main_score_key.as_str(), response.items), ("cosine_spearman", 60));
    assert!(response.profile_stamp.starts_with("mteb-v2 (mteb 2.20"));
    assert!(response.mteb_result.is_none());

    let case = &fixture["pair_classification"][2];
    let mut labelled = request(proto::TaskType::PairClassification, score_request::Input::Pairs(pairs(case, "labels")));
    labelled.set_profile(proto::MetricProfile::Hteb);
    let response = tasks.score(labelled).await.unwrap().into_inner();
    same(&response, &case["expected"]);
    assert_eq!(response.main_score_key, "cosine_ap");

    let case = &fixture["retrieval"][1];
    let mut judgements = Vec::new();
    for (query, documents) in case["qrels"].as_object().unwrap() {
        for (document, grade) in documents.as_object().unwrap() {
            judgements.push(Judgement {
                query_id: query.clone(),
                document_id: document.clone(),
                relevance: grade.as_i64().unwrap() as i32,
            });
        }
    }
    let retrieval = RetrievalVectors {
        queries: packed(&matrix(&case["queries"])),
        query_ids: strings(&case["query_ids"]),
        documents: packed(&matrix(&case["documents"])),
        document_ids: strings(&case["document_ids"]),
        judgements,
    };
    let retrieval = request(proto::TaskType::Retrieval, score_request::Input::Retrieval(retrieval));
    let response = tasks.score(retrieval).await.unwrap().into_inner();
    same(&response, &case["expected"]);
    assert_eq!((response.main_score_key.as_str(), response.items), ("ndcg_at_10", 20));
}

#[tokio::test]
async fn a_dataset_is_encoded_in_batches_each_text_once_and_scored() {
    let mut house = house().await;
    house.encoder.0.overloads_left.store(2, Ordering::SeqCst);
    for (task, name) in [
        (proto::TaskType::Sts, "quick/sts"),
        (proto::TaskType::PairClassification, "quick/pair-classification"),
        (proto::TaskType::Retrieval, "quick/retrieval"),
    ] {
        house.encoder.0.texts.lock().unwrap().clear();
        let response = house.tasks.score(with_dataset(task, "fake", builtin(name))).await.unwrap().into_inner();

        let kind: TaskType = name.rsplit('/').next().unwrap().parse().unwrap();
        let dataset = load(kind, &Source::Builtin(name.into()), &LoadOptions::default()).unwrap();
        let data: Vec<f32> = dataset.texts().iter().flat_map(|t| vector(&t.text)).collect();
        let vectors = VectorMatrix::new(dataset.texts().len(), DIMENSIONS, data).unwrap();
        let expected = dataset.score(&vectors, Profile::MtebV2).unwrap();
        assert_eq!(response.main_score, expected.main, "{name}");
        assert_eq!(response.items, dataset.items() as u64);

        let mut sent = house.encoder.0.texts.lock().unwrap().clone();
        let count = sent.len();
        sent.sort();
        sent.dedup();
        assert_eq!(sent.len(), count, "{name}: a text was sent twice");
        assert_eq!(response.usage.unwrap().texts, count as u64);
        assert_eq!(response.vector_space.unwrap().digest, "space");

        let document = mteb_result::to_json(&response.mteb_result.unwrap());
        let entry = &document["scores"]["test"][0];
        assert_eq!(document["task_name"], name);
        assert_eq!((&entry["hf_subset"], &entry["languages"]), (&"default".into(), &serde_json::json!(["und"])));
        close(entry["main_score"].as_f64().unwrap(), expected.main, 5.1e-7, "main_score");
    }
    let most = house.encoder.0.most_in_flight.load(Ordering::SeqCst);
    assert!((2..=3).contains(&most), "{most} requests in flight");
}

#[tokio::test]
async fn inline_files_and_a_limit_are_taken() {
    let row = |i: usize| format!("{{\"sentence1\":\"a b c {i}\",\"sentence2\":\"b d {}\",\"score\":{}}}\n", i % 3, i % 5);
    let content: String = (0..20).map(row).collect();
    let files = InlineFiles { files: vec![InlineFile { path: "test.de.jsonl".into(), content: content.into() }] };
    let mut request = with_dataset(proto::TaskType::Sts, "fake", dataset_ref::Source::Inline(files));
    if let Some(score_request::Input::Dataset(input)) = &mut request.input {
        input.limit = Some(12);
        input.dataset.as_mut().unwrap().name = "Mine".into();
    }
    let response = house().await.tasks.score(request).await.unwrap().into_inner();
    assert_eq!(response.items, 12);
    let document = mteb_result::to_json(&response.mteb_result.unwrap());
    assert_eq!(document["task_name"], "Mine");
    assert_eq!(document["scores"]["test"][0]["languages"], serde_json::json!(["deu-Latn"]));
}

#[tokio::test]
async fn bad_score_requests_name_the_field_and_the_mend() {
    let one = |labels: Vec<f64>| PairVectors {
        first: packed(&VectorMatrix::new(2, 2, vec![1.0, 0.0, 0.5, 1.0]).unwrap()),
        second: packed(&VectorMatrix::new(2, 2, vec![1.0, 0.2, 0.5, 0.1]).unwrap()),
        labels,
    };
    let pairs = |task, labels| request(task, score_request::Input::Pairs(one(labels)));
    let (sts, binary) = (proto::TaskType::Sts, proto::TaskType::PairClassification);

    let (code, fault) = refused(ScoreRequest::default()).await;
    assert_eq!((code, fault.field.as_deref()), (Code::InvalidArgument, Some("task_type")));
    let (code, fault) = refused(ScoreRequest { task_type: sts.into(), ..ScoreRequest::default() }).await;
    assert_eq!((code, fault.field.as_deref()), (Code::InvalidArgument, Some("input")));
    let (code, fault) = refused(pairs(sts, vec![1.0])).await;
    assert_eq!((code, fault.field.as_deref()), (Code::InvalidArgument, Some("pairs.first")));
    let (code, fault) = refused(pairs(sts, vec![1.0, f64::NAN])).await;
    assert_eq!((code, fault.field.as_deref()), (Code::InvalidArgument, Some("pairs.labels[1]")));
    let (code, fault) = refused(pairs(binary, vec![0.0, 0.5])).await;
    assert_eq!((code, fault.field.as_deref()), (Code::InvalidArgument, Some("pairs.labels[1]")));
    let (code, _) = refused(pairs(sts, vec![3.0, 3.0])).await;
    assert_eq!(code, Code::FailedPrecondition);
    let (code, _) = refused(pairs(binary, vec![1.0, 1.0])).await;
    assert_eq!(code, Code::FailedPrecondition);

    let mut odd = one(vec![1.0, 2.0]);
    odd.first.as_mut().unwrap().data.truncate(13);
    let (code, fault) = refused(request(sts, score_request::Input::Pairs(odd))).await;
    assert_eq!((code, fault.field.as_deref()), (Code::InvalidArgument, Some("pairs.first.data")));
    let mut packed_bits = one(vec![1.0, 2.0]);
    packed_bits.second.as_mut().unwrap().set_dtype(Dtype::Ubinary);
    let (code, fault) = refused(request(sts, score_request::Input::Pairs(packed_bits))).await;
    assert_eq!((code, fault.field.as_deref()), (Code::InvalidArgument, Some("pairs.second.dtype")));

    let broken = InlineFiles { files: vec![InlineFile { path: "test.jsonl".into(), content: "{}\n".into() }] };
    let (code, fault) = refused(with_dataset(sts, "fake", dataset_ref::Source::Inline(broken))).await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(fault.message.contains("test.jsonl, line 1, field `sentence1`"), "{fault}");
}

#[tokio::test]
async fn what_is_not_there_or_not_served_is_said_with_the_right_code() {
    let sts = proto::TaskType::Sts;
    assert_eq!(refused(with_dataset(sts, "fake", builtin("quick/none"))).await.0, Code::NotFound);
    let (code, fault) = refused(with_dataset(sts, "nobody", builtin("quick/sts"))).await;
    assert_eq!((code, fault.reason.as_str()), (Code::NotFound, "UNKNOWN_ENCODER"));
    assert!(fault.message.contains("nobody"), "{fault}");
    let hub = dataset_ref::Source::HubId("mteb/stsbenchmark-sts".into());
    assert_eq!(refused(with_dataset(sts, "fake", hub)).await.0, Code::Unimplemented);
    let path = dataset_ref::Source::Path("/etc".into());
    assert_eq!(refused(with_dataset(sts, "fake", path)).await.0, Code::PermissionDenied);
    for task in [proto::TaskType::Classification, proto::TaskType::Clustering, proto::TaskType::Clsd] {
        assert_eq!(refused(with_dataset(task, "fake", builtin("quick/sts"))).await.0, Code::Unimplemented);
    }
    let (code, fault) = refused(with_dataset(sts, "fake-failing", builtin("quick/sts"))).await;
    assert_eq!(code, Code::FailedPrecondition);
    assert!(fault.message.contains("`0:sentence1`") && fault.message.contains("made to fail"), "{fault}");
    let (code, fault) = refused(with_dataset(sts, "fake-drifting", builtin("quick/sts"))).await;
    assert_eq!(code, Code::FailedPrecondition);
    assert!(fault.message.contains("vector space changed"), "{fault}");
}

#[tokio::test]
async fn tasks_are_listed_page_by_page() {
    let mut house = house().await;
    let tasks = &mut house.tasks;
    let all = tasks.list_tasks(ListTasksRequest::default()).await.unwrap().into_inner().tasks;
    assert_eq!(all.len(), 10);
    assert_eq!(all.iter().filter(|t| t.served).count(), 3);
    assert_eq!(all[1].main_scores["mteb-v2"], "max_ap");
    let mut paged = Vec::new();
    let mut page_token = String::new();
    loop {
        let page = tasks.list_tasks(ListTasksRequest { page_size: 4, page_token }).await.unwrap().into_inner();
        paged.extend(page.tasks);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(paged, all);
    let bad = tasks.list_tasks(ListTasksRequest { page_size: 1, page_token: "x".into() }).await;
    assert_eq!(bad.unwrap_err().code(), Code::InvalidArgument);
}

fn series(name: &str, values: &[f64]) -> ScoreSeries {
    ScoreSeries { name: name.to_owned(), values: values.to_vec() }
}

#[tokio::test]
async fn comparisons_carry_shift_interval_test_and_adjustment() {
    let mut house = house().await;
    let statistics = &mut house.statistics;
    let reference: Vec<f64> = (0..12).map(|i| 0.5 + f64::from(i) / 40.0).collect();
    let moved = |by: f64| -> Vec<f64> {
        reference.iter().enumerate().map(|(i, v)| v + by + (i as f64 - 5.5) / 1000.0).collect()
    };
    let request = CompareRequest {
        reference: Some(series("a", &reference)),
        treatments: vec![series("b", &moved(0.05)), series("c", &moved(0.0)), series("a again", &reference)],
        ..CompareRequest::default()
    };
    let found = statistics.compare(request.clone()).await.unwrap().into_inner().comparisons;
    let (b, c, same) = (&found[0], &found[1], &found[2]);
    assert_eq!((b.n, b.name.as_str()), (12, "b"));
    close(b.mean_difference, 0.05, 1e-12, "mean difference");
    close(b.hodges_lehmann, 0.05, 1e-9, "shift");
    // Twelve differences of one sign: 2 / 2^12.
    close(b.p_value.unwrap(), 2.0 / 4096.0, 1e-12, "p");
    close(b.p_holm.unwrap(), 4.0 / 4096.0, 1e-12, "adjusted over the two that were tested");
    let interval = b.hodges_lehmann_interval.as_ref().unwrap();
    assert!(interval.low < 0.05 && 0.05 < interval.high && interval.level == 0.95);
    assert_eq!(interval.method, "percentile bootstrap (1000)");
    assert!(c.p_value.unwrap() > 0.5 && c.p_holm.unwrap() >= c.p_value.unwrap());
    assert_eq!((same.p_value, same.p_holm, same.hodges_lehmann), (None, None, 0.0));
    assert!(same.note.contains("all differences are zero"), "{}", same.note);
    let again = statistics.compare(request).await.unwrap().into_inner().comparisons;
    assert_eq!(again, found);
}

#[tokio::test]
async fn comparisons_that_make_no_sense_are_refused() {
    let mut house = house().await;
    let statistics = &mut house.statistics;
    let mut refuse = async |reference: &[f64], treatment: &[f64], confidence: f64, resamples: u32| {
        let request = CompareRequest {
            reference: Some(series("a", reference)),
            treatments: vec![series("b", treatment)],
            confidence,
            resamples,
            ..CompareRequest::default()
        };
        let fault = Fault::from_status(&statistics.compare(request).await.unwrap_err());
        assert_eq!(fault.code, Code::InvalidArgument);
        fault.field.unwrap()
    };
    assert_eq!(refuse(&[1.0, 2.0], &[1.0], 0.95, 10).await, "treatments[0].values");
    assert_eq!(refuse(&[1.0], &[f64::NAN], 0.95, 10).await, "treatments[0].values[0]");
    assert_eq!(refuse(&[], &[], 0.95, 10).await, "reference.values");
    assert_eq!(refuse(&[1.0], &[2.0], 1.0, 10).await, "confidence");
    assert_eq!(refuse(&[1.0; 1000], &[2.0; 1000], 0.9, 4_000_000).await, "resamples");
    let none = CompareRequest { reference: Some(series("a", &[1.0])), ..CompareRequest::default() };
    assert_eq!(statistics.compare(none).await.unwrap_err().code(), Code::InvalidArgument);
    let later = statistics.rank_stability(RankStabilityRequest::default()).await.unwrap_err();
    assert_eq!(later.code(), Code::Unimplemented);
}

#[tokio::test]
async fn one_pair_is_compared_without_what_one_pair_cannot_give() {
    let mut house = house().await;
    let statistics = &mut house.statistics;
    let request = CompareRequest {
        reference: Some(series("a", &[0.5])),
        treatments: vec![series("b", &[0.75])],
        ..CompareRequest::default()
    };
    let found = statistics.compare(request).await.unwrap().into_inner().comparisons.remove(0);
    assert_eq!((found.n, found.hodges_lehmann, found.sd_difference), (1, 0.25, None));
    assert_eq!(found.p_value, Some(1.0));
    assert!(found.note.contains("no two-sided p-value below 1"), "{}", found.note);
}

/// Loading a shared dataset through the service's data roots.
#[tokio::test]
async fn a_data_root_opens_its_folders() {
    let Some(root) = shared("data") else { return };
    let mut house = house_with(EvalConfig { data_roots: vec![root], ..EvalConfig::default() }).await;
    let path = dataset_ref::Source::Path("STSBenchmark".into());
    let mut request = with_dataset(proto::TaskType::Sts, "fake", path);
    if let Some(score_request::Input::Dataset(input)) = &mut request.input {
        input.limit = Some(50);
    }
    let response = house.tasks.score(request).await.unwrap().into_inner();
    assert_eq!(response.items, 50);
    let document = mteb_result::to_json(&response.mteb_result.unwrap());
    assert_eq!(document["task_name"], "STSBenchmark");
}
