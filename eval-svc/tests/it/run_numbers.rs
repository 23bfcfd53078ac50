//! One quantity has one number in the rule, in the profile and in the intervals.

use isomer_proto::eval::v1::{RunState, SuiteRef, suite_ref};
use serde_json::Value;

use crate::run_stubs::{Harness, many, report_json, run_to_end, spec};

/// Six data sets, of which the last two are one group, so that the mean over data sets differs from
/// the mean over groups.
fn grouped(harness: &Harness, gate: &str) -> SuiteRef {
    let mut suite = many::suite(harness, 6, gate);
    let Some(suite_ref::Source::Toml(text)) = &mut suite.source else {
        panic!("a suite in TOML");
    };
    *text = text.replace("path = \"set4.jsonl\"\n", "path = \"set4.jsonl\"\ngroup = \"pair\"\n");
    *text = text.replace("path = \"set5.jsonl\"\n", "path = \"set5.jsonl\"\ngroup = \"pair\"\n");
    suite
}

async fn ended(harness: &Harness, suite: SuiteRef) -> Value {
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec(suite, &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    report_json(&mut client, &run.id).await
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

#[tokio::test]
async fn a_rule_on_the_default_basis_has_the_number_of_the_tile() {
    for unit in ["item", "group"] {
        let harness = Harness::new();
        let rule = |limit: &str, of: &str| {
            // Scores are compared as points by default, which have no unit.
            let unit = if limit.starts_with("min_score") {
                String::new()
            } else {
                format!("unit = \"{unit}\"\n")
            };
            format!("[[gate.rule]]\n{limit}\nof = \"{of}\"\n{unit}")
        };
        let gate: String = [
            rule("max_drop = 190", "total"),
            rule("max_drop = 190", "lexical"),
            rule("max_drop = 190", "summarisation"),
            rule("min_score = -99", "total"),
            rule("min_score = -99", "original"),
        ]
        .concat();
        let json = ended(&harness, grouped(&harness, &gate)).await;
        assert_eq!(json["profile"]["n_groups"], 5, "{unit}");
        let encoder = &json["profile"]["encoders"][0];
        let find = |list: &str, key: &str, name: &str| -> Value {
            let mut all = encoder[list].as_array().unwrap().iter();
            all.find(|one| one[key] == name).unwrap().clone()
        };
        let expected = [
            -number(&encoder["total"]["delta"]),
            -number(&find("axes", "axis", "lexical")["delta"]),
            -number(&find("transformations", "transformation", "summarisation")["delta"]),
            number(&encoder["total"]["mean"]),
            number(&encoder["original"]),
        ];
        let rules = json["gate"]["encoders"][0]["rules"].as_array().unwrap();
        for (r, (said, expected)) in rules.iter().zip(expected).enumerate() {
            let estimate = number(&said["estimate"]);
            assert!(
                (estimate - expected).abs() < 1e-9,
                "{unit}, rule {r}: {estimate} {expected}: {said}"
            );
        }
    }
}

#[tokio::test]
async fn original_scores_have_an_interval_over_items_and_axes_have_theirs() {
    let harness = Harness::new();
    let json = ended(&harness, grouped(&harness, "")).await;
    let encoder = &json["profile"]["encoders"][0];
    for dataset in encoder["datasets"].as_array().unwrap() {
        let (original, found) = (number(&dataset["original"]), &dataset["original_interval"]);
        let (low, high) = (number(&found["low"]), number(&found["high"]));
        assert!(low <= original && original <= high && low < high, "{dataset}");
        assert!(
            (-100.0..=100.0).contains(&low) && (-100.0..=100.0).contains(&high),
            "{found}"
        );
    }
    for axis in encoder["axes"].as_array().unwrap() {
        for over in ["items", "datasets"] {
            let found = &axis["intervals"][over];
            let delta = number(&axis["delta"]);
            assert!(
                number(&found["low"]) <= delta && delta <= number(&found["high"]),
                "{over}: {axis}"
            );
        }
    }
}

#[tokio::test]
async fn drift_in_gaps_is_drift_over_the_gap_or_says_why_it_is_not() {
    let harness = Harness::new();
    let json = ended(&harness, grouped(&harness, "")).await;
    let rows = json["drift"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    assert!(rows.iter().any(|row| row["parallel_gap"].is_number()), "{rows:?}");
    for row in rows {
        match row["parallel_gap"].as_f64() {
            Some(gap) => {
                assert!(gap > 0.0 && row["gap_note"].is_null());
                assert!(
                    (number(&row["in_gaps"]) - number(&row["mean"]) / gap).abs() < 1e-12,
                    "{row}"
                );
            }
            None => assert!(row["in_gaps"].is_null() && row["gap_note"].is_string(), "{row}"),
        }
    }
    // Without separation the gap is not measured, and every row states this.
    let harness = Harness::new();
    let json = ended(&harness, grouped(&harness, "[separation]\noff = true\n")).await;
    let rows = json["drift"].as_array().unwrap();
    let off = |row: &Value| {
        row["gap_note"]
            .as_str()
            .is_some_and(|note| note.contains("leaves separation out"))
    };
    assert!(rows.iter().all(off), "{rows:?}");
    let missing = json["not_computed"].as_array().unwrap();
    assert_eq!(
        missing
            .iter()
            .filter(|one| one["what"] == "Drift in parallel gaps")
            .count(),
        1
    );
}
