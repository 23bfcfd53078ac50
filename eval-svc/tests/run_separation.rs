//! A run's control of sensitivity: who tells a rewrite from a change of meaning, and who only looks robust.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod run_stubs;

use std::sync::atomic::Ordering;

use isomer_proto::{
    eval::v1::{ReportFormat, Run, RunState, Separation, SuiteRef, Verdict, suite_ref},
    transform::v1::Outcome,
};
use run_stubs::{House, create, repeats, report, report_json, run_to_end, spec};
use serde_json::Value;

/// A limit on drops that every encoder keeps: only sensitivity tells the encoders apart.
const GATE: &str = "[[gate.rule]]\nmax_drop = 190\nbasis = \"point\"\n[[gate.rule]]\nmin_separation = 0.8\n";

/// Forty pairs of sentences, eighty texts, to each of which two kinds of change or more apply.
fn suite(house: &House, more: &str) -> SuiteRef {
    let folder = house.home.path().join("data");
    std::fs::create_dir_all(&folder).unwrap();
    let things = [
        "books", "boats", "lamps", "chairs", "clocks", "coats", "drums", "plates",
    ];
    let rows = (0..40).map(|i| {
        let (thing, number, label) = (things[i % 8], i + 12, i % 2);
        let (one, two) = (
            format!("The shop sold {number} old {thing} to the mayor."),
            format!("A young man has bought {number} {thing} from the shop."),
        );
        serde_json::json!({ "sentence1": one, "sentence2": two, "label": label }).to_string()
    });
    let rows: Vec<String> = rows.collect();
    std::fs::write(folder.join("sold.jsonl"), rows.join("\n")).unwrap();
    let text = format!(
        "name = \"sensitivity\"\nseeds = [1337]\ntransformations = [\"paraphrase\", \"random_keywords\"]\n{more}\n[[dataset]]\ntask = \
         \"pair-classification\"\npath = \"sold.jsonl\"\n"
    );
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: folder.display().to_string(),
        file_name: "sensitivity.toml".to_owned(),
    }
}

fn healthy() -> House {
    let house = House::new();
    *house.transform.rewriter.lock().unwrap() = Some(|_, _, text| {
        let words: Vec<&str> = text.split_whitespace().rev().collect();
        (format!("indeed {}", words.join(" ")), Outcome::Ok)
    });
    house
}

