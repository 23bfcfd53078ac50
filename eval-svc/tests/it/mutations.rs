//! Faults that must never pass: broken generators and encoders, each with its expected verdict, and
//! the positive control that passes on the same suite.

use isomer_proto::{
    eval::v1::{Run, RunState, SuiteRef, Verdict, suite_ref},
    transform::v1::Outcome,
};
use serde_json::{Value, json};

use crate::run_stubs::{Harness, Rewriter, many::suite, report_json, run_to_end, spec};

/// A limit that every encoder satisfies: a pass is then a pass for the wrong reason.
const LENIENT: &str = "[[gate.rule]]\nmax_drop = 190\n";

async fn verdict_of(rewriter: Option<Rewriter>, gate: &str) -> (Run, Value) {
    let harness = Harness::new();
    *harness.transform.rewriter.lock() = rewriter;
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec(suite(&harness, 6, gate), &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    (run, json)
}

pub(crate) fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(7, |sum, byte| (sum * 31 + u64::from(byte)) % 1_000_003)
}

/// Another text with the words reversed and an additional one.
fn healthy(_: &str, seed: u64, text: &str) -> (String, Outcome) {
    let words: Vec<&str> = text.split_whitespace().rev().collect();
    (format!("indeed {} {seed}", words.join(" ")), Outcome::Ok)
}

#[tokio::test]
async fn rewrites_that_did_not_happen_make_the_gate_invalid() {
    let broken: [(&str, Rewriter); 7] = [
        ("dead: every text comes back, and the checks notice", |_, _, text| {
            (text.to_owned(), Outcome::KeptOriginal)
        }),
        ("dead: every text comes back, and no check notices", |_, _, text| {
            (text.to_owned(), Outcome::Ok)
        }),
        ("a full stop is appended", |_, _, text| {
            (format!("{text}."), Outcome::Ok)
        }),
        ("case is changed", |_, _, text| (text.to_uppercase(), Outcome::Ok)),
        ("one word is swapped", |_, _, text| {
            let (_, rest) = text.split_once(' ').unwrap_or((text, ""));
            (format!("swapped {rest}"), Outcome::Ok)
        }),
        ("three in ten fail", |name, seed, text| match hash(text) % 10 {
            0..3 => (String::new(), Outcome::Failed),
            _ => healthy(name, seed, text),
        }),
        ("one transformation of two is dead", |name, seed, text| match name {
            "paraphrase" => (text.to_owned(), Outcome::Ok),
            _ => healthy(name, seed, text),
        }),
    ];
    for (what, rewriter) in broken {
        let (run, json) = verdict_of(Some(rewriter), LENIENT).await;
        assert_eq!(
            (run.verdict(), run.blocked),
            (Verdict::Invalid, true),
            "{what}: {}",
            json["gate"]
        );
        let said = &json["gate"]["encoders"][0]["rules"][0];
        assert!(said["note"].as_str().unwrap().contains("robustness"), "{what}: {said}");
        let headline = json["headline"].to_string();
        assert!(!headline.contains("holds"), "{what}: {headline}");
    }
}

#[tokio::test]
async fn a_healthy_generator_passes_on_the_same_suite() {
    for rewriter in [None, Some(healthy as Rewriter)] {
        let (run, json) = verdict_of(rewriter, LENIENT).await;
        assert_eq!((run.verdict(), run.blocked), (Verdict::Pass, false), "{}", json["gate"]);
        let rewrites = &json["gate"]["encoders"][0]["rules"][0]["rewrites"];
        assert!(rewrites["texts"].as_u64().unwrap() >= 200, "{rewrites}");
    }
}

