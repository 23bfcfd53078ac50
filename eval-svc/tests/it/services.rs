//! `TaskService`: computes scores from vectors or datasets, and returns faults with their codes.

use std::sync::atomic::Ordering;

use isomer_eval::{
    EvalConfig,
    dataset::{LoadOptions, Source, load},
    metric::vector_matrix,
    mteb_result,
    task::{Profile, TaskType},
};
use isomer_proto::{
    common::v1::{Dtype, Matrix},
    eval::v1::{
        self as proto, ListTasksRequest, PairVectors, RetrievalVectors, ScoreRequest, ScoreResponse, dataset_ref,
        retrieval_vectors::Judgement, score_request,
    },
};
use isomer_service_kit::Fault;
use isomer_stubs::{promise::promised, request};
use ndarray::Array2;
use tonic::Code;

use crate::{
    harness::{DIMENSIONS, harness, house_with, vector},
    published::published,
    support::{close, fixture, floats, matrix, strings},
};

pub(crate) fn packed(matrix: &Array2<f32>) -> Option<Matrix> {
    let data: Vec<u8> = matrix.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut packed = Matrix {
        rows: matrix.nrows() as u32,
        cols: matrix.ncols() as u32,
        data: data.into(),
        ..Matrix::default()
    };
    packed.set_dtype(Dtype::F32);
    Some(packed)
}

pub(crate) fn request(task: proto::TaskType, input: score_request::Input) -> ScoreRequest {
    ScoreRequest {
        task_type: task.into(),
        input: Some(input),
        ..ScoreRequest::default()
    }
}

pub(crate) fn builtin(name: &str) -> dataset_ref::Source {
    dataset_ref::Source::Builtin(name.to_owned())
}

pub(crate) async fn refused(request: ScoreRequest) -> (Code, Fault) {
    let status = harness().await.tasks.score(request).await.unwrap_err();
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
    let mut harness = harness().await;
    let tasks = &mut harness.tasks;

    let case = &fixture["sts"][0];
    let pairs = |case: &serde_json::Value, labels: &str| PairVectors {
        first: packed(&matrix(&case["first"])),
        second: packed(&matrix(&case["second"])),
        labels: floats(&case[labels]),
    };
    let sts = request(proto::TaskType::Sts, score_request::Input::Pairs(pairs(case, "gold")));
    let response = tasks.score(sts).await.unwrap().into_inner();
    same(&response, &case["expected"]);
    assert_eq!(
        (response.main_score_key.as_str(), response.items),
        ("cosine_spearman", 60)
    );
    assert!(response.profile_stamp.starts_with("mteb-v2 (mteb 2.20"));
    assert!(response.mteb_result.is_none());

    let case = &fixture["pair_classification"][2];
    let mut labelled = request(
        proto::TaskType::PairClassification,
        score_request::Input::Pairs(pairs(case, "labels")),
    );
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
    let mut harness = harness().await;
    harness.overloads.store(2, Ordering::SeqCst);
    for (task, name) in [
        (proto::TaskType::Sts, "quick/sts"),
        (proto::TaskType::PairClassification, "quick/pair-classification"),
        (proto::TaskType::Retrieval, "quick/retrieval"),
    ] {
        harness.encoder.forget();
        let response = harness
            .tasks
            .score(request::score(task, "fake", builtin(name)))
            .await
            .unwrap()
            .into_inner();

        let kind: TaskType = name.rsplit('/').next().unwrap().parse().unwrap();
        let dataset = load(kind, &Source::Builtin(name.into()), &LoadOptions::default()).unwrap();
        let data: Vec<f32> = dataset.texts().iter().flat_map(|t| vector(&t.text)).collect();
        let vectors = vector_matrix(dataset.texts().len(), DIMENSIONS, data).unwrap();
        let expected = dataset.score(vectors.view(), Profile::MtebV2).unwrap();
        assert_eq!(response.main_score, expected.main, "{name}");
        assert_eq!(response.items, dataset.items() as u64);

        let mut sent = harness.encoder.texts();
        let count = sent.len();
        sent.sort();
        sent.dedup();
        assert_eq!(sent.len(), count, "{name}: a text was sent twice");
        assert_eq!(response.usage.unwrap().texts, count as u64);
        assert_eq!(response.vector_space.unwrap().digest, "space");

        let document = mteb_result::to_json(&response.mteb_result.unwrap());
        let entry = &document["scores"]["test"][0];
        assert_eq!(document["task_name"], name);
        assert_eq!(
            (&entry["hf_subset"], &entry["languages"]),
            (&"default".into(), &serde_json::json!(["und"]))
        );
        close(
            entry["main_score"].as_f64().unwrap(),
            expected.main,
            5.1e-7,
            "main_score",
        );
    }
    let most = harness.encoder.most_in_flight();
    assert!((2..=3).contains(&most), "{most} requests in flight");
}

