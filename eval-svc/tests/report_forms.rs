//! Forms of a report that no run made: what `report.json` promises, and what the other forms show of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod report_fixture;

use std::{path::PathBuf, sync::LazyLock};

use isomer_eval::report::{Report, files, json_schema, read};
use report_fixture::schema_check::faults;
use serde_json::Value;

/// The report, made once.
fn report() -> Report {
    static MADE: LazyLock<Report> = LazyLock::new(report_fixture::report);
    MADE.clone()
}

/// Set to write the committed files anew: `ISOMER_BLESS=1 cargo test -p isomer-eval --test report_forms`.
fn blessing() -> bool {
    std::env::var_os("ISOMER_BLESS").is_some()
}

fn committed(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let derived = json_schema();
    let path = committed("schema/report-1.json");
    if blessing() {
        std::fs::write(&path, serde_json::to_string_pretty(&derived).unwrap() + "\n").unwrap();
    }
    let published: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(published, derived, "write it anew with ISOMER_BLESS=1");
    assert_eq!(published["properties"]["schema"]["const"], "isomer.report/1");
}

#[test]
fn a_report_is_valid_and_a_broken_one_is_not() {
    let schema = json_schema();
    let valid = serde_json::to_value(report()).unwrap();
    assert_eq!(faults(&schema, &valid), Vec::<String>::new());
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut value = valid.clone();
        change(&mut value);
        faults(&schema, &value)
    };
    assert!(broken(&|v| v["schema"] = "isomer.report/9".into())[0].contains("$.schema"));
    assert!(broken(&|v| v["profile"]["n_datasets"] = "six".into())[0].contains("n_datasets"));
    assert!(broken(&|v| v["suite"]["transformations"][0]["axis"] = "sideways".into())[0].contains("axis"));
    assert!(!broken(&|v| drop(v.as_object_mut().unwrap().remove("drift"))).is_empty());
    assert!(broken(&|v| v["datasets"][0]["colour"] = "red".into())[0].contains("colour"));
}

/// The browser checks read the committed file; it is what the code makes of the same numbers.
#[test]
fn the_committed_report_is_the_one_made_here() {
    let made = serde_json::to_value(report()).unwrap();
    let path = committed("fixtures/report/report.json");
    if blessing() {
        std::fs::write(&path, serde_json::to_string(&made).unwrap() + "\n").unwrap();
    }
    let kept: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_alike(&kept, &made, "$");
}

/// Equal, numbers to 1e-9: an exponential may differ in its last bit between machines.
fn assert_alike(a: &Value, b: &Value, path: &str) {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            let (x, y) = (x.as_f64().unwrap(), y.as_f64().unwrap());
            assert!(
                (x - y).abs() <= 1e-9 * x.abs().max(1.0),
                "{path}: {x} and {y}; write it anew with ISOMER_BLESS=1"
            );
        }
        (Value::Array(x), Value::Array(y)) => {
            assert_eq!(x.len(), y.len(), "{path}");
            for (i, (x, y)) in x.iter().zip(y).enumerate() {
                assert_alike(x, y, &format!("{path}[{i}]"));
            }
        }
        (Value::Object(x), Value::Object(y)) => {
            assert_eq!(
                x.keys().collect::<Vec<_>>(),
                y.keys().collect::<Vec<_>>(),
                "{path}; ISOMER_BLESS=1"
            );
            for (key, x) in x {
                assert_alike(x, &y[key], &format!("{path}.{key}"));
            }
        }
        _ => assert_eq!(a, b, "{path}; write it anew with ISOMER_BLESS=1"),
    }
}

#[test]
fn a_report_read_back_gives_the_same_files() {
    let report = report();
    let json = serde_json::to_vec(&report).unwrap();
    let again: Report = read(&json).unwrap();
    let (first, second) = (files(&report).unwrap(), files(&again).unwrap());
    for ((name, content), (_, other)) in first.iter().zip(&second) {
        assert_eq!(
            String::from_utf8_lossy(content),
            String::from_utf8_lossy(other),
            "{name}"
        );
    }
}

#[test]
fn a_file_that_is_no_report_of_this_version_is_refused_with_its_reason() {
    let message = |json: &str| read(json.as_bytes()).unwrap_err();
    assert!(message("[1, 2]").contains("no report.json"));
    assert!(message("{\"schema\": \"isomer.report/9\"}").contains("isomer.report/9"));
    assert!(message("{\"schema\": \"isomer.report/1\"}").contains("missing field"));
}

