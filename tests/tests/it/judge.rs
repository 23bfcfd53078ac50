//! `isomer transform judge` and `judge-select` against a stub of an OpenAI-compatible server with
//! fixed ratings.

use std::process::Command;

use isomer_stubs::openai::{Answer, Stub};
use isomer_tests::{
    home::Home,
    process::{finish, isomer},
};
use serde_json::Value;

const PAIRS: usize = 24;

/// Pairs whose first text contains their similarity: `grade 0` to `grade 5`, four of each.
fn data(home: &Home) -> String {
    let folder = home.path().join("sts");
    std::fs::create_dir_all(&folder).unwrap();
    let rows: String = (0..PAIRS)
        .map(|i| {
            let grade = i % 6;
            let longer = " and so on".repeat(i % 3 * 4);
            format!(
                "{{\"sentence1\": \"The animal number {i} of grade {grade} slept beside the fence{longer}.\", \
                 \"sentence2\": \"Near gate {i} something was resting all day{longer}.\", \"score\": {}}}\n",
                1.0 + 0.8 * grade as f64
            )
        })
        .collect();
    std::fs::write(folder.join("test.jsonl"), rows).unwrap();
    folder.display().to_string()
}

async fn finished(mut command: Command) -> (i32, String, String) {
    tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap()
}

/// A judge that rates a pair by its grade, and refuses to rate grade 3.
async fn judge() -> Stub {
    let stub = Stub::start(Answer::Text("4.5".into())).await;
    for grade in [0, 1, 2, 4, 5] {
        // Pairs of gold data contain the word `gate`; a text and its paraphrase do not contain both
        // `Near gate` and `animal`.
        stub.mark(&format!("of grade {grade} slept"), [Answer::Text(grade.to_string())]);
    }
    stub.mark("of grade 3 slept", [Answer::Text("I would rather not say.".into())]);
    stub
}

fn spec(name: &str, stub: &Stub) -> String {
    format!("openai:{name}@{}", stub.url())
}

#[tokio::test]
async fn judges_and_paraphrasers_are_measured_and_a_second_run_asks_for_nothing() {
    let home = Home::empty();
    let data = data(&home);
    let (good, flat, writer) = (
        judge().await,
        Stub::start(Answer::Text("3".into())).await,
        Stub::start(Answer::Good).await,
    );
    let command = |format: &str| {
        let mut command = isomer(&home);
        command.args([
            "transform",
            "judge-select",
            "--format",
            format,
            "--data",
            &format!("{data}@1:5"),
        ]);
        command.args(["--judge", &spec("flat", &flat), "--judge", &spec("good", &good)]);
        command.args(["--generator", &spec("writer", &writer), "--word-bins", "10,20"]);
        command
    };
    let (code, stdout, stderr) = finished(command("json")).await;
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["chosen_judge"], spec("good", &good), "{stdout}");
    let best = &report["judges"][0];
    assert_eq!(best["failures"], 4, "grade 3 has no rating");
    let agreement = &best["sets"][0]["agreement"];
    assert_eq!(agreement["pairs"], 24);
    assert_eq!(agreement["rated"], 20);
    assert!((agreement["spearman"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    assert!(
        agreement["mae"].as_f64().unwrap() < 1e-12,
        "gold scores from 1 to 5 are brought to 0 to 5"
    );
    assert_eq!(report["judges"][1]["sets"][0]["agreement"]["spearman"], Value::Null);
    let words: Vec<_> = best["by_words"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bin| bin["agreement"]["pairs"].as_u64().unwrap())
        .collect();
    assert_eq!((words.len(), words.iter().sum::<u64>()), (3, 24));
    let paraphraser = &report["paraphrasers"][0];
    assert_eq!(paraphraser["texts"], 48);
    assert_eq!(paraphraser["failed"], 0);
    assert_eq!(paraphraser["similarity"][1]["mean"]["mean"], 3.0);
    assert!(paraphraser["edit_distance"]["mean"].as_f64().unwrap() > 0.3);
    assert_eq!(paraphraser["seconds"]["timed_texts"], 48);

    let calls = (good.calls(), flat.calls(), writer.calls());
    let (code, text, stderr) = finished(command("text")).await;
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        (good.calls(), flat.calls(), writer.calls()),
        calls,
        "all from the cache"
    );
    assert!(
        text.contains("Step 1") && text.contains("Step 2") && text.contains("cached"),
        "{text}"
    );
    assert!(text.contains("100.00 [100.0, 100.0]"), "{text}");
}

#[tokio::test]
async fn pairs_are_rated_in_order_and_bad_usage_is_told() {
    let home = Home::empty();
    let stub = judge().await;
    let input = home.path().join("pairs.jsonl");
    std::fs::write(
        &input,
        "{\"id\": \"a\", \"original\": \"It of grade 2 slept.\", \"text\": \"x\"}\n\
         {\"sentence1\": \"It of grade 3 slept.\", \"sentence2\": \"y\"}\n",
    )
    .unwrap();
    let input = input.display().to_string();
    let mut command = isomer(&home);
    command.args(["transform", "judge", "--scale", "similarity", "--input", &input]);
    command.args(["--generator", &spec("judge", &stub)]);
    let (code, stdout, stderr) = finished(command).await;
    assert_eq!(code, 0, "{stderr}");
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["id"], "a");
    assert_eq!(lines[0]["score"], 2.0);
    assert_eq!(lines[1]["id"], "1");
    assert_eq!(lines[1]["score"], Value::Null);
    assert_eq!(lines[1]["unreadable"], 3);
    assert!(lines[1]["error"].as_str().unwrap().contains("rather not say"));

    for (arguments, part) in [
        (
            vec![
                "transform",
                "judge",
                "--scale",
                "similarity",
                "--input",
                "nowhere.jsonl",
            ],
            "nowhere.jsonl",
        ),
        (
            vec!["transform", "judge-select", "--judge", "none", "--data", "nowhere"],
            "nowhere",
        ),
        (
            vec![
                "transform",
                "judge-select",
                "--judge",
                "none",
                "--data",
                "quick/sts@5:1",
            ],
            "5:1",
        ),
        (vec!["transform"], "--transformation"),
        (vec!["embed", "--pooling", "max"], "--augment"),
        (vec!["embed", "--augment", "parafrase", "--input", &input], "parafrase"),
    ] {
        let mut command = isomer(&home);
        command.args(&arguments);
        let (code, _, stderr) = finished(command).await;
        assert!(code == 2 || code == 3, "{arguments:?}: {code}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}
