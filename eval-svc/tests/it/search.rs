//! Approximate search: on request, never the default, with its recall reported in addition to the
//! score.

use isomer_eval::{
    metric::{HnswOptions, Similarity},
    task::{Profile, RetrievalInput, SearchMode, score_retrieval},
};
use isomer_proto::eval::v1::{self as proto, ScoreRequest, SearchIndex, score_request, search_index};
use isomer_stubs::{promise::promised, request};
use tonic::Code;

use crate::{
    harness::harness,
    services::{builtin, refused},
    support::{close, fixture, judgements, matrix, strings},
};

fn hnsw(ef_construction: Option<u32>, ef_search: Option<u32>) -> Option<SearchIndex> {
    let hnsw = search_index::Hnsw {
        ef_construction,
        ef_search,
        seed: None,
    };
    Some(SearchIndex {
        kind: Some(search_index::Kind::Hnsw(hnsw)),
    })
}

#[test]
fn an_index_that_finds_every_document_gives_mteb_s_scores_with_its_ties() {
    for case in fixture("tasks.json")["retrieval"].as_array().unwrap() {
        let (queries, documents) = (matrix(&case["queries"]), matrix(&case["documents"]));
        let (query_ids, document_ids) = (strings(&case["query_ids"]), strings(&case["document_ids"]));
        let judgements = judgements(&case["qrels"], &query_ids, &document_ids);
        let input = RetrievalInput {
            queries: queries.view(),
            query_ids: &query_ids,
            documents: documents.view(),
            document_ids: &document_ids,
            judgements: &judgements,
            ignore_identical_ids: case["ignore_identical_ids"].as_bool().unwrap(),
            search: SearchMode::Hnsw(HnswOptions::default()),
        };
        for profile in Profile::ALL {
            let approximate = score_retrieval(&input, Similarity::Cosine, profile).unwrap();
            let exact = RetrievalInput {
                search: SearchMode::Exact,
                ..input
            };
            let exact = score_retrieval(&exact, Similarity::Cosine, profile).unwrap();
            let report = approximate.approximate.as_ref().unwrap();
            assert_eq!(
                (report.recall[&10], report.compared),
                (1.0, query_ids.len()),
                "{report:?}"
            );
            assert_eq!((&approximate.all, &approximate.per_item), (&exact.all, &exact.per_item));
            assert_eq!(exact.approximate, None);
        }
    }
}

#[tokio::test]
async fn a_score_by_an_index_says_so_in_every_place_where_the_score_stands() {
    let mut harness = harness().await;
    let exact = request::score(proto::TaskType::Retrieval, "fake", builtin("quick/retrieval"));
    let approximate = ScoreRequest {
        index: hnsw(Some(50), Some(60)),
        ..exact.clone()
    };
    let exact = harness.tasks.score(exact).await.unwrap().into_inner();
    let approximate = harness.tasks.score(approximate).await.unwrap().into_inner();

    assert!(exact.search.is_none() && !exact.profile_stamp.contains("approximate"));
    let report = approximate.search.unwrap();
    assert!(
        report.index.contains("ef_construction 50, ef_search 1000"),
        "{report:?}"
    );
    assert_eq!(report.recalls.iter().map(|r| r.k).collect::<Vec<_>>(), [10, 100, 1000]);
    assert_eq!(report.compared_queries, approximate.items);
    assert!(approximate.profile_stamp.ends_with("; approximate search (hnsw)"));
    assert!(
        approximate.notes.iter().any(|note| note.contains("recall")),
        "{:?}",
        approximate.notes
    );
    let document = isomer_eval::mteb_result::to_json(&approximate.mteb_result.unwrap());
    let entry = &document["scores"]["test"][0]["isomer_search"];
    close(
        entry["of_the_exact_documents"]["recall_at_10"].as_f64().unwrap(),
        report.recalls[0].recall,
        1e-6,
        "recall in the document",
    );
    // A search with a thousand candidates covers this whole small corpus.
    assert_eq!(
        (report.recalls[0].recall, approximate.main_score),
        (1.0, exact.main_score)
    );
}

fn found_by(task: proto::TaskType, name: &str, form: &str) -> ScoreRequest {
    let mut request = request::score(task, "fake", builtin(name));
    if let Some(score_request::Input::Dataset(input)) = &mut request.input {
        form.clone_into(&mut input.form);
    }
    request
}

#[tokio::test]
async fn documents_are_found_by_terms_on_request_and_the_stamp_says_so() {
    let mut harness = harness().await;
    let mut scores = Vec::new();
    for form in ["", "bm25", "hybrid:rrf", "hybrid:rrf:0.99"] {
        let request = found_by(proto::TaskType::Retrieval, "quick/retrieval", form);
        let found = harness.tasks.score(request).await.unwrap().into_inner();
        assert_eq!(found.profile_stamp.contains("search by"), !form.is_empty());
        assert!(found.profile_stamp.ends_with(form), "{}", found.profile_stamp);
        assert_eq!(found.vector_space.is_none(), form == "bm25");
        scores.push(found.main_score);
    }
    // The fake encoder knows nothing of meaning.
    let [dense, terms, both, nearly_dense] = scores[..] else {
        panic!("{scores:?}")
    };
    assert!(terms > 0.15 && terms > both && both > dense, "{scores:?}");
    assert!((nearly_dense - dense).abs() < (both - dense), "{scores:?}");
}

#[tokio::test]
async fn a_search_form_for_another_task_or_with_another_search_is_refused() {
    let retrieval = |form| found_by(proto::TaskType::Retrieval, "quick/retrieval", form);
    let augmented = || {
        let mut request = retrieval("bm25");
        if let Some(score_request::Input::Dataset(input)) = &mut request.input {
            input.augmentation = Some(proto::DatasetAugmentation::default());
        }
        request
    };
    let by_index = ScoreRequest {
        index: hnsw(None, None),
        ..retrieval("hybrid:rrf")
    };
    for request in [
        retrieval("int8"),
        retrieval("hybrid"),
        by_index,
        augmented(),
        found_by(proto::TaskType::Sts, "quick/sts", "bm25"),
    ] {
        promised("DatasetInput.form INVALID_ARGUMENT form", &refused(request).await.1);
    }
}

#[tokio::test]
async fn an_index_without_a_kind_or_width_or_for_a_task_without_search_is_refused() {
    let request = |task, name, index| ScoreRequest {
        index,
        ..request::score(task, "fake", builtin(name))
    };
    let retrieval = |index| request(proto::TaskType::Retrieval, "quick/retrieval", index);
    for (request, field) in [
        (retrieval(Some(SearchIndex::default())), "index.kind"),
        (retrieval(hnsw(Some(0), None)), "index.hnsw.ef_construction"),
        (retrieval(hnsw(None, Some(0))), "index.hnsw.ef_search"),
        (request(proto::TaskType::Sts, "quick/sts", hnsw(None, None)), "index"),
    ] {
        let (code, fault) = refused(request).await;
        assert_eq!((code, fault.field.as_deref()), (Code::InvalidArgument, Some(field)));
    }
}