/// Reports of the first versions lack what came later, and can still be rendered.
#[test]
fn a_report_without_the_later_fields_is_still_read() {
    let mut old = serde_json::to_value(report()).unwrap();
    for field in ["drift", "error_rates", "tables", "not_computed", "judge", "separation"] {
        old.as_object_mut().unwrap().remove(field);
    }
    old["profile"].as_object_mut().unwrap().remove("scopes");
    for example in old["examples"].as_array_mut().unwrap() {
        for field in ["drift", "drift_by_encoder", "picked"] {
            example.as_object_mut().unwrap().remove(field);
        }
    }
    let report = read(&serde_json::to_vec(&old).unwrap()).unwrap();
    assert_eq!(files(&report).unwrap().len(), 4);
}

#[test]
fn error_rates_are_shares_of_all_texts_of_a_transformation() {
    let report = report();
    // Back-translation is the second: 3 + d texts of 160 + 40 d kept, over six data sets (3 + 4 + … + 8) and three seeds.
    let rates = report.error_rates_of("backtranslation").unwrap();
    let texts: u64 = (0..6).map(|d| 160 + 40 * d).sum::<u64>() * 3;
    assert_eq!(rates.texts, texts);
    assert!((rates.unchanged - 99.0 / texts as f64).abs() < 1e-12);
    // Truncated where more than three were kept, all but three of them: 1 + 2 + 3 + 4 + 5.
    assert!((rates.checks["truncated"] - 45.0 / texts as f64).abs() < 1e-12);
    assert_eq!(report.unchanged_share("backtranslation", None), rates.unchanged);
    // The lexical axis: paraphrase keeps 0 + 1 + … + 5.
    assert!(
        (report.unchanged_share_of_axis(isomer_eval::profile::Axis::Lexical) - (99.0 + 45.0) / (2 * texts) as f64)
            .abs()
            < 1e-12
    );
}

fn cell(report: &Report, table: &str, row: &str, column: usize) -> (String, Option<f64>) {
    let table = report.tables.iter().find(|one| one.id == table).expect("the table");
    let row = table.rows.iter().find(|one| one.cells[0].text == row).expect("the row");
    (row.cells[column].text.clone(), row.cells[column].value)
}

#[test]
fn the_papers_tables_hold_the_profiles_numbers_in_the_papers_places() {
    let report = report();
    let encoder = &report.profile.encoders[0];
    // English: STSBenchmark, SICK-R, Banking77, NFCorpus, at 0, 2, 3 and 4.
    let english: Vec<usize> = vec![0, 2, 3, 4];
    let mean =
        |of: &dyn Fn(usize) -> f64, among: &[usize]| among.iter().map(|d| of(*d)).sum::<f64>() / among.len() as f64;
    let original = mean(&|d| encoder.datasets[d].original, &english);
    let total = mean(&|d| encoder.datasets[d].total.as_ref().unwrap().mean, &english);
    let (text, value) = cell(&report, "hteb-14", &encoder.encoder, 5);
    assert!((value.unwrap() - total).abs() < 1e-9);
    assert_eq!(text, format!("{total:.2} (−{:.2})", original - total));
    assert!((cell(&report, "hteb-14", &encoder.encoder, 1).1.unwrap() - original).abs() < 1e-9);
    // PTEB, table 6: paraphrases of the two English STS sets; the second encoder's columns are 3 and 4.
    let second = &report.profile.encoders[1];
    let paraphrased = |d: usize| second.datasets[d].transformations[0].moved.mean;
    assert!((cell(&report, "pteb-6", "SICK-R", 4).1.unwrap() - paraphrased(2)).abs() < 1e-9);
    assert!((cell(&report, "pteb-6", "Average", 4).1.unwrap() - (paraphrased(0) + paraphrased(2)) / 2.0).abs() < 1e-9);
    // Table 9 counts tasks once: STS (two sets), classification, retrieval.
    let by_task = ((paraphrased(0) + paraphrased(2)) / 2.0 + paraphrased(3) + paraphrased(4)) / 3.0;
    assert!((cell(&report, "pteb-9", "Average", 4).1.unwrap() - by_task).abs() < 1e-9);
    // Table 16: English and German STSBenchmark side by side.
    let german = encoder.datasets[1].total.as_ref().unwrap().mean - encoder.datasets[1].original;
    assert!((cell(&report, "hteb-16-stsbenchmark", &encoder.encoder, 6).1.unwrap() - german).abs() < 1e-9);
    // Table 14 of PTEB is baseline less encoder.
    let difference = |d: usize| encoder.datasets[d].transformations[0].moved.mean - paraphrased(d);
    let shift = (difference(0) + difference(2)) / 2.0;
    assert!((cell(&report, "pteb-14", &second.encoder, 1).1.unwrap() - shift).abs() < 1e-9);
    // Table 7 pairs data sets and runs: 2 x 3.
    assert_eq!(cell(&report, "pteb-7", &second.encoder, 4).0, "6");
}

