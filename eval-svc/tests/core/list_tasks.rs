//! The tasks whose rows are lists: against mteb (`fixtures/list_tasks.json`), and their files.

use std::collections::BTreeMap;

use isomer_eval::{
    dataset::{Dataset, DatasetError, InlineFile, LoadOptions, Role, Source, load},
    metric::{Similarity, VectorMatrix},
    task::{
        Candidates, ClsdInput, OneWord, Profile, RerankingInput, ScoreError, SummarisationInput, SummarisedText,
        TaskType, score_bitext, score_clsd, score_reranking, score_summarisation,
    },
};
use serde_json::{Value, json};

use crate::{
    support::{close, fixture, floats, matrix, strings},
    tasks::{same_scores, similarity},
};

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
    // Without the ids the ties fall otherwise.
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
    let mut same_as_target = vec![false; distractors.rows()];
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
    let counts = vec![4; sources.rows()];
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

fn of(task: TaskType, file: &str, rows: &[Value]) -> Result<Dataset, DatasetError> {
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    let source = Source::Inline(vec![InlineFile {
        path: file.to_owned(),
        content: rows.join("\n").into_bytes(),
    }]);
    let options = LoadOptions {
        name: Some(task.name().to_owned()),
        ..LoadOptions::default()
    };
    load(task, &source, &options)
}

/// One small dataset of each kind.
pub(crate) fn datasets() -> Vec<Dataset> {
    let reranking = [
        json!({"query": "how to mend a tap", "positive": ["mending taps"], "negative": ["a song", "a dance"]}),
        json!({"query": ["a", "b"], "positive": [], "negative": ["c"]}),
        json!({"query": ["where is rome", "rome?"], "positive": ["rome lies in italy"], "negative": ["paris"]}),
    ];
    let summarisation = [
        json!({"text": "t", "human_summaries": ["one two"], "machine_summaries": ["one", "twa", "xyz"], "relevance": [3, 2, 0.5]}),
        json!({"text": "t", "human_summaries": ["q", "r"], "machine_summaries": ["q r", "s", "qq"], "relevance": [1, 5, 4]}),
    ];
    let bitext = [
        json!({"sentence1": "guten tag", "sentence2": "good day"}),
        json!({"sentence1": "zebra", "sentence2": "zebra"}),
    ];
    let clsd = [
        json!({"source": "der hund", "target": "the dog runs", "distractors": ["the cat runs", "the dog runs"], "distractor_pos": ["NOUN", null]}),
        json!({"source": "die sonne", "target": "the sun", "distractors": ["a moon", "the sunset glows"]}),
    ];
    let graded = [
        json!({"anchor": "a quick fox", "candidates": ["a quick fox ran", "a slow fox", "zzz"]}),
        json!({"anchor": "the sea", "candidates": ["the sea", "a lake", "hills"]}),
    ];
    vec![
        of(TaskType::Reranking, "test.jsonl", &reranking).unwrap(),
        of(TaskType::Summarisation, "test.jsonl", &summarisation).unwrap(),
        of(TaskType::Bitext, "test.de-en.jsonl", &bitext).unwrap(),
        of(TaskType::Clsd, "de-en.jsonl", &clsd).unwrap(),
        of(TaskType::GradedRanking, "test.jsonl", &graded).unwrap(),
    ]
}

#[test]
fn lists_are_read_in_the_order_that_scoring_expects() {
    let all = datasets();
    let described = |i: usize| -> Vec<(&str, Role, bool)> {
        let text = |t: &'static isomer_eval::dataset::DatasetText| (t.id.as_str(), t.role, t.transformable);
        let texts: &'static [isomer_eval::dataset::DatasetText] = all[i].texts().to_vec().leak();
        texts.iter().map(text).collect()
    };
    // Queries only are transformed, and the query without a positive is gone, with a note.
    let reranking = described(0);
    assert_eq!(reranking[1], ("1:query[0]", Role::Query, true));
    assert_eq!(reranking[3], ("0:positive", Role::Candidate, false));
    assert_eq!((all[0].items(), reranking.len()), (2, 3 + 5));
    assert!(all[0].notes()[0].starts_with("1 queries without a positive"));
    assert!(described(1).iter().all(|(_, _, transformable)| *transformable));
    assert_eq!(described(2)[1], ("0:sentence2", Role::Second, false));
    assert_eq!(
        (all[3].language(), described(3)[2]),
        (Some("de-en"), ("0:target", Role::Second, false))
    );
    // "a quick fox" and "a quick fox ran" share 3 of 4 words, "the sea" and itself all.
    assert_eq!(all[4].measures()["lexical_overlap"], 0.875);
    assert_eq!(described(4).len(), 2 + 6);
}

#[test]
fn the_text_of_the_target_among_the_distractors_is_found_but_not_nearest() {
    let clsd = &datasets()[3];
    // Sources, targets, distractors: the first target and its second distractor are one text.
    let rows = [
        [1.0, 0.1],
        [0.1, 1.0],
        [1.0, 0.0],
        [0.0, 1.0],
        [0.9, 0.5],
        [1.0, 0.0],
        [0.5, 0.5],
        [0.6, 0.5],
    ];
    let vectors = VectorMatrix::new(8, 2, rows.concat()).unwrap();
    let scores = clsd.score(&vectors, Profile::MtebV2).unwrap();
    assert_eq!(scores.all["candidates_precision_at_1"], 0.5);
    assert_eq!(scores.per_item["candidates_precision_at_1"], [0.0, 1.0]);
    assert_eq!(scores.all["hit_rate_at_1"], 1.0);
    assert_eq!(scores.all["one_word_pairs_noun"], 1.0);
}

#[test]
fn broken_lists_are_named_by_file_line_and_field() {
    let fault = |task, row: Value| of(task, "test.jsonl", &[row]).unwrap_err().to_string();
    let good = json!({"query": "q", "positive": ["a"], "negative": [3]});
    assert_eq!(
        fault(TaskType::Reranking, good),
        "test.jsonl, line 1, field `negative[0]`: a number where a string is expected"
    );
    assert!(
        fault(
            TaskType::Reranking,
            json!({"query": [], "positive": ["a"], "negative": ["b"]})
        )
        .contains("`query`")
    );
    assert!(
        fault(
            TaskType::Reranking,
            json!({"query": "q", "positive": [], "negative": ["b"]})
        )
        .contains("none of the 1 queries")
    );
    let uneven = json!({"human_summaries": ["h"], "machine_summaries": ["m", "n"], "relevance": [1]});
    assert_eq!(
        fault(TaskType::Summarisation, uneven),
        "test.jsonl, line 1, field `relevance`: 1 numbers for 2 of `machine_summaries`"
    );
    let constant = json!({"human_summaries": ["h"], "machine_summaries": ["m", "n"], "relevance": [1, 1]});
    assert!(fault(TaskType::Summarisation, constant).contains("all relevances are equal"));
    let lonely = json!({"source": "s", "target": "t", "distractors": []});
    assert!(fault(TaskType::Clsd, lonely).contains("`distractors`: 0 texts where at least 1"));
    assert!(fault(TaskType::GradedRanking, json!({"anchor": "a", "candidates": ["b"]})).contains("at least 2"));
}

#[test]
fn wrong_shapes_and_empty_sets_are_errors_that_say_what() {
    let m = VectorMatrix::new(2, 2, vec![1.0, 0.0, 0.0, 1.0]).unwrap();
    let wide = VectorMatrix::new(2, 3, vec![1.0; 6]).unwrap();
    let reranked = |items: &[Candidates], documents: &VectorMatrix| {
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