#[tokio::test]
async fn inline_files_and_a_limit_are_taken() {
    let row = |i: usize| {
        format!(
            "{{\"sentence1\":\"a b c {i}\",\"sentence2\":\"b d {}\",\"score\":{}}}\n",
            i % 3,
            i % 5
        )
    };
    let content: String = (0..20).map(row).collect();
    let mut request = request::score(
        proto::TaskType::Sts,
        "fake",
        request::inline([("test.de.jsonl", content)]),
    );
    let input = request::dataset(&mut request);
    input.limit = Some(12);
    input.dataset.as_mut().unwrap().name = "Mine".into();
    let response = harness().await.tasks.score(request).await.unwrap().into_inner();
    assert_eq!(response.items, 12);
    let document = mteb_result::to_json(&response.mteb_result.unwrap());
    assert_eq!(document["task_name"], "Mine");
    assert_eq!(
        document["scores"]["test"][0]["languages"],
        serde_json::json!(["deu-Latn"])
    );
}

#[tokio::test]
async fn bad_score_requests_name_the_field_and_the_hint() {
    let one = |labels: Vec<f64>| PairVectors {
        first: packed(&vector_matrix(2, 2, vec![1.0, 0.0, 0.5, 1.0]).unwrap()),
        second: packed(&vector_matrix(2, 2, vec![1.0, 0.2, 0.5, 0.1]).unwrap()),
        labels,
    };
    let pairs = |task, labels| request(task, score_request::Input::Pairs(one(labels)));
    let (sts, binary) = (proto::TaskType::Sts, proto::TaskType::PairClassification);

    let (code, fault) = refused(ScoreRequest::default()).await;
    assert_eq!(
        (code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("task_type"))
    );
    let (code, fault) = refused(ScoreRequest {
        task_type: sts.into(),
        ..ScoreRequest::default()
    })
    .await;
    assert_eq!((code, fault.field.as_deref()), (Code::InvalidArgument, Some("input")));
    for (request, promise) in [
        (pairs(sts, vec![1.0]), "TaskService.Score INVALID_ARGUMENT pairs.first"),
        (
            pairs(sts, vec![3.0, 3.0]),
            "TaskService.Score FAILED_PRECONDITION UNDEFINED_SCORE",
        ),
        (
            pairs(binary, vec![1.0, 1.0]),
            "TaskService.Score FAILED_PRECONDITION UNDEFINED_SCORE",
        ),
    ] {
        promised(promise, &refused(request).await.1);
    }
    for request in [pairs(sts, vec![1.0, f64::NAN]), pairs(binary, vec![0.0, 0.5])] {
        let (_, fault) = refused(request).await;
        promised("TaskService.Score INVALID_ARGUMENT pairs.labels", &fault);
        assert_eq!(fault.field.as_deref(), Some("pairs.labels[1]"));
    }

    let mut odd = one(vec![1.0, 2.0]);
    odd.first.as_mut().unwrap().data.truncate(13);
    let (code, fault) = refused(request(sts, score_request::Input::Pairs(odd))).await;
    assert_eq!(
        (code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("pairs.first.data"))
    );
    let mut packed_bits = one(vec![1.0, 2.0]);
    packed_bits.second.as_mut().unwrap().set_dtype(Dtype::Ubinary);
    let (code, fault) = refused(request(sts, score_request::Input::Pairs(packed_bits))).await;
    assert_eq!(
        (code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("pairs.second.dtype"))
    );

    let (code, fault) = refused(request::score(sts, "fake", request::inline([("test.jsonl", "{}\n")]))).await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        fault.message.contains("test.jsonl, line 1, field `sentence1`"),
        "{fault}"
    );
}

