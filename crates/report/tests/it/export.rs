//! A report in the formats of other tools: no data is lost, and third-party text cannot break the
//! format. `tests/evidence/run` lets the other tools read them.

use isomer_datasets::catalogue;
use isomer_report::{
    Report,
    export::{bom, eval_results, model_card},
};
use serde_json::Value;

use crate::fixture::report;

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

/// The report, with its data sets described as on the hub.
fn of_the_hub() -> Report {
    let mut report = report();
    for info in &mut report.datasets {
        let entry = catalogue::find(info.name.split(" (").next().unwrap());
        info.revision = entry.and_then(|entry| entry.hub().revision);
    }
    report
}

#[test]
fn scores_for_the_hub_are_those_of_whole_data_sets_at_their_commit_and_of_texts_as_they_are() {
    let report = of_the_hub();
    let profile = &report.profile.encoders[1];
    let found = eval_results(&report, &profile.encoder, Some("https://example.com/r.html")).unwrap();
    let first = &found.entries[0];
    let entry = catalogue::find("STSBenchmark").unwrap();
    assert_eq!(
        (first.dataset.id.as_str(), first.dataset.task_id.as_str()),
        ("mteb/stsbenchmark-sts", "STSBenchmark_default_test")
    );
    assert_eq!(Some(&first.dataset.revision), entry.hub().revision.as_ref());
    let measured = &profile.datasets[0];
    assert!((first.value - measured.original).abs() < 1e-5);
    assert!(
        first
            .notes
            .contains(&format!("{:.1}, change", measured.total.as_ref().unwrap().mean)),
        "{}",
        first.notes
    );
    assert_eq!(found.entries.len() + found.left_out.len(), profile.datasets.len());
    let why = |name: &str| found.left_out.iter().find(|(one, _)| one == name).unwrap().1.as_str();
    assert!(
        why("STSBenchmark (deu)").contains("`deu` is not a subset"),
        "{}",
        why("STSBenchmark (deu)")
    );
    assert!(
        why("SICK-R").contains("a sample of 100 of 4906 rows"),
        "{}",
        why("SICK-R")
    );
    assert_eq!(eval_results(&report, "no such encoder", None), None);
}

#[test]
fn what_is_no_task_of_the_hub_has_no_score_there() {
    let reason = |change: fn(&mut Report)| {
        let mut report = of_the_hub();
        change(&mut report);
        let id = report.encoders[0].id.clone();
        let found = eval_results(&report, &id, None).unwrap();
        let name = &report.datasets[0].name;
        found
            .left_out
            .into_iter()
            .find(|(one, _)| one == name)
            .map(|(_, why)| why)
            .unwrap_or_default()
    };
    assert_eq!(reason(|_| {}), "");
    assert!(reason(|report| report.datasets[0].revision = None).contains("commit is not known"));
    assert!(reason(|report| report.datasets[0].revision = Some("0".repeat(40))).contains("and the task's is"));
    assert!(reason(|report| report.datasets[0].split = "dev".to_owned()).contains("the split is `dev`"));
    assert!(reason(|report| report.datasets[0].main_score = "other".to_owned()).contains("the score `other`"));
    assert!(reason(|report| report.suite.metrics = "paper".to_owned()).contains("not mteb's"));
    let renamed = reason(|report| {
        let old = report.datasets[0].name.clone();
        for info in &mut report.datasets {
            if info.name == old {
                info.name = "ours".to_owned();
                info.group = "ours".to_owned();
            }
        }
        for profile in &mut report.profile.encoders {
            profile.datasets[0].dataset = "ours".to_owned();
        }
    });
    assert!(renamed.contains("not a task of mteb"), "{renamed}");
}
