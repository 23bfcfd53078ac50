//! Task metrics against mteb itself (`eval-svc/fixtures/tasks.json`).

use isomer_scoring::{
    metric::{
        HnswOptions, Similarity,
        hnsw::Graph,
        search::{Ties, top_k},
        vector_matrix,
    },
    task::{
        Candidates, Profile, RerankingInput, RetrievalInput, ScoreError, Scores, SearchMode, SummarisationInput,
        SummarisedText, score_bitext, score_pair_classification, score_reranking, score_retrieval, score_sts,
        score_summarisation,
    },
};
use ndarray::{Array2, array, s};
use serde_json::Value;

use crate::support::{close, fixture, floats, judgements, matrix, same_scores, similarity, strings};

#[test]
fn sts_scores_equal_mteb() {
    for case in fixture("tasks.json")["sts"].as_array().unwrap() {
        let (first, second) = (matrix(&case["first"]), matrix(&case["second"]));
        for profile in Profile::ALL {
            let gold = floats(&case["gold"]);
            let scores = score_sts(first.view(), second.view(), &gold, similarity(case), profile).unwrap();
            same_scores(&scores, &case["expected"], 1e-6);
            assert_eq!(
                (scores.main_key, scores.main),
                ("cosine_spearman", scores.all["cosine_spearman"])
            );
        }
    }
}

#[test]
fn pair_classification_scores_equal_mteb_and_the_profile_picks_the_main_one() {
    for case in fixture("tasks.json")["pair_classification"].as_array().unwrap() {
        let (first, second) = (matrix(&case["first"]), matrix(&case["second"]));
        let labels: Vec<bool> = floats(&case["labels"]).iter().map(|l| *l == 1.0).collect();
        for (profile, key) in [
            (Profile::MtebV2, "max_ap"),
            (Profile::MtebV1, "cosine_ap"),
            (Profile::Hteb, "cosine_ap"),
        ] {
            let scores =
                score_pair_classification(first.view(), second.view(), &labels, similarity(case), profile).unwrap();
            same_scores(&scores, &case["expected"], 1e-6);
            assert_eq!((scores.main_key, scores.main), (key, scores.all[key]));
        }
    }
}

#[test]
fn retrieval_scores_equal_mteb_with_ties_and_abstention() {
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
            search: SearchMode::Exact,
        };
        let scores = score_retrieval(&input, similarity(case), Profile::MtebV2).unwrap();
        same_scores(&scores, &case["expected"], 1e-6);
        assert_eq!((scores.main_key, scores.items), ("ndcg_at_10", query_ids.len() as u64));
    }
}

#[test]
fn hteb_counts_the_ten_best_documents_only() {
    let fixture = fixture("tasks.json");
    // No ties here (continuous vectors), so both profiles see the same ten documents.
    let case = &fixture["retrieval"][1];
    let (queries, documents) = (matrix(&case["queries"]), matrix(&case["documents"]));
    let (query_ids, document_ids) = (strings(&case["query_ids"]), strings(&case["document_ids"]));
    let judgements = judgements(&case["qrels"], &query_ids, &document_ids);
    let input = RetrievalInput {
        queries: queries.view(),
        query_ids: &query_ids,
        documents: documents.view(),
        document_ids: &document_ids,
        judgements: &judgements,
        ignore_identical_ids: false,
        search: SearchMode::Exact,
    };
    let scores = score_retrieval(&input, Similarity::Cosine, Profile::Hteb).unwrap();
    close(
        scores.main,
        case["expected"]["ndcg_at_10"].as_f64().unwrap(),
        1e-9,
        "ndcg_at_10",
    );
    assert!(!scores.all.contains_key("ndcg_at_20") && !scores.all.keys().any(|k| k.starts_with("nauc")));
}

#[test]
fn hteb_drops_the_query_itself_before_the_cut_and_mteb_after_it() {
    // Twelve documents in falling order of similarity to the query; the first is the query itself,
    // the eleventh relevant.
    let rows: Vec<f32> = (0..12).flat_map(|i| [1.0, i as f32 * 0.1]).collect();
    let documents = vector_matrix(12, 2, rows).unwrap();
    let query = vector_matrix(1, 2, vec![1.0, 0.0]).unwrap();
    let document_ids: Vec<String> = (0..12)
        .map(|i| if i == 0 { "q".into() } else { format!("d{i}") })
        .collect();
    let input = RetrievalInput {
        queries: query.view(),
        query_ids: &["q".to_owned()],
        documents: documents.view(),
        document_ids: &document_ids,
        judgements: &[vec![(10, 1)]],
        ignore_identical_ids: true,
        search: SearchMode::Exact,
    };
    let scored = |profile| score_retrieval(&input, Similarity::Cosine, profile).unwrap();
    let hteb = scored(Profile::Hteb);
    assert_eq!(hteb.all["recall_at_10"], 1.0);
    assert_eq!(scored(Profile::MtebV2).all["recall_at_10"], 1.0);
    assert_eq!(hteb.per_item["mrr_at_10"], [0.1]);
}

