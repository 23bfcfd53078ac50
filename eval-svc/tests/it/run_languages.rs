//! The languages of a run: those of each side of a pair, of translations, and unknown ones.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use isomer_proto::eval::v1::{ReportFormat, RunState, SuiteRef, suite_ref};
use isomer_service_kit::Fault;
use serde_json::Value;

use crate::run_stubs::{Harness, STS, TARGETS, create, ended, report, report_json, run_to_end, spec, watch};

/// A suite over one folder of pairs with a language in its file name, and one without.
fn suite(harness: &Harness, head: &str, tag: &str, more: &str) -> SuiteRef {
    let folder = harness.home.path().join("data/pairs");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("test.{tag}.jsonl")), STS).unwrap();
    // In another order: a data set may not be in a suite twice.
    let reversed: Vec<&str> = STS.lines().rev().collect();
    std::fs::write(harness.home.path().join("data/plain.jsonl"), reversed.join("\n")).unwrap();
    let text = format!(
        "name = \"languages\"\n{head}\n[[dataset]]\ntask = \"sts\"\npath = \"pairs\"\nlanguage = \"{tag}\"\n{more}\n\
         [[dataset]]\ntask = \"sts\"\npath = \"plain.jsonl\"\nlanguages = [\"en\"]\n"
    );
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: harness.home.path().join("data").display().to_string(),
        file_name: "languages.toml".to_owned(),
    }
}

const PARAPHRASE: &str = "seeds = [1337]\ntransformations = [\"paraphrase\"]";

fn languages_of(harness: &Harness, text: &str) -> BTreeSet<String> {
    let asked = harness.transform.languages.lock();
    let own = asked.iter().filter(|(asked, _)| asked == text);
    own.map(|(_, language)| language.clone().unwrap_or_default()).collect()
}