async fn ended(house: &House, encoder: &str, more: &str) -> (Run, Value) {
    let (_service, mut client) = house.open().await;
    let run = run_to_end(&mut client, spec(suite(house, more), &[encoder])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    (run, json)
}

#[tokio::test]
async fn encoders_that_see_nothing_fail_and_one_that_reads_words_passes() {
    for (encoder, verdict) in [
        ("stub-keen", Verdict::Pass),
        ("stub-blind", Verdict::Fail),
        ("stub-near", Verdict::Fail),
    ] {
        let (run, json) = ended(&healthy(), encoder, GATE).await;
        let own = &json["separation"]["encoders"][0];
        assert_eq!(run.verdict(), verdict, "{encoder}: {}", json["gate"]);
        let rules = &json["gate"]["encoders"][0]["rules"];
        assert_eq!(rules[0]["verdict"], "pass", "{encoder} holds its scores");
        assert_eq!(rules[1]["units"], own["overall"]["texts"]);
        assert_eq!(own["overall"]["texts"], 80, "{encoder}");
        let blind = verdict == Verdict::Fail;
        let share = own["overall"]["separation"].as_f64().unwrap();
        assert!(if blind { share <= 0.5 } else { share > 0.95 }, "{encoder}: {share}");
        if encoder == "stub-blind" {
            assert_eq!(own["overall"]["tied"], own["overall"]["comparisons"]);
            assert_eq!(own["overall"]["margin"], Value::Null, "one point has no parallel gap");
        }
    }
}

#[tokio::test]
async fn rows_are_told_by_kind_overlap_and_transformation_and_controls_are_no_rewrites() {
    let (_, json) = ended(&healthy(), "stub-keen", "").await;
    let separation = &json["separation"];
    assert_eq!(separation["transformations"], serde_json::json!(["paraphrase"]));
    let own = &separation["encoders"][0];
    let rows = |key: &str| own[key].as_array().unwrap().clone();
    assert_eq!(rows("transformations").len(), 1, "random_keywords is a control");
    let texts = |kind: &str| {
        let all = rows("kinds");
        let row = all.iter().find(|row| row["kind"] == kind).unwrap();
        row["texts"].as_u64().unwrap()
    };
    assert_eq!((texts("negation"), texts("number")), (80, 80));
    assert!(texts("antonym") >= 40);
    assert_eq!(texts("entity"), 0, "no text has a name");
    let comparisons = |key: &str| -> u64 { rows(key).iter().map(|row| row["comparisons"].as_u64().unwrap()).sum() };
    let all = own["overall"]["comparisons"].as_u64().unwrap();
    for key in ["kinds", "strata", "cells"] {
        assert_eq!(comparisons(key), all, "{key}");
    }
}

#[tokio::test]
async fn it_is_measured_without_any_rule_and_every_form_of_the_report_shows_it() {
    let house = healthy();
    let (_service, mut client) = house.open().await;
    let run = run_to_end(&mut client, spec(suite(&house, ""), &["stub-keen", "stub-near"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let page = |format| {
        let (mut client, id) = (client.clone(), run.id.clone());
        async move { String::from_utf8(report(&mut client, &id, format).await).unwrap() }
    };
    let html = page(ReportFormat::Html).await;
    let markdown = page(ReportFormat::Markdown).await;
    for (name, page) in [("html", &html), ("md", &markdown)] {
        assert!(page.contains("chance is 50 %"), "{name}");
        assert!(page.contains("it is blind to these changes"), "{name}");
    }
    assert!(html.contains("id=\"plane-title\""));
}

#[tokio::test]
async fn a_second_run_encodes_nothing_and_no_text_is_encoded_twice() {
    let house = healthy();
    let (_, first) = ended(&house, "stub-keen", GATE).await;
    assert_eq!(repeats(&house.encoder), Default::default());
    let encoded = house.encoder.texts.load(Ordering::SeqCst);
    let (_, second) = ended(&house, "stub-keen", GATE).await;
    assert_eq!(house.encoder.texts.load(Ordering::SeqCst), encoded);
    assert_eq!(first["separation"], second["separation"]);
}

#[tokio::test]
async fn off_encodes_no_changed_text_and_refuses_rules_about_it() {
    let house = healthy();
    let (_, json) = ended(&house, "stub-keen", "[separation]\noff = true\n").await;
    assert_eq!(json.get("separation"), None);
    // Eighty originals, eighty rewrites of each of two transformations that make the same texts.
    assert_eq!(house.encoder.texts.load(Ordering::SeqCst), 160);

    let (_service, mut client) = house.open().await;
    let mut refused = spec(suite(&house, GATE), &["stub-keen"]);
    refused.separation = Some(Separation {
        off: Some(true),
        ..Separation::default()
    });
    let fault = create(&mut client, refused).await.unwrap_err();
    assert!(fault.to_string().contains("separation, which is off"), "{fault}");
    for (rule, told) in [
        ("min_separation = 1.2", "0 to 1"),
        ("min_separation = 0.8\nof = \"negatoin\"", "did you mean `negation`"),
        ("min_separation = 0.8\nbasis = \"student\"", "leave `basis` out"),
    ] {
        let one = spec(suite(&house, &format!("[[gate.rule]]\n{rule}\n")), &["stub-keen"]);
        let fault = create(&mut client, one).await.unwrap_err();
        assert!(fault.to_string().contains(told), "{rule}: {fault}");
    }
}

#[tokio::test]
async fn a_dead_generator_leaves_nothing_to_compare_and_the_rule_is_invalid() {
    let house = House::new();
    *house.transform.rewriter.lock().unwrap() = Some(|_, _, text| (text.to_uppercase(), Outcome::Ok));
    let (run, json) = ended(&house, "stub-keen", "[[gate.rule]]\nmin_separation = 0.1\n").await;
    assert_eq!(run.verdict(), Verdict::Invalid);
    assert_eq!(json["separation"]["encoders"][0]["overall"]["texts"], 0);
}

#[tokio::test]
async fn vectors_of_length_0_are_undefined_and_never_separated() {
    // Two sentences: with a constant, no correlation exists, so that the set is one of pairs with two labels.
    let house = healthy();
    let (_service, mut client) = house.open().await;
    let run = run_to_end(&mut client, spec(suite(&house, GATE), &["stub-zero"])).await;
    if run.state() == RunState::Succeeded {
        let json = report_json(&mut client, &run.id).await;
        let row = &json["separation"]["encoders"][0]["overall"];
        assert_eq!(row["undefined"], row["comparisons"]);
        assert_eq!(row["separation"], 0.0);
        assert_eq!(run.verdict(), Verdict::Fail);
    } else {
        // The task refuses such vectors before anything is compared.
        assert!(run.error.contains("stub-zero"), "{}", run.error);
    }
}
