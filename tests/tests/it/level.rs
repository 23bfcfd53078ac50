//! The level of an encoder: broken copies of a model fail against the unchanged model by the rule
//! that every shipped suite has, and healthy encoders pass. Rewrites are by rule, so that no
//! generator is needed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use isomer_tests::{
    folder::{copy, edit},
    home::Home,
    process::{check_into_report, finish, isomer},
};
use serde_json::{Value, json};

const MODEL: &str = "all-MiniLM-L6-v2";
const SMALLER: &str = "paraphrase-MiniLM-L3-v2";

/// A name and a change that breaks an encoder without an error.
type Fault = (&'static str, fn(&Path));

const FAULTS: [Fault; 4] = [
    ("cls", |folder| {
        edit(folder, "1_Pooling/config.json", |pooling| {
            pooling["pooling_mode_mean_tokens"] = json!(false);
            pooling["pooling_mode_cls_token"] = json!(true);
        });
    }),
    ("cased", |folder| {
        edit(folder, "tokenizer.json", |tokenizer| {
            tokenizer["normalizer"]["lowercase"] = json!(false)
        });
        edit(folder, "tokenizer_config.json", |config| {
            config["do_lower_case"] = json!(false)
        });
    }),
    ("short", |folder| {
        edit(folder, "sentence_bert_config.json", |settings| {
            settings["max_seq_length"] = json!(8)
        });
    }),
    ("shallow", |folder| {
        edit(folder, "config.json", |config| config["num_hidden_layers"] = json!(3));
    }),
];

/// The rule on the level of a shipped suite, as text.
fn level_rule(home: &Home, suite: &str) -> String {
    let (code, suite, stderr) = finish(isomer(home).args(["suite", "show", suite]));
    assert_eq!(code, 0, "{stderr}");
    let suite: toml::Table = suite.parse().unwrap();
    let rules = suite["gate"]["rule"].as_array().unwrap();
    let level = rules.iter().find(|rule| rule.get("margin").is_some()).unwrap();
    assert_eq!(level["when"].as_str(), Some("baseline"));
    format!(
        "margin={},fail_at={},of={},unit={}",
        level["margin"],
        level["fail_at"],
        level["of"].as_str().unwrap(),
        suite["gate"]["unit"].as_str().unwrap()
    )
}

/// Exit code, gate and standard error of a check of the original texts of the quick suite, with the
/// suite's rule on the level if there is a baseline.
fn check(home: &Home, encoder: &str, baseline: Option<&str>) -> (i32, Value, String) {
    let mut command = check_into_report(home, "quick", "none");
    command.args([
        "--model",
        encoder,
        "--transformation",
        "stopword_removal",
        "--no-suite-rules",
    ]);
    match baseline {
        Some(baseline) => command.args(["--baseline", baseline, "--rule", &level_rule(home, "quick")]),
        None => command.args(["--rule", "max_drop=100,of=augmentation"]),
    };
    let (code, stdout, stderr) = finish(&mut command);
    let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{code}: {stderr}"));
    (code, report["gate"].clone(), stderr)
}

fn broken(home: &Home, (name, change): Fault) -> String {
    let folder: PathBuf = home.path().join(name);
    copy(&home.model(MODEL), &folder);
    change(&folder);
    format!("{name}={}", folder.display())
}

#[test]
fn broken_copies_of_an_encoder_fail_against_it() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    for fault in FAULTS {
        let encoder = broken(&home, fault);
        let (code, gate, stderr) = check(&home, &encoder, Some(MODEL));
        let rule = &gate["encoders"][0]["rules"][0];
        println!("{}: {} [{}, {}]", fault.0, rule["estimate"], rule["low"], rule["high"]);
        assert_eq!(
            (code, &rule["verdict"]),
            (1, &json!("fail")),
            "{}: {rule} {stderr}",
            fault.0
        );
        let (code, gate, stderr) = check(&home, &encoder, None);
        // Eight tokens leave one data set at chance level.
        let alone = if fault.0 == "short" {
            (4, json!("invalid"))
        } else {
            (0, json!("pass"))
        };
        assert_eq!((code, gate["verdict"].clone()), alone, "{}: {stderr}", fault.0);
        let page = fs::read_to_string(home.path().join("report/report.md")).unwrap();
        assert_eq!(
            page.contains("Level not compared: no baseline."),
            code == 0,
            "{}",
            fault.0
        );
    }
}

#[test]
fn healthy_encoders_pass_against_an_equal_and_a_worse_one() {
    let Some(home) = Home::with_models(&[MODEL, SMALLER]) else {
        return;
    };
    let twin = broken(&home, ("twin", |_| ()));
    for (encoder, baseline, code) in [(twin.as_str(), MODEL, 0), (MODEL, SMALLER, 0), (SMALLER, MODEL, 1)] {
        let (ended, gate, stderr) = check(&home, encoder, Some(baseline));
        let rule = &gate["encoders"][0]["rules"][0];
        println!(
            "{encoder} against {baseline}: {} [{}, {}]",
            rule["estimate"], rule["low"], rule["high"]
        );
        assert_eq!(ended, code, "{encoder} against {baseline}: {rule} {stderr}");
        let page = fs::read_to_string(home.path().join("report/report.md")).unwrap();
        assert!(!page.contains("Level not compared"), "{encoder}");
    }
}
