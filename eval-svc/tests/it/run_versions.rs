//! Texts and ratings of several versions of a model, in a run and its report.

use isomer_proto::{
    eval::v1::{Judge, Run, RunState, suite_ref},
    transform::v1::{JudgeScale, OnFingerprintChange},
};
use serde_json::{Map, Value};

use crate::run_stubs::{DISTINCT, Harness, create, report_json, run_to_end, spec};

const ONE: &str = "seeds = [1337]\ntransformations = [\"expansion\"]";
const CHANGES: [OnFingerprintChange; 3] = [
    OnFingerprintChange::Report,
    OnFingerprintChange::Regenerate,
    OnFingerprintChange::Ignore,
];

/// A server that changed its model: texts with an even number of letters are older.
fn two_versions(text: &str) -> &'static str {
    if text.len().is_multiple_of(2) {
        "m-2024#fp_1"
    } else {
        "m-2025#fp_2"
    }
}

/// The counts of versions, and their sum.
fn counted(versions: &Value) -> (Vec<&str>, u64) {
    let versions: Option<&Map<String, Value>> = versions.as_object();
    let versions = versions.unwrap();
    let names = versions.keys().map(String::as_str).collect();
    (names, versions.values().map(|count| count.as_u64().unwrap()).sum())
}

fn caveats<'a>(report: &'a Value, name: &str) -> Vec<&'a str> {
    let notes = report["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note.as_str().unwrap());
    notes
        .filter(|note| note.contains(name) && note.contains("m-2024#fp_1") && note.contains("m-2025#fp_2"))
        .collect()
}

/// A run of a suite that sets the use of other versions, and its report.
async fn run_of(harness: &Harness, head: &str) -> (Run, Value) {
    let (_service, mut client) = harness.open().await;
    let mut asked = spec(harness.suite(head), &["stub-a"]);
    asked.judge = Some(Judge {
        generator_id: "stub:judge".to_owned(),
        scales: vec![JudgeScale::Similarity.into()],
        ..Judge::default()
    });
    let run = run_to_end(&mut client, asked).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let report = report_json(&mut client, &run.id).await;
    (run, report)
}

#[tokio::test]
async fn a_report_counts_texts_and_ratings_by_version() {
    let harness = Harness::new();
    *harness.transform.version.lock() = Some(two_versions);
    *harness.transform.judge.version.lock() = Some(two_versions);
    let (_, report) = run_of(&harness, ONE).await;
    let both = vec!["m-2024#fp_1", "m-2025#fp_2"];
    assert_eq!(counted(&report["generators"][0]["versions"]), (both.clone(), DISTINCT));
    let (names, rated) = counted(&report["judge"]["versions"]);
    assert!(names == both && rated > 0, "{}", report["judge"]["versions"]);
    assert_eq!(
        caveats(&report, "The generator stub:generator").len(),
        1,
        "{}",
        report["notes"]
    );
    assert_eq!(caveats(&report, "The judge stub:judge").len(), 1, "{}", report["notes"]);
}

#[tokio::test]
async fn one_version_and_ignored_ones_are_no_caveat() {
    for (version, setting, counts) in [
        (Some((|_| "m-2025#fp_2") as fn(&str) -> &'static str), "report", true),
        (Some(two_versions), "ignore", false),
        (None, "report", false),
    ] {
        let harness = Harness::new();
        *harness.transform.version.lock() = version;
        let (_, report) = run_of(&harness, &format!("{ONE}\non_fingerprint_change = \"{setting}\"")).await;
        let (names, _) = counted(&report["generators"][0]["versions"]);
        assert_eq!(names.len(), usize::from(counts), "{setting}: {names:?}");
        assert!(caveats(&report, "stub:").is_empty(), "{}", report["notes"]);
    }
}

#[tokio::test]
async fn a_suite_and_a_run_say_how_other_versions_are_used() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    for of_suite in CHANGES {
        for of_run in CHANGES.into_iter().map(Some).chain([None]) {
            let mut suite = harness.suite(ONE);
            if let Some(suite_ref::Source::Toml(text)) = &mut suite.source {
                let name = isomer_proto::ProtoEnum::name(of_suite);
                *text = text.replacen("seeds", &format!("on_fingerprint_change = \"{name}\"\nseeds"), 1);
            }
            let mut asked = spec(suite, &["stub-a"]);
            asked.on_fingerprint_change = of_run.unwrap_or_default().into();
            harness.transform.specs.lock().clear();
            let run = run_to_end(&mut client, asked.clone()).await;
            assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
            assert_eq!(run.spec.unwrap().on_fingerprint_change, asked.on_fingerprint_change);
            let expected = of_run.unwrap_or(of_suite);
            let seen = harness.transform.specs.lock();
            assert!(
                seen.iter().all(|spec| spec.on_fingerprint_change() == expected),
                "{seen:?}"
            );
        }
    }
    let mut asked = spec(harness.suite(ONE), &["stub-a"]);
    asked.on_fingerprint_change = 9;
    let fault = create(&mut client, asked).await.unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("spec.on_fingerprint_change"));
}