#[tokio::test]
async fn each_side_of_a_pair_is_asked_for_in_its_own_language() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec(suite(&harness, PARAPHRASE, "en-ar", ""), &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    assert_eq!(
        languages_of(&harness, "A man plays a guitar on stage."),
        BTreeSet::from(["en".to_owned()])
    );
    // The second side is Arabic in the one data set and English in the other.
    assert_eq!(
        languages_of(&harness, "A guitarist performs for a crowd."),
        BTreeSet::from(["ar".to_owned(), "en".to_owned()])
    );
    let json = report_json(&mut client, &run.id).await;
    assert_eq!(json["datasets"][0]["languages"], serde_json::json!(["en", "ar"]));
    let scopes = json["profile"]["scopes"].as_array().unwrap();
    let multilingual = scopes.iter().find(|scope| scope["scope"] == "multilingual").unwrap();
    assert_eq!(multilingual["datasets"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_the_suite_says_of_the_sides_comes_before_the_name_of_the_file() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let suite = suite(&harness, PARAPHRASE, "pt-br", "languages = [\"pt-BR\"]");
    let run = run_to_end(&mut client, spec(suite, &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    assert_eq!(
        languages_of(&harness, "A guitarist performs for a crowd."),
        BTreeSet::from(["en".to_owned(), "pt-BR".to_owned()])
    );
}

/// The fault that ends a run before anything is generated.
async fn refused(harness: &Harness, suite: SuiteRef) -> String {
    let (_service, mut client) = harness.open().await;
    let error = match create(&mut client, spec(suite, &["stub-a"])).await {
        Err(Fault { message, hint, .. }) => format!("{message}; {}", hint.unwrap_or_default()),
        Ok(run) => {
            let run = ended(&watch(&mut client, &run.id, 0).await);
            assert_eq!(run.state(), RunState::Failed);
            run.error
        }
    };
    assert_eq!(
        harness.transform.asked.load(Ordering::SeqCst),
        0,
        "nothing is generated"
    );
    assert_eq!(harness.encoder.texts().len(), 0, "nothing is encoded");
    error
}

#[tokio::test]
async fn a_language_that_nobody_knows_is_refused_before_anything_is_generated() {
    let harness = Harness::new();
    let error = refused(&harness, suite(&harness, PARAPHRASE, "en-xx", "")).await;
    for part in ["paraphrase", "`xx`", "pairs"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
}

#[tokio::test]
async fn a_translation_into_the_language_of_the_texts_is_refused_before_anything_is_generated() {
    let harness = Harness::new();
    let head = "seeds = [1]\ntransformations = [{ name = \"translation\", target_language = \"fr\" }]";
    let error = refused(&harness, suite(&harness, head, "fr", "")).await;
    for part in ["translation(fr)", "`fr`", "pairs"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
}

fn scores(json: &Value, transformation: &str, seed: u64) -> Vec<f64> {
    let rows = json["scores"].as_array().unwrap().iter();
    let own = rows.filter(|row| row["transformation"] == transformation && row["seed"] == seed);
    own.map(|row| row["main_score"].as_f64().unwrap() * 100.0).collect()
}

#[tokio::test]
async fn the_seeds_of_a_run_draw_each_target_once_and_the_report_says_which_and_scores_each() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let head = "seeds = [7, 5, 6]\ntransformations = [\"translation\"]";
    let run = run_to_end(&mut client, spec(suite(&harness, head, "de", ""), &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    let draws = json["languages"]["draws"].as_array().unwrap();
    assert_eq!(draws.len(), 6, "3 seeds x 2 data sets");
    for (seed, target) in [7, 5, 6].into_iter().zip(TARGETS) {
        let own: Vec<&Value> = draws.iter().filter(|draw| draw["seed"] == seed).collect();
        assert_eq!(own.len(), 2);
        assert!(
            own.iter().all(|draw| draw["target"] == target && draw["texts"] == 10),
            "{own:?}"
        );
        let sources: BTreeSet<&str> = own.iter().map(|draw| draw["source"].as_str().unwrap()).collect();
        assert_eq!(sources, BTreeSet::from(["de", "en"]));
    }
    let targets = json["languages"]["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 3);
    for (seed, target) in [7, 5, 6].into_iter().zip(TARGETS) {
        let row = targets.iter().find(|row| row["target"] == target).unwrap();
        let own = scores(&json, "translation", seed);
        let mean = own.iter().sum::<f64>() / own.len() as f64;
        assert_eq!((row["datasets"].as_u64(), row["cells"].as_u64()), (Some(2), Some(2)));
        assert!((row["translated"].as_f64().unwrap() - mean).abs() < 1e-9, "{row}");
        let delta = row["translated"].as_f64().unwrap() - row["original"].as_f64().unwrap();
        assert!((row["delta"].as_f64().unwrap() - delta).abs() < 1e-9);
    }
    for format in [ReportFormat::Markdown, ReportFormat::Html] {
        let page = String::from_utf8(report(&mut client, &run.id, format).await).unwrap();
        assert!(
            page.contains("by target language") && page.contains("the languages drawn"),
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn a_pair_whose_sides_go_into_two_languages_is_a_row_of_both() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let head = "seeds = [1]\ntransformations = [\"translation\"]";
    let run = run_to_end(&mut client, spec(suite(&harness, head, "en-tr", ""), &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    let targets: Vec<&str> = json["languages"]["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["target"].as_str().unwrap())
        .collect();
    // English goes into the first target, Turkish, and Turkish into the next, Spanish.
    assert_eq!(targets, ["es+tr", "tr"]);
}

#[tokio::test]
async fn all_targets_are_transformations_of_their_own() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let head = "seeds = [1, 2]\ntransformations = [{ name = \"translation\", all_targets = true }]";
    let run = run_to_end(&mut client, spec(suite(&harness, head, "de", ""), &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    let labels: Vec<&str> = json["suite"]["transformations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["translation(tr)", "translation(es)", "translation(fr)"]);
    for (label, target) in labels.iter().zip(TARGETS) {
        let draws = json["languages"]["draws"].as_array().unwrap();
        let own = draws.iter().filter(|draw| draw["transformation"] == *label);
        assert!(own.clone().count() == 4 && own.clone().all(|draw| draw["target"] == target));
        assert_eq!(scores(&json, label, 2).len(), 2);
    }
}