#[tokio::test]
async fn warnings_do_not_let_an_invalid_gate_pass_and_limits_can_be_named() {
    let dead: Rewriter = |_, _, text| (text.to_owned(), Outcome::KeptOriginal);
    let warned = format!("[gate]\nundecided = \"warn\"\n{LENIENT}");
    let (run, json) = verdict_of(Some(dead), &warned).await;
    assert_eq!(
        (run.verdict(), run.blocked),
        (Verdict::Invalid, true),
        "{}",
        json["gate"]
    );
    // A rule may accept unchanged texts by name.
    let allowed = format!("{LENIENT}max_unchanged = 1.0\n");
    let (run, _) = verdict_of(Some(dead), &allowed).await;
    assert_eq!(run.verdict(), Verdict::Pass);
    // A rule on the original texts is not about rewrites.
    let (run, json) = verdict_of(Some(dead), "[[gate.rule]]\nmin_score = -99\nof = \"original\"\n").await;
    assert_eq!(run.verdict(), Verdict::Pass);
    assert!(
        json["headline"].to_string().contains("stayed as they were"),
        "{}",
        json["headline"]
    );
}

#[tokio::test]
async fn a_small_data_set_of_which_nothing_was_rewritten_is_noticed() {
    // The texts of one data set of six stay unchanged: a sixth of the average, whatever its share
    // of the texts.
    let (run, json) = verdict_of(
        Some(|name, seed, text| match text.starts_with("Number 3") {
            true => (text.to_owned(), Outcome::Ok),
            false => healthy(name, seed, text),
        }),
        "[[gate.rule]]\nmax_drop = 190\nmax_unchanged = 0.07\n",
    )
    .await;
    assert_eq!(run.verdict(), Verdict::Invalid, "{}", json["gate"]);
}

#[tokio::test]
async fn test_rows_that_were_fitted_on_make_the_gate_invalid() {
    let verdict = async |fitted_on: usize, limit: &str, declared: &str| {
        let harness = Harness::new();
        let folder = harness.home.path().join("data/leaky");
        std::fs::create_dir_all(&folder).unwrap();
        let row = |i: usize, text: String| json!({ "text": text, "label": i % 2 }).to_string() + "\n";
        let sentence = |i: usize| match i % 2 {
            0 => format!("Zebras run past {i} zoos."),
            _ => format!("All {i} alarms rang at noon."),
        };
        let train: String = (0..40).map(|i| row(i, sentence(i))).collect();
        let test = (0..40).map(|i| {
            row(
                i,
                if i < fitted_on {
                    sentence(i).to_uppercase()
                } else {
                    sentence(i + 100)
                },
            )
        });
        std::fs::write(folder.join("train.jsonl"), train).unwrap();
        std::fs::write(folder.join("test.jsonl"), test.collect::<String>()).unwrap();
        let toml = format!(
            "name = \"leaky\"\nseeds = [1]\ntransformations = [\"paraphrase\"]\n[[gate.rule]]\nmin_score = -99\nof = \"original\"\n{limit}\n\
             [[dataset]]\ntask = \"classification\"\npath = \"leaky\"\n{declared}"
        );
        let suite = SuiteRef {
            source: Some(suite_ref::Source::Toml(toml)),
            base_dir: harness.home.path().join("data").display().to_string(),
            file_name: "leaky.toml".to_owned(),
        };
        let (_service, mut client) = harness.open().await;
        let run = run_to_end(&mut client, spec(suite, &["stub-a"])).await;
        assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
        (run.verdict(), report_json(&mut client, &run.id).await)
    };
    let (found, json) = verdict(4, "", "").await;
    assert_eq!(found, Verdict::Invalid, "{}", json["gate"]);
    let note = json["gate"]["encoders"][0]["rules"][0]["note"].as_str().unwrap();
    assert!(note.contains("10 % of the test rows are train rows too"), "{note}");
    assert!(
        json["notes"]
            .to_string()
            .contains("4 of 40 test rows have the text of a train row"),
        "{}",
        json["notes"]
    );
    let (allowed, _) = verdict(4, "max_leak = 0.1", "").await;
    let (few, _) = verdict(2, "", "").await;
    assert_eq!([allowed, few], [Verdict::Pass; 2]);
    let declared = "max_leak = 0.35\nleak = \"the paper scores them\"\n";
    let (found, json) = verdict(12, "", declared).await;
    assert_eq!(found, Verdict::Pass, "{}", json["gate"]);
    let notes = json["notes"].to_string();
    assert!(
        notes.contains("12 of 40 test rows") && notes.contains("the paper scores them"),
        "{notes}"
    );
    let (beyond, _) = verdict(15, "", declared).await;
    assert_eq!(beyond, Verdict::Invalid);
}