#[test]
fn every_table_is_whole_and_what_is_left_out_is_named() {
    let report = report();
    let ids: Vec<&str> = report.tables.iter().map(|one| one.id.as_str()).collect();
    for id in [
        "pteb-6", "pteb-7", "pteb-8", "pteb-9", "pteb-10", "pteb-14", "hteb-3", "hteb-4", "hteb-5", "hteb-13",
        "hteb-14", "hteb-15", "hteb-17", "hteb-20",
    ] {
        assert!(ids.contains(&id), "{id} in {ids:?}");
    }
    for table in &report.tables {
        for row in &table.rows {
            assert_eq!(row.cells.len(), table.columns.len(), "{}", table.id);
        }
    }
    let lacks = |what: &str| report.not_computed.iter().any(|one| one.what.contains(what));
    assert!(lacks("HTEB, table 2") && !lacks("judged quality"));
    let unjudged = {
        let mut report = report.clone();
        report.judge = None;
        isomer_eval::report::complete(&mut report);
        report
    };
    let missing = unjudged
        .not_computed
        .iter()
        .find(|one| one.what.contains("judged quality"));
    assert!(
        missing.is_some_and(|one| one.why.contains("--judge SPEC")),
        "{missing:?}"
    );
    let controls = {
        let mut report = report.clone();
        report
            .suite
            .transformations
            .retain(|one| one.label == "random_keywords");
        isomer_eval::report::complete(&mut report);
        report
    };
    let why = |what: &str| {
        controls
            .not_computed
            .iter()
            .find(|one| one.what.contains(what))
            .map(|one| one.why.as_str())
    };
    assert!(why("PTEB").unwrap().contains("paraphrase"));
    assert!(why("HTEB, tables 14 to 21").unwrap().contains("controls"));
}

#[test]
fn the_page_has_every_chart_and_filters_without_a_script() {
    let files = files(&report()).unwrap();
    let page = String::from_utf8(files.iter().find(|(name, _)| *name == "report.html").unwrap().1.clone()).unwrap();
    for id in [
        "dumbbell-title",
        "heat-title",
        "forest-0-title",
        "forest-1-title",
        "flow-title",
        "judged-0-title",
    ] {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(page.contains(".examples:has(#by-transformation option[value=\"t0\"]:checked)"));
    assert_eq!(page.matches("<tr class=\"x ").count(), report().examples.len());
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;from my bag&gt;"));
}

#[test]
fn the_text_form_has_the_tables_and_what_is_missing() {
    let files = files(&report()).unwrap();
    let page = String::from_utf8(files.iter().find(|(name, _)| *name == "report.md").unwrap().1.clone()).unwrap();
    for heading in [
        "### As PTEB, table 6",
        "### As HTEB, table 14",
        "## Rankings: All data sets (n = 6)",
        "## Drift",
        "## Judge",
        "### Drift against ratings",
        "## Not computed",
    ] {
        assert!(page.contains(heading), "{heading}");
    }
    for table in page.split("\n\n").filter(|block| block.starts_with("| ")) {
        let borders = |line: &str| line.replace("\\|", "").matches('|').count();
        let first = borders(table.lines().next().unwrap());
        assert!(table.lines().all(|line| borders(line) == first), "{table}");
    }
}

#[test]
fn a_report_without_a_judge_is_valid_as_those_before_there_were_any() {
    let mut report = report();
    (report.judge, report.counters.judge) = (None, None);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json.get("judge"), None);
    assert_eq!(faults(&json_schema(), &json), Vec::<String>::new());
    let files = files(&report).unwrap();
    for (name, content) in &files[1..3] {
        let page = String::from_utf8(content.clone()).unwrap();
        assert!(!page.contains("Mean rating") && !page.contains("Judge"), "{name}");
    }
}

#[test]
fn ratings_stand_beside_error_rates_and_drift() {
    let report = report();
    let judge = report.judge.as_ref().unwrap();
    let rating = report
        .rating_of(isomer_eval::judging::Scale::Quality, "summarisation")
        .unwrap();
    let told = format!("{:.2} ± 0.70", rating.mean.unwrap());
    let files = files(&report).unwrap();
    for (name, content) in &files[1..3] {
        let page = String::from_utf8(content.clone()).unwrap();
        // Of the ratings themselves, and at the foot of the drift; on the page at the error rates too.
        let times = if *name == "report.html" { 3 } else { 2 };
        assert_eq!(page.matches(&told).count(), times, "{told} in {name}");
        assert!(page.contains("no correlation is defined"), "{name}");
        assert!(page.contains(&judge.sentence()), "{name}");
        assert!(
            page.contains("910") && page.contains("3530"),
            "{name}: what the judge cost"
        );
    }
    let note = |part: &str| report.notes.iter().any(|note| note.contains(part));
    assert!(note("gave no rating on 12 of 4500 questions"), "{:?}", report.notes);
    assert!(!note("self-preference"));
    assert_eq!(
        cell(&report, "hteb-13", "Drift against a judge's ratings", 4).0,
        "300 texts at most"
    );
}
