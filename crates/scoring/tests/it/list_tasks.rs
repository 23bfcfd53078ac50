//! The tasks whose rows are lists, against mteb (`eval-svc/fixtures/list_tasks.json`).

use std::collections::BTreeMap;

use isomer_scoring::{
    metric::{Similarity, vector_matrix},
    task::{
        Candidates, ClsdInput, OneWord, Profile, RerankingInput, ScoreError, SummarisationInput, SummarisedText,
        score_bitext, score_clsd, score_reranking, score_summarisation,
    },
};
use ndarray::Array2;
use serde_json::Value;

use crate::support::{close, fixture, floats, matrix, same_scores, similarity, strings};

fn items(case: &Value) -> Vec<Candidates> {
    let items: Vec<[usize; 3]> = serde_json::from_value(case["items"].clone()).unwrap();
    let item = |[queries, positives, negatives]: [usize; 3]| Candidates {
        queries,
        positives,
        negatives,
    };
    items.into_iter().map(item).collect()
}

#[test]
fn reranking_scores_equal_the_references_and_differ_on_ties_as_they_do() {
    for case in fixture("list_tasks.json")["reranking"].as_array().unwrap() {
        let (queries, documents, items) = (matrix(&case["queries"]), matrix(&case["documents"]), items(case));
        let input = RerankingInput {
            queries: queries.view(),
            documents: documents.view(),
            items: &items,
            document_ids: &[],
        };
        let own = similarity(case);
        let v2 = score_reranking(&input, own, Profile::MtebV2).unwrap();
        same_scores(&v2, &case["mteb_v2"], 1e-6);
        assert_eq!((v2.main_key, v2.items), ("map_at_1000", items.len() as u64));
        let hteb = score_reranking(&input, own, Profile::Hteb).unwrap();
        close(hteb.main, case["map_ties_grouped"].as_f64().unwrap(), 1e-6, "map");
        let v1 = score_reranking(&input, Similarity::Cosine, Profile::MtebV1).unwrap();
        assert_eq!(v1.all.keys().collect::<Vec<_>>(), ["map", "mrr"]);
    }
}

#[test]
fn candidates_with_ids_tie_as_mteb_s_search_and_trec_eval_order_them() {
    let fixture = fixture("list_tasks.json");
    let case = &fixture["reranking_by_id"];
    let (queries, documents, items) = (matrix(&case["queries"]), matrix(&case["documents"]), items(case));
    let document_ids = strings(&case["document_ids"]);
    let mut input = RerankingInput {
        queries: queries.view(),
        documents: documents.view(),
        items: &items,
        document_ids: &document_ids,
    };
    let v2 = score_reranking(&input, similarity(case), Profile::MtebV2).unwrap();
    same_scores(&v2, &case["mteb_v2"], 1e-6);
    // Without the ids the ties are resolved differently.
    input.document_ids = &[];
    assert_ne!(
        score_reranking(&input, similarity(case), Profile::MtebV2).unwrap().main,
        v2.main
    );
    input.document_ids = &document_ids[1..];
    assert!(score_reranking(&input, similarity(case), Profile::MtebV2).is_err());
}

#[test]
fn summarisation_scores_equal_mteb_before_and_after_its_correction_and_hteb() {
    for case in fixture("list_tasks.json")["summarisation"].as_array().unwrap() {
        let (human, machine) = (matrix(&case["human"]), matrix(&case["machine"]));
        let texts: Vec<SummarisedText> = case["texts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| SummarisedText {
                human: text["human"].as_u64().unwrap() as usize,
                relevance: floats(&text["relevance"]),
            })
            .collect();
        let input = SummarisationInput {
            human: human.view(),
            machine: machine.view(),
            texts: &texts,
        };
        let scored = |profile| score_summarisation(&input, similarity(case), profile).unwrap();
        same_scores(&scored(Profile::MtebV2), &case["mteb_v2"], 1e-6);
        same_scores(&scored(Profile::MtebV1), &case["mteb_v1"], 1e-6);
        close(
            scored(Profile::Hteb).main,
            case["hteb"].as_f64().unwrap(),
            1e-6,
            "pooled",
        );
    }
}

