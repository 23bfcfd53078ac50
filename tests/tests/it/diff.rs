//! `isomer diff` with real encoders: from files, from stored runs, and refusals.

use std::path::Path;

use isomer_tests::{
    home::Home,
    process::{check_into_report, finish, isomer},
};
use serde_json::{Value, json};

const OLD: &str = "all-MiniLM-L6-v2";
const NEW: &str = "paraphrase-MiniLM-L3-v2";

/// Searches whose transformation needs no generator.
fn suite(home: &Home, transformations: &str) -> String {
    let data = home.path().join("find");
    std::fs::create_dir_all(data.join("qrels")).unwrap();
    let animals = ["cat", "dog", "horse", "sheep", "goose", "otter", "badger"];
    let places = ["fence", "gate", "river", "barn", "orchard"];
    let lines = |rows: Vec<Value>| rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let text = |n: usize| {
        format!(
            "The {} slept beside the {} on day {n}.",
            animals[n % 7],
            places[n * 2 % 5]
        )
    };
    let corpus = (0..30).map(|n| json!({"_id": format!("d{n}"), "title": "", "text": text(n)}));
    std::fs::write(data.join("corpus.jsonl"), lines(corpus.collect())).unwrap();
    let queries = (0..12).map(
        |n| json!({"_id": format!("q{n}"), "text": format!("a {} near the {}", animals[n % 7], places[n * 2 % 5])}),
    );
    std::fs::write(data.join("queries.jsonl"), lines(queries.collect())).unwrap();
    let qrels: Vec<String> = (0..12).map(|n| format!("q{n}\td{n}\t1")).collect();
    std::fs::write(
        data.join("qrels/test.tsv"),
        format!("query-id\tcorpus-id\tscore\n{}", qrels.join("\n")),
    )
    .unwrap();
    let suite = home.path().join("suite.toml");
    let text = format!(
        "name = \"versions\"\nseeds = [1337]\ntransformations = [{transformations}]\n\n\
         [separation]\noff = true\n\n[[dataset]]\ntask = \"retrieval\"\nname = \"find\"\npath = \"find\"\n"
    );
    std::fs::write(&suite, text).unwrap();
    suite.display().to_string()
}

/// A check of one encoder into a folder; returns the report.
fn check(home: &Home, suite: &str, model: &str, out: &Path, items: bool) -> Value {
    let mut command = check_into_report(home, suite, "none");
    command.args(["--model", model]);
    if items {
        command.arg("--items");
    }
    let (code, stdout, stderr) = finish(&mut command);
    assert_eq!(code, 0, "{stderr}");
    std::fs::rename(home.path().join("report"), out).unwrap();
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn two_versions_are_compared_from_files_and_from_kept_runs_alike() {
    let Some(home) = Home::with_models(&[OLD, NEW]) else {
        return;
    };
    let place = |name: &str| home.path().join(name);
    let text = |name: &str| place(name).display().to_string();
    let rules = suite(&home, "\"random_keywords\"");
    let old = check(&home, &rules, OLD, &place("old"), true);
    let new = check(&home, &rules, NEW, &place("new"), false);
    assert!(place("old/items.json").is_file() && !place("new/items.json").exists());

    let compare = |old: &str, new: &str, more: &[&str]| {
        let mut command = isomer(&home);
        command
            .args(["diff", old, new, "--format", "json", "--out", &text("diff")])
            .args(more);
        finish(&mut command)
    };
    // Items stored with the report, and those of the stored run.
    let (code, stdout, stderr) = compare(&text("old"), &text("new/report.json"), &[]);
    assert_eq!(code, 0, "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&found["old"]["encoder"], &found["new"]["encoder"]),
        (&OLD.into(), &NEW.into())
    );
    assert_eq!(found["rows"].as_array().unwrap().len(), 2);
    assert_eq!(found["rows"][0]["flips"]["decisions"], 12);
    let scores = |report: &Value| report["profile"]["encoders"][0]["original"].as_f64().unwrap();
    let change = found["rows"][0]["change"]["value"].as_f64().unwrap();
    assert!((change - (scores(&new) - scores(&old))).abs() < 1e-9);
    for name in ["diff.json", "diff.html", "diff.md"] {
        assert!(place("diff").join(name).metadata().unwrap().len() > 500, "{name}");
    }
    // By the runs' ids.
    let id = |report: &Value| report["run"]["id"].as_str().unwrap().to_owned();
    let (code, by_id, stderr) = compare(&id(&old), &id(&new), &[]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(serde_json::from_str::<Value>(&by_id).unwrap(), found);

    // Another transformation: refused by name, and compared if the texts are the same.
    let other = suite(&home, "\"stopword_removal\"");
    check(&home, &other, NEW, &place("other"), false);
    let (code, _, stderr) = compare(&text("old"), &text("other"), &[]);
    assert_eq!(code, 2, "{stderr}");
    for told in [
        "random_keywords",
        "only OLD has it",
        "stopword_removal",
        "only NEW has it",
        "--shared",
    ] {
        assert!(stderr.contains(told), "{told} in {stderr}");
    }
    let (code, stdout, stderr) = compare(&text("old"), &text("other"), &["--shared"]);
    assert_eq!(code, 0, "{stderr}");
    let shared: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (
            shared["rows"].as_array().unwrap().len(),
            shared["left_out"].as_array().unwrap().len()
        ),
        (1, 2)
    );

    for (arguments, told) in [
        (
            ["nowhere", "new"].map(|name| if name == "new" { text(name) } else { name.to_owned() }),
            "no file or folder",
        ),
        ([text("old"), text("suite.toml")], "is not a report.json"),
    ] {
        let (code, _, stderr) = compare(&arguments[0], &arguments[1], &[]);
        assert!(code > 1 && stderr.contains(told), "{code} {stderr}");
    }
    let (code, _, stderr) = compare(&text("old"), &text("new"), &["--k", "21"]);
    assert_eq!(code, 2, "{stderr}");
    let (code, _, stderr) = compare(&text("old"), &text("new"), &["--new-encoder", "nobody"]);
    assert!(code == 2 && stderr.contains("NEW has no encoder `nobody`"), "{stderr}");
}
