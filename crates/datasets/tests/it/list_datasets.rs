//! One small data set of each task whose rows are lists. The tests of eval-svc include this file
//! too.

use isomer_datasets::{Dataset, DatasetError, InlineFile, LoadOptions, Source, load};
use isomer_scoring::task::TaskType;
use serde_json::{Value, json};

pub(crate) fn of(task: TaskType, file: &str, rows: &[Value]) -> Result<Dataset, DatasetError> {
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