#[test]
fn bitext_scores_equal_mteb() {
    for case in fixture("list_tasks.json")["bitext"].as_array().unwrap() {
        let (first, second) = (matrix(&case["first"]), matrix(&case["second"]));
        let scores = score_bitext(first.view(), second.view(), similarity(case), Profile::MtebV2).unwrap();
        same_scores(&scores, &case["expected"], 1e-9);
        assert_eq!(scores.main_key, "f1");
    }
}

#[test]
fn clsd_scores_equal_the_paper_and_mteb_each_under_its_own_name() {
    let fixture = fixture("list_tasks.json");
    let case = &fixture["clsd"];
    let (sources, targets) = (matrix(&case["sources"]), matrix(&case["targets"]));
    let distractors = matrix(&case["distractors"]);
    let mut same_as_target = vec![false; distractors.nrows()];
    for row in floats(&case["same_as_target"]) {
        same_as_target[row as usize] = true;
    }
    let one_word: Vec<OneWord> = case["one_word"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| OneWord {
            row: pair["row"].as_u64().unwrap() as usize,
            distractor: pair["distractor"].as_u64().unwrap() as usize,
            pos: pair["pos"].as_str().map(str::to_owned),
        })
        .collect();
    let counts = vec![4; sources.nrows()];
    let input = ClsdInput {
        sources: sources.view(),
        targets: targets.view(),
        distractors: distractors.view(),
        counts: &counts,
        same_as_target: &same_as_target,
        one_word: &one_word,
    };
    let scores = score_clsd(&input, Similarity::Cosine, Profile::MtebV2).unwrap();
    let expected: BTreeMap<String, Option<f64>> = serde_json::from_value(case["mteb_v2"].clone()).unwrap();
    for (key, value) in expected {
        if let Some(value) = value {
            close(scores.all[&key], value, 1e-6, &key);
        }
    }
    let paper = case["candidates_precision_at_1"].as_f64().unwrap();
    assert_eq!(
        (scores.main_key, scores.main),
        ("recall_at_1", scores.all["recall_at_1"])
    );
    assert_eq!(scores.all["candidates_precision_at_1"], paper);
    assert_eq!(
        score_clsd(&input, Similarity::Cosine, Profile::Hteb).unwrap().main,
        paper
    );
    for (key, value) in case["fine_grained"].as_object().unwrap() {
        close(scores.all[key], value.as_f64().unwrap(), 2e-5, key);
    }
}

#[test]
fn wrong_shapes_and_empty_sets_are_errors_that_say_what() {
    let m = vector_matrix(2, 2, vec![1.0, 0.0, 0.0, 1.0]).unwrap();
    let wide = vector_matrix(2, 3, vec![1.0; 6]).unwrap();
    let reranked = |items: &[Candidates], documents: &Array2<f32>| {
        let input = RerankingInput {
            queries: m.view(),
            documents: documents.view(),
            items,
            document_ids: &[],
        };
        score_reranking(&input, Similarity::Cosine, Profile::MtebV2).unwrap_err()
    };
    let item = |queries, positives, negatives| Candidates {
        queries,
        positives,
        negatives,
    };
    assert!(matches!(reranked(&[], &m), ScoreError::Undefined { .. }));
    assert!(matches!(
        reranked(&[item(1, 1, 0)], &m),
        ScoreError::Item { index: 0, .. }
    ));
    assert!(matches!(
        reranked(&[item(1, 1, 1)], &m),
        ScoreError::Rows { what: "queries", .. }
    ));
    assert!(matches!(reranked(&[item(2, 1, 1)], &wide), ScoreError::Matrix { .. }));
    let bitext = score_bitext(m.view(), wide.view(), Similarity::Cosine, Profile::MtebV2).unwrap_err();
    assert!(matches!(bitext, ScoreError::Matrix { .. }));
}
