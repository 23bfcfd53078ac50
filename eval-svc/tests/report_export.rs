//! A report in the forms of other tools: nothing is lost on the way, and no text of others breaks
//! the form. `tests/evidence/run` has the other tools read them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod report_fixture;

use isomer_eval::report::export::{bom, model_card};
use report_fixture::report;
use serde_json::Value;

/// The front matter of a card, which is one line of JSON, and the rest.
fn parts(card: &str) -> (Value, &str) {
    let (front, rest) = card
        .strip_prefix("---\nmodel-index: ")
        .unwrap()
        .split_once("\n---\n")
        .unwrap();
    assert!(!front.contains('\n'));
    (serde_json::from_str(front).unwrap(), rest)
}

#[test]
fn each_encoder_is_in_the_bill_of_materials_with_its_numbers() {
    let report = report();
    let bom = bom(&report);
    let components = bom["components"].as_array().unwrap();
    assert_eq!(components.len(), report.encoders.len() + report.datasets.len());
    for (component, encoder) in components.iter().zip(&report.encoders) {
        assert_eq!(component["name"], encoder.id.as_str());
        assert_eq!(component["hashes"][0]["content"], encoder.weights_digest.as_str());
        let profile = report
            .profile
            .encoders
            .iter()
            .find(|one| one.encoder == encoder.id)
            .unwrap();
        let metrics = component["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
            .as_array()
            .unwrap();
        assert_eq!(metrics[0]["value"], format!("{:.4}", profile.original));
        let total = profile.total.as_ref().unwrap();
        let over = |drawn: &str| {
            let slice = format!("total; interval over {drawn}");
            let found = metrics.iter().find(|metric| metric["slice"] == slice.as_str());
            found.unwrap()["confidenceInterval"]["lowerBound"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let known = &total.intervals;
        assert_eq!(over("items"), format!("{:.4}", known.items.as_ref().unwrap().low));
        assert_eq!(
            over("data sets"),
            format!("{:.4}", known.datasets.as_ref().unwrap().low)
        );
        let gate = component["properties"].as_array().unwrap();
        assert!(gate.iter().any(|one| one["name"] == "isomer:gate"));
    }
}

#[test]
fn weights_without_a_digest_have_no_hash() {
    let mut report = report();
    report.encoders[0].weights_digest = String::new();
    let bom = bom(&report);
    assert!(bom["components"][0].get("hashes").is_none());
    assert!(bom["components"][1].get("hashes").is_some());
}

#[test]
fn a_model_card_has_every_data_set_and_texts_of_others_break_nothing() {
    let mut report = report();
    let odd = "a | b\n---\n\"c\": [x]";
    let old = report.datasets[0].name.clone();
    report.datasets[0].name = odd.to_owned();
    for profile in &mut report.profile.encoders {
        let measured = profile.datasets.iter_mut().find(|one| one.dataset == old).unwrap();
        measured.dataset = odd.to_owned();
    }
    for profile in &report.profile.encoders {
        let card = model_card(&report, &profile.encoder).unwrap();
        let (index, section) = parts(&card);
        assert_eq!(index[0]["name"], profile.encoder.as_str());
        let results = index[0]["results"].as_array().unwrap();
        assert_eq!(results.len(), report.datasets.len());
        assert_eq!(results[0]["dataset"]["name"], odd);
        for (result, measured) in results.iter().zip(&profile.datasets) {
            assert_eq!(result["metrics"][0]["value"], measured.original);
        }
        let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), report.datasets.len() + 1);
        assert!(rows[1].starts_with("| a \\| b --- \"c\": [x] |"), "{}", rows[1]);
        assert!(section.contains("\nGate ("));
    }
    assert_eq!(model_card(&report, "no such encoder"), None);
}
