//! `isomer thresholds` and `isomer history` with real encoders: from files, from stored runs, and
//! refusals.

use std::path::Path;

use isomer_tests::{
    home::Home,
    process::{check_into_report, finish, isomer},
};
use serde_json::{Value, json};

const OLD: &str = "all-MiniLM-L6-v2";
const NEW: &str = "paraphrase-MiniLM-L3-v2";
const PAIRS: usize = 40;

/// Pairs whose transformation needs no generator.
fn suite(home: &Home, name: &str) -> String {
    let animals = ["cat", "dog", "horse", "sheep", "goose", "otter", "badger"];
    let places = ["fence", "gate", "river", "barn", "orchard"];
    let pairs = (0..PAIRS).map(|n| {
        let (animal, place) = (animals[n % 7], places[n * 2 % 5]);
        let second = if n % 2 == 0 {
            format!("Close to the {place} a {animal} was asleep, number {n}.")
        } else {
            format!("Prices of bread rose by {n} percent in the spring.")
        };
        json!({
            "sentence1": format!("The {animal} slept beside the {place} on day {n}."),
            "sentence2": second,
            "label": (n + 1) % 2,
        })
    });
    let rows: Vec<String> = pairs.map(|row| row.to_string()).collect();
    std::fs::write(home.path().join("pairs.jsonl"), rows.join("\n")).unwrap();
    let suite = home.path().join(format!("{name}.toml"));
    let text = format!(
        "name = \"{name}\"\nseeds = [1337]\ntransformations = [\"random_keywords\"]\n\n[separation]\noff = true\n\n\
         [[dataset]]\ntask = \"pair-classification\"\nname = \"pairs\"\npath = \"pairs.jsonl\"\n"
    );
    std::fs::write(&suite, text).unwrap();
    suite.display().to_string()
}

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
fn thresholds_and_history_come_from_files_and_from_kept_runs_alike() {
    let Some(home) = Home::with_models(&[OLD, NEW]) else {
        return;
    };
    let place = |name: &str| home.path().join(name);
    let text = |name: &str| place(name).display().to_string();
    let rules = suite(&home, "versions");
    let old = check(&home, &rules, OLD, &place("old"), true);
    let new = check(&home, &rules, NEW, &place("new"), false);
    let id = |report: &Value| report["run"]["id"].as_str().unwrap().to_owned();
    let run = |command: &str, arguments: &[&str]| {
        let mut process = isomer(&home);
        process
            .args([command, "--format", "json", "--out", &text("out")])
            .args(arguments);
        finish(&mut process)
    };

    let (code, stdout, stderr) = run("thresholds", &[&text("old"), "--target", "f1"]);
    assert_eq!(code, 0, "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let encoder = &old["encoders"][0];
    assert_eq!(found["encoder"]["vector_space"], encoder["vector_space"]);
    assert_eq!(found["encoder"]["weights_digest"], encoder["weights_digest"]);
    let set = &found["sets"][0];
    // The two kinds of pairs are distinguished.
    assert_eq!(set["rows"][0]["counts"]["true_positives"], PAIRS / 2);
    assert_eq!(set["rows"][0]["counts"]["false_positives"], 0);
    assert_eq!(set["rows"].as_array().unwrap().len(), 2);
    assert!(place("out/thresholds.json").metadata().unwrap().len() > 500 && place("out/thresholds.md").is_file());
    // By the run's id, with the items stored there.
    let (code, by_id, stderr) = run("thresholds", &[&id(&old), "--target", "f1"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(serde_json::from_str::<Value>(&by_id).unwrap(), found);
    // A map from the old encoder to the new one.
    let (code, stdout, stderr) = run("thresholds", &[&text("new"), "--from", &text("old"), "--target", "f1"]);
    assert_eq!(code, 0, "{stderr}");
    let map = &serde_json::from_str::<Value>(&stdout).unwrap()["maps"][0];
    assert_eq!((&map["from"]["encoder"], &map["pairs"]), (&OLD.into(), &PAIRS.into()));
    let error = |of: &str| map[of]["rmse"].as_f64().unwrap();
    assert!(error("cross_validated") < error("of_the_mean"));

    for (arguments, code, told) in [
        (
            vec![text("old"), "--target".into(), "recall=0.9".into()],
            2,
            "precision=P, fpr=R or f1",
        ),
        (
            vec![text("old"), "--dataset".into(), "other".into()],
            2,
            "no data set `other`; it has pairs",
        ),
        (vec![text("old"), "--from-encoder".into(), "x".into()], 2, "--from"),
        (vec!["nowhere".into()], 0, "no file or folder"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (found, _, stderr) = run("thresholds", &arguments);
        assert!(
            found > 1 && (code == 0 || found == code) && stderr.contains(told),
            "{found} {stderr}"
        );
    }

    // History: the stored runs, and the same from files. Another suite is excluded.
    let again = check(&home, &rules, NEW, &place("again"), false);
    let other = check(&home, &suite(&home, "other"), NEW, &place("other"), false);
    let pick = ["--suite-digest", new["suite"]["digest"].as_str().unwrap()];
    let (code, stdout, stderr) = run("history", &[&[NEW][..], &pick].concat());
    assert_eq!(code, 0, "{stderr}");
    let kept: Value = serde_json::from_str(&stdout).unwrap();
    let runs: Vec<&Value> = kept["releases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["run"])
        .collect();
    assert_eq!(runs, [&new["run"]["id"]]);
    let why = |run: &Value| {
        let mut left_out = kept["left_out"].as_array().unwrap().iter();
        left_out.find(|one| one["run"] == run["run"]["id"]).unwrap()["why"].to_string()
    };
    assert!(why(&again).contains("again, which counts once") && why(&other).contains("another suite"));
    assert_eq!(
        kept["left_out"].as_array().unwrap().len(),
        2,
        "nor is the other encoder's check here"
    );
    let files = [text("again"), text("new/report.json"), id(&other)];
    let arguments: Vec<&str> = [NEW]
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .chain(pick)
        .collect();
    let (code, stdout, stderr) = run("history", &arguments);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        serde_json::from_str::<Value>(&stdout).unwrap()["releases"],
        kept["releases"]
    );
    for name in ["history.json", "history.html", "history.md"] {
        assert!(place("out").join(name).metadata().unwrap().len() > 500, "{name}");
    }
    let (code, _, stderr) = run("history", &["nobody", &text("new")]);
    assert!(code == 2 && stderr.contains("has the encoder `nobody`"), "{stderr}");
}