#[tokio::test]
async fn what_is_not_there_or_not_served_is_said_with_the_right_code() {
    let sts = proto::TaskType::Sts;
    for (encoder, dataset, promise) in [
        (
            "fake",
            "quick/none",
            "TaskService.Score NOT_FOUND UNKNOWN_DATASET dataset",
        ),
        ("nobody", "quick/sts", "TaskService.Score NOT_FOUND UNKNOWN_ENCODER"),
    ] {
        promised(
            promise,
            &refused(request::score(sts, encoder, builtin(dataset))).await.1,
        );
    }
    let hub = dataset_ref::Source::HubId("mteb/stsbenchmark-sts".into());
    // It is not in the catalogue, and by default only catalogue data sets are fetched.
    assert_eq!(
        refused(request::score(sts, "fake", hub)).await.0,
        Code::PermissionDenied
    );
    let path = dataset_ref::Source::Path("/etc".into());
    assert_eq!(
        refused(request::score(sts, "fake", path)).await.0,
        Code::PermissionDenied
    );
    let (code, fault) = refused(request::score(sts, "fake-failing", builtin("quick/sts"))).await;
    assert_eq!(code, Code::FailedPrecondition);
    assert!(
        fault.message.contains(":sentence1`") && fault.message.contains("made to fail"),
        "{fault}"
    );
    let (code, fault) = refused(request::score(sts, "fake-drifting", builtin("quick/sts"))).await;
    assert_eq!(code, Code::FailedPrecondition);
    assert!(fault.message.contains("vector space changed"), "{fault}");
}

#[tokio::test]
async fn a_text_for_which_a_batch_is_refused_is_found_and_named() {
    let mut harness = harness().await;
    let rows = |bad: &[(usize, &str)]| -> String {
        let row = |i: usize| {
            let second = bad.iter().find(|(at, _)| *at == i);
            let second = second.map_or_else(|| format!("text {i}"), |(_, text)| (*text).to_owned());
            serde_json::json!({ "sentence1": format!("sentence {i}"), "sentence2": second, "score": i }).to_string()
        };
        (0..20).map(row).collect::<Vec<_>>().join("\n")
    };
    let mut refused = async |encoder: &str, bad: &[(usize, &str)]| {
        let file = proto::InlineFile {
            path: "test.jsonl".to_owned(),
            content: rows(bad).into_bytes(),
        };
        let source = dataset_ref::Source::Inline(proto::InlineFiles { files: vec![file] });
        let request = request::score(proto::TaskType::Sts, encoder, source);
        Fault::from_status(&harness.tasks.score(request).await.unwrap_err())
    };
    let empty = refused("fake-picky", &[(4, "")]).await;
    assert_eq!(empty.reason, "BAD_VECTORS");
    let named = "text `4:sentence2` (row 5), which is empty, could not be encoded: the input is invalid";
    assert!(empty.message.contains(named), "{empty}");
    let poison = refused("fake-picky", &[(11, "a poison")]).await;
    assert!(
        poison
            .message
            .contains("text `11:sentence2` (row 12) could not be encoded"),
        "{poison}"
    );
    // If several texts are refused, one is named.
    let several = refused("fake-picky", &[(2, "poison"), (3, "poison too"), (17, "")]).await;
    assert!(
        several.message.contains("could not be encoded: the input is invalid"),
        "{several}"
    );
    // If all texts are refused, none is named.
    let all = refused("fake-refusing", &[]).await;
    assert!(
        all.message.contains("the encoder answered: ") && !all.message.contains("sentence"),
        "{all}"
    );
}

#[tokio::test]
async fn tasks_are_listed_page_by_page() {
    let mut harness = harness().await;
    let tasks = &mut harness.tasks;
    let all = tasks
        .list_tasks(ListTasksRequest::default())
        .await
        .unwrap()
        .into_inner()
        .tasks;
    assert_eq!(all.len(), 10);
    assert!(all.iter().all(|task| task.served && task.main_scores.len() == 3));
    assert_eq!(all[1].main_scores["mteb-v2"], "max_ap");
    let mut paged = Vec::new();
    let mut page_token = String::new();
    loop {
        let page = tasks
            .list_tasks(ListTasksRequest {
                page_size: 4,
                page_token,
            })
            .await
            .unwrap()
            .into_inner();
        paged.extend(page.tasks);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(paged, all);
    let bad = tasks
        .list_tasks(ListTasksRequest {
            page_size: 1,
            page_token: "x".into(),
        })
        .await;
    assert_eq!(bad.unwrap_err().code(), Code::InvalidArgument);
}

/// Loads a published data set through the service's data roots.
#[tokio::test]
async fn a_data_root_opens_its_folders() {
    let mut harness = house_with(EvalConfig {
        data_roots: vec![published("")],
        ..EvalConfig::default()
    })
    .await;
    let path = dataset_ref::Source::Path("STS17".into());
    let mut request = request::score(proto::TaskType::Sts, "fake", path);
    let input = request::dataset(&mut request);
    input.dataset.as_mut().unwrap().language = "en-en".into();
    input.limit = Some(50);
    let response = harness.tasks.score(request).await.unwrap().into_inner();
    assert_eq!(response.items, 50);
    let document = mteb_result::to_json(&response.mteb_result.unwrap());
    assert_eq!(document["task_name"], "STS17");
}
