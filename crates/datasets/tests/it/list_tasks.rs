//! Files of the tasks whose rows are lists.

use isomer_datasets::Role;
use isomer_scoring::{
    metric::vector_matrix,
    task::{Profile, TaskType},
};
use serde_json::json;

use crate::{
    key::key,
    list_datasets::{datasets, of},
};

#[test]
fn lists_are_read_in_the_order_that_scoring_expects() {
    let all = datasets();
    let described = |i: usize| -> Vec<(&str, Role, bool)> {
        let text = |t: &'static isomer_datasets::DatasetText| (t.id.as_str(), t.role, t.transformable);
        let texts: &'static [isomer_datasets::DatasetText] = all[i].texts().to_vec().leak();
        texts.iter().map(text).collect()
    };
    // Only queries are transformed, and the query without a positive is dropped, with a note.
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
    // "a quick fox" and "a quick fox ran" share 3 of 4 words; "the sea" and itself share all.
    assert_eq!(all[4].measures()["lexical_overlap"], 0.875);
    assert_eq!(described(4).len(), 2 + 6);
}

#[test]
fn the_text_of_the_target_among_the_distractors_is_found_but_not_nearest() {
    let clsd = &datasets()[3];
    // Sources, targets, distractors: the first target and its second distractor are the same text.
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
    let vectors = vector_matrix(8, 2, rows.concat()).unwrap();
    let scores = clsd.score(vectors.view(), Profile::MtebV2).unwrap();
    assert_eq!(scores.all["candidates_precision_at_1"], 0.5);
    assert_eq!(scores.per_item["candidates_precision_at_1"], [0.0, 1.0]);
    assert_eq!(scores.all["hit_rate_at_1"], 1.0);
    assert_eq!(scores.all["one_word_pairs_noun"], 1.0);
}

#[test]
fn broken_lists_are_named_by_file_line_and_field() {
    for (task, row, expected) in [
        (
            TaskType::Reranking,
            json!({"query": "q", "positive": ["a"], "negative": [3]}),
            "Row line 1 negative[0]",
        ),
        (
            TaskType::Reranking,
            json!({"query": [], "positive": ["a"], "negative": ["b"]}),
            "Row line 1 query",
        ),
        (
            TaskType::Reranking,
            json!({"query": "q", "positive": [], "negative": ["b"]}),
            "Undefined none of the 1 queries",
        ),
        (
            TaskType::Summarisation,
            json!({"human_summaries": ["h"], "machine_summaries": ["m", "n"], "relevance": [1]}),
            "Row line 1 relevance",
        ),
        (
            TaskType::Summarisation,
            json!({"human_summaries": ["h"], "machine_summaries": ["m", "n"], "relevance": [1, 1]}),
            "Undefined all relevances are equal",
        ),
        (
            TaskType::Clsd,
            json!({"source": "s", "target": "t", "distractors": []}),
            "Row line 1 distractors",
        ),
        (
            TaskType::GradedRanking,
            json!({"anchor": "a", "candidates": ["b"]}),
            "Row line 1 candidates",
        ),
    ] {
        let error = of(task, "test.jsonl", &[row]).unwrap_err();
        // Two faults without a row differ in their words alone.
        let (kind, part) = expected
            .split_once("Undefined ")
            .map_or((expected, ""), |(_, part)| ("Undefined", part));
        assert_eq!(key(&error), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}