#[test]
fn undefined_metrics_and_wrong_shapes_are_errors() {
    let fixture = fixture("tasks.json");
    let case = &fixture["sts"][0];
    let (first, second) = (matrix(&case["first"]), matrix(&case["second"]));
    let sts = |gold: &[f64]| score_sts(first.view(), second.view(), gold, Similarity::Cosine, Profile::MtebV2);
    assert!(matches!(
        sts(&[3.0; 60]),
        Err(ScoreError::Undefined {
            metric: "cosine_spearman",
            ..
        })
    ));
    assert!(matches!(
        sts(&[3.0; 59]),
        Err(ScoreError::Rows {
            expected: 59,
            found: 60,
            ..
        })
    ));
    let pairs = score_pair_classification(
        first.view(),
        second.view(),
        &[true; 60],
        Similarity::Cosine,
        Profile::Hteb,
    );
    assert!(matches!(
        pairs,
        Err(ScoreError::Undefined {
            metric: "cosine_ap",
            ..
        })
    ));
}

#[test]
fn the_same_pairs_in_another_order_score_the_same() {
    let fixture = fixture("tasks.json");
    let case = &fixture["sts"][1];
    let reversed = |key: &str| {
        let mut rows = case[key].as_array().unwrap().clone();
        rows.reverse();
        Value::Array(rows)
    };
    let (first, second) = (matrix(&reversed("first")), matrix(&reversed("second")));
    let gold = floats(&reversed("gold"));
    let scores = score_sts(first.view(), second.view(), &gold, similarity(case), Profile::MtebV2).unwrap();
    same_scores(&scores, &case["expected"], 1e-6);
}

#[test]
fn a_similarity_that_is_not_a_number_is_an_error_of_its_item() {
    let sound = array![[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]];
    let mut nan = sound.clone();
    nan[[2, 1]] = f32::NAN;
    let item = |found: Result<Scores, ScoreError>| match found.unwrap_err() {
        ScoreError::Item { what, index, .. } => (what, index),
        other => panic!("{other}"),
    };
    let (v2, own) = (Profile::MtebV2, Similarity::Dot);
    let labels = [true, false, true, false];
    for (first, second) in [(&nan, &sound), (&sound, &nan)] {
        let (first, second) = (first.view(), second.view());
        let found = score_pair_classification(first, second, &labels, own, v2);
        assert_eq!(item(found), ("pairs", 2));
    }
    let found = score_bitext(nan.view(), sound.view(), own, v2);
    assert_eq!(item(found), ("pairs", 2));
    let items = [1, 1].map(|queries| Candidates {
        queries,
        positives: 1,
        negatives: 1,
    });
    let found = score_reranking(
        &RerankingInput {
            queries: sound.slice(s![..2, ..]),
            documents: nan.view(),
            items: &items,
            document_ids: &[],
        },
        own,
        v2,
    );
    assert_eq!(item(found), ("items", 1));
    let texts = [1, 1].map(|human| SummarisedText {
        human,
        relevance: vec![1.0, 2.0],
    });
    let found = score_summarisation(
        &SummarisationInput {
            human: sound.slice(s![..2, ..]),
            machine: nan.view(),
            texts: &texts,
        },
        own,
        v2,
    );
    assert_eq!(item(found), ("texts", 1));
}

#[test]
fn views_that_are_not_contiguous_score_as_their_copies() {
    let fixture = fixture("tasks.json");
    let case = &fixture["sts"][0];
    let (first, second) = (matrix(&case["first"]), matrix(&case["second"]));
    let gold = floats(&case["gold"]);
    // Alternating rows in one matrix, as in a data set of pairs, and column-major.
    let mut both = Array2::zeros((2 * first.nrows(), first.ncols()));
    both.slice_mut(s![..;2, ..]).assign(&first);
    both.slice_mut(s![1..;2, ..]).assign(&second);
    let turned = second.t().as_standard_layout().into_owned().reversed_axes();
    assert!(!turned.is_standard_layout());
    let scored = |second| {
        score_sts(
            both.slice(s![..;2, ..]),
            second,
            &gold,
            similarity(case),
            Profile::MtebV2,
        )
        .unwrap()
    };
    let whole = score_sts(first.view(), second.view(), &gold, similarity(case), Profile::MtebV2).unwrap();
    assert_eq!(scored(both.slice(s![1..;2, ..])), whole);
    assert_eq!(scored(turned.view()), whole);
    let search = |documents| top_k(first.view(), documents, &[], Similarity::Cosine, 5, Ties::CorpusOrder);
    assert_eq!(search(turned.view()), search(second.view()));
    let graph = |documents| {
        let graph = Graph::build(documents, Similarity::Cosine, HnswOptions::default());
        graph.search(&first.row(0).to_vec(), 5)
    };
    assert_eq!(graph(turned.view()), graph(second.view()));
}
