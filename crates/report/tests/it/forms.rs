//! Formats of a synthetic report: the promises of `report.json`, and the content of the other
//! formats.

use std::{path::PathBuf, sync::LazyLock};

use isomer_report::{
    CHARTS, Report, files, json_schema,
    profile::{DoseCurve, DosePoint, HalfDose},
    read,
    terms::RuleKind,
};
use isomer_scoring::evidence::interval::DeltaInterval;
use serde_json::Value;

use crate::{fixture, schema_check::faults};

/// The report, made once.
fn report() -> Report {
    static MADE: LazyLock<Report> = LazyLock::new(fixture::report);
    MADE.clone()
}

/// Whether to write the committed files again:
/// `ISOMER_BLESS=1 cargo test -p isomer-report --test it forms::`.
fn blessing() -> bool {
    std::env::var_os("ISOMER_BLESS").is_some()
}

fn committed(path: &str) -> PathBuf {
    PathBuf::from(".").join("../../eval-svc").join(path)
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
fn the_schema_lists_at_most_ten_fields_that_vary_and_reports_have_them() {
    let schema = json_schema();
    let listed = ["x-varies", "x-varies-after-a-fault"].map(|list| schema[list].as_array().unwrap());
    let paths: Vec<&str> = listed
        .into_iter()
        .flatten()
        .map(|path| path.as_str().unwrap())
        .collect();
    assert!(!paths.is_empty() && paths.len() <= 10, "{paths:?}");
    let report = serde_json::to_value(report()).unwrap();
    for path in paths {
        let pointer = format!("/{}", path.replace('*', "0").replace('.', "/"));
        assert!(report.pointer(&pointer).is_some(), "the report has no {path}");
    }
}

#[test]
fn the_schema_names_every_kind_of_rule_as_reports_spell_it() {
    let schema = json_schema();
    let shown = schema["$defs"]["GateRule"]["properties"]["kind"]["description"]
        .as_str()
        .unwrap();
    for kind in RuleKind::ALL {
        assert!(shown.contains(&format!("`{}`", kind.name())), "{shown}");
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        assert_eq!(RuleKind::named(kind.name()), Some(kind));
    }
    assert_eq!(shown.matches('`').count(), 2 * RuleKind::ALL.len());
    assert_eq!(RuleKind::named("max_dorp"), None);
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

/// The browser checks read the committed file, which must equal the code's output for the same
/// numbers.
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
    assert!(message("[1, 2]").contains("not a report.json"));
    assert!(message("{\"schema\": \"isomer.report/9\"}").contains("isomer.report/9"));
    assert!(message("{\"schema\": \"isomer.report/1\"}").contains("missing field"));
}

/// Reports of the first versions lack later fields, and can still be rendered.
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
    // Back-translation is the second: 3 + d texts of 160 + 40 d kept, over six data sets (3 + 4 +
    // … + 8) and three seeds.
    let rates = report.error_rates_of("backtranslation").unwrap();
    let texts: u64 = (0..6).map(|d| 160 + 40 * d).sum::<u64>() * 3;
    assert_eq!(rates.texts, texts);
    assert!((rates.unchanged - 99.0 / texts as f64).abs() < 1e-12);
    // Truncated if more than three were kept, all but three of them: 1 + 2 + 3 + 4 + 5.
    assert!((rates.checks["truncated"] - 45.0 / texts as f64).abs() < 1e-12);
    assert_eq!(report.unchanged_share("backtranslation", None), rates.unchanged);
    // The lexical axis: paraphrase keeps 0 + 1 + … + 5.
    assert!(
        (report.unchanged_share_of_axis(isomer_report::profile::Axis::Lexical) - (99.0 + 45.0) / (2 * texts) as f64)
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
    // PTEB, table 6: paraphrases of the two English STS sets; the second encoder's columns are 3
    // and 4.
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
    // Table 14 of PTEB is baseline minus encoder.
    let difference = |d: usize| encoder.datasets[d].transformations[0].moved.mean - paraphrased(d);
    let shift = (difference(0) + difference(2)) / 2.0;
    assert!((cell(&report, "pteb-14", &second.encoder, 1).1.unwrap() - shift).abs() < 1e-9);
    // Table 7 pairs data sets and runs: 2 x 3.
    assert_eq!(cell(&report, "pteb-7", &second.encoder, 4).0, "6");
    // HTEB's table 5: 4 + d texts of 160 + 40 d fail at first, and 3 + d at the end; the paper's
    // rates come first.
    let texts: f64 = (0..6).map(|d| 160.0 + 40.0 * f64::from(d)).sum();
    let errors = report.tables.iter().find(|one| one.id == "hteb-5").unwrap();
    let column = |group: &str| {
        errors
            .columns
            .iter()
            .position(|one| one.group == group && one.name == "Total")
            .unwrap()
    };
    let first = cell(&report, "hteb-5", "backtranslation", column("First attempt"))
        .1
        .unwrap();
    let residual = cell(&report, "hteb-5", "backtranslation", column("Residual, after retries"))
        .1
        .unwrap();
    assert!((first - (39.0 + 33.0) / texts).abs() < 1e-9, "{first}");
    assert!((residual - 33.0 / texts).abs() < 1e-9, "{residual}");
    assert!(column("First attempt") < column("Residual, after retries"));
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
        isomer_report::complete(&mut report);
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
        isomer_report::complete(&mut report);
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

fn keyboard_noise() -> DoseCurve {
    let point = |dose, drop| DosePoint {
        dose,
        drop,
        fitted: drop,
    };
    DoseCurve {
        channel: "keyboard".to_owned(),
        points: vec![point(0.01, 1.0), point(0.1, 6.25), point(0.4, 20.0)],
        half: Some(HalfDose {
            dose: 0.2,
            low: Some(0.15),
            high: None,
        }),
        no_half: None,
    }
}

#[test]
fn noise_has_a_table_with_a_column_for_each_dose_in_every_form() {
    let mut report = report();
    report.profile.encoders[0].doses = vec![keyboard_noise()];
    let files = files(&report).unwrap();
    let named = |wanted: &str| {
        let (_, bytes) = files.iter().find(|(name, _)| *name == wanted).unwrap();
        String::from_utf8(bytes.clone()).unwrap()
    };
    let half = "20.0 % [15.0 %, above the highest dose]";
    let page = named("report.html");
    assert!(page.contains("<td class=\"n\">6.25</td>") && page.contains(half));
    let text = named("report.md");
    let row = "| all-MiniLM-L6-v2 | keyboard | 1.00 | 6.25 | 20.00 | 20.0 % \\[15.0 %, above the highest dose\\] |";
    assert!(text.contains(row), "{text}");
    let terminal = isomer_report::terminal::render(&report);
    assert!(
        terminal.contains("40 %") && terminal.contains("20.0 % [15.0 %,"),
        "{terminal}"
    );
}

#[test]
fn the_page_has_every_chart_and_filters_without_a_script() {
    let mut report = report();
    report.profile.encoders[0].doses = vec![keyboard_noise()];
    let files = files(&report).unwrap();
    let page = String::from_utf8(files.iter().find(|(name, _)| *name == "report.html").unwrap().1.clone()).unwrap();
    let ids = CHARTS.iter().map(|chart| chart.id).chain(["strip"]);
    for id in ids {
        assert!(page.contains(&format!("id=\"{id}-")), "{id}");
    }
    // A class may only name a group of marks, but then it stands beside one with a style.
    let style = std::fs::read_to_string("src/page/style.css").unwrap();
    let drawings = page
        .split("<svg")
        .skip(1)
        .map(|rest| rest.split("</svg>").next().unwrap());
    let classes = drawings.flat_map(|drawing| drawing.split("class=\"").skip(1));
    for classes in classes.map(|rest| rest.split('"').next().unwrap()) {
        let mut names = classes.split(' ');
        assert!(
            names.any(|name| style.contains(&format!(".{name}"))),
            "style.css has none of `{classes}`"
        );
    }
    assert!(page.contains("#examples:has(#by-transformation option[value=\"t0\"]:checked)"));
    assert_eq!(page.matches("<tr class=\"x ").count(), report.examples.len());
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
        .rating_of(isomer_report::terms::Scale::Similarity, "summarisation")
        .unwrap();
    let shown = format!("{:.2} ± 0.70", rating.mean.unwrap());
    let files = files(&report).unwrap();
    for (name, content) in &files[1..3] {
        let page = String::from_utf8(content.clone()).unwrap();
        // With the ratings themselves, and below the drift; on the page also with the error rates.
        let times = if *name == "report.html" { 3 } else { 2 };
        assert_eq!(page.matches(&shown).count(), times, "{shown} in {name}");
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

fn form(report: &Report, name: &str) -> String {
    let files = files(report).unwrap();
    String::from_utf8(files.into_iter().find(|(one, _)| *one == name).unwrap().1).unwrap()
}

/// A reader takes a plus-minus for an interval: a spread over seeds is therefore labelled as one.
#[test]
fn axes_have_intervals_in_both_forms_and_no_spread_over_seeds_is_a_plus_minus() {
    let report = report();
    let encoder = &report.profile.encoders[0];
    let axis = &encoder.axes[0].moved;
    let end = |value: f64| format!("{}{value:.1}", if value > 0.0 { "+" } else { "" }).replace('-', "−");
    let ends = |found: &DeltaInterval| format!("[{}, {}]", end(found.low), end(found.high));
    let items = ends(axis.intervals.items.as_ref().unwrap());
    let datasets = ends(axis.intervals.datasets.as_ref().unwrap());
    for name in ["report.html", "report.md"] {
        let page = form(&report, name);
        assert!(page.contains(&items), "{name}: {items}");
        assert!(page.contains(&datasets), "{name}: {datasets}");
        assert!(page.contains("SD over seeds"), "{name}");
        // Except in the papers' tables and for ratings (over texts), no number follows a
        // plus-minus.
        let own = page
            .split(if name == "report.md" {
                "## Judge"
            } else {
                "id=\"judge-title\""
            })
            .next()
            .unwrap();
        let numbers = own.match_indices('±').filter(|(at, _)| {
            let after = own[at + '±'.len_utf8()..].trim_start();
            after.starts_with(|c: char| c.is_ascii_digit())
        });
        let ratings = own.matches("± 0.70").count();
        assert_eq!(numbers.count(), ratings, "{name}");
    }
    let page = form(&report, "report.html");
    let card = cards(&page)
        .into_iter()
        .find(|card| encoder_of(&report, card) == Some(&encoder.encoder))
        .unwrap();
    let total = encoder.total.as_ref().unwrap();
    assert!(card.contains(&ends(total.intervals.items.as_ref().unwrap())), "{card}");
}

#[test]
fn every_axis_is_named_as_rules_name_it() {
    use isomer_report::profile::Axis;
    let report = report();
    for name in ["report.html", "report.md"] {
        let page = form(&report, name);
        for axis in Axis::SCORED {
            let title = axis.title().to_lowercase();
            assert!(title.contains(axis.name()), "{title}");
            let shown = report.profile.axes.contains(&axis);
            assert!(!shown || page.contains(axis.title()), "{name}: {title}");
        }
        // Above the columns of the chart of ranks the name takes two lines.
        let flow = page
            .find("aria-labelledby=\"flow-title")
            .map_or("", |at| page[at..].split("</svg>").next().unwrap());
        let page = page.replace(flow, "");
        let bare = page.matches("Controls").count();
        assert_eq!(bare, page.matches("Controls (augmentation)").count(), "{name}");
    }
}

#[test]
fn drift_stands_in_parallel_gaps_beside_the_plain_one_and_says_where_it_cannot() {
    let report = report();
    let rows = |encoder: usize, label: &str| {
        let name = &report.profile.encoders[encoder].encoder;
        let own = report
            .drift
            .iter()
            .filter(|row| row.encoder == *name && row.transformation == label);
        own.collect::<Vec<_>>()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    for (encoder, known) in [(0, 6), (1, 5)] {
        let scaled: Vec<f64> = rows(encoder, "paraphrase")
            .iter()
            .filter_map(|row| row.in_gaps)
            .collect();
        assert_eq!(scaled.len(), known);
        let shown = format!("{:.2} gaps", mean(&scaled));
        let count = if known == 6 { ")" } else { ", 5 of 6 data sets)" };
        assert!(
            form(&report, "report.md").contains(&format!("({shown}{count}")),
            "{shown}"
        );
        let count = if known == 6 {
            "</span>"
        } else {
            " (5 of 6 data sets)</span>"
        };
        assert!(
            form(&report, "report.html").contains(&format!("{shown}{count}")),
            "{shown}"
        );
    }
    let missing: Vec<_> = report
        .not_computed
        .iter()
        .filter(|one| one.what.contains("parallel gaps"))
        .collect();
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!(
        missing[0].what,
        "Drift in parallel gaps, paraphrase-MiniLM-L3-v2 on NFCorpus"
    );
}

#[test]
fn a_sample_says_so_with_its_sampling_error_and_scopes_hold_known_languages_only() {
    let mut report = report();
    for name in ["report.html", "report.md"] {
        let page = form(&report, name);
        assert!(page.contains("sample of 100 of 4,906 rows"), "{name}");
        let found = report.profile.encoders[0].datasets[2]
            .original_interval
            .as_ref()
            .unwrap();
        assert!(
            page.contains(&format!("[{:.1}, {:.1}]", found.low, found.high)),
            "{name}"
        );
    }
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.starts_with("1 of 6 data sets is a sample"))
    );
    // A data set of unknown language is in no table of English data.
    report.datasets[3].language = None;
    report.datasets[3].languages.clear();
    isomer_report::complete(&mut report);
    for table in report
        .tables
        .iter()
        .filter(|one| ["hteb-17", "hteb-20", "pteb-9", "pteb-10"].contains(&one.id.as_str()))
    {
        let named = table
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .any(|cell| cell.text.contains("Banking77"));
        assert!(!named, "{}", table.id);
    }
    let missing = report
        .not_computed
        .iter()
        .find(|one| one.what.contains("unknown language"))
        .unwrap();
    assert!(missing.why.contains("Banking77Classification"), "{}", missing.why);
}

#[test]
fn a_rule_whose_estimate_is_no_mean_says_so_and_shows_the_mean_of_the_profile() {
    let report = report();
    let gate = report.gate.as_ref().unwrap();
    let (pseudo, mean) = (&gate.rules[0], &gate.rules[1]);
    assert_eq!((pseudo.estimator(), mean.estimator()), ("pseudo-median", "mean"));
    for (encoder, said) in report.profile.encoders.iter().zip(&gate.encoders) {
        let beside = report
            .mean_beside(gate, pseudo, &said.rules[0], &encoder.encoder)
            .unwrap();
        let tile = -encoder.total.as_ref().unwrap().delta;
        assert!((beside - tile).abs() < 1e-9, "{beside} {tile}");
        assert_eq!(report.mean_beside(gate, mean, &said.rules[1], &encoder.encoder), None);
        let shown = format!("(pseudo-median; mean {beside:.2})");
        assert!(form(&report, "report.html").contains(&shown), "{shown}");
        assert!(form(&report, "report.md").contains(&format!(
            "| pseudo-median | {:.2} | {beside:.2} |",
            said.rules[0].estimate.unwrap()
        )));
    }
    // For a round other than the last, the profile contains other data sets.
    let mut earlier = gate.clone();
    earlier.sequential = Some(isomer_report::SequentialReport {
        spending: "pocock".to_owned(),
        rounds: Vec::new(),
        taken: 2,
        texts_planned: 1,
        texts_asked: 1,
        scores_planned: 1,
        scores_made: 1,
    });
    let said = &gate.encoders[0];
    assert_eq!(
        report.mean_beside(&earlier, pseudo, &said.rules[0], &said.encoder),
        None
    );
}

#[test]
fn the_mean_beside_an_estimate_counts_groups_and_knows_every_kind_of_rule() {
    let mut report = report();
    // The two STSBenchmarks are one group: their mean counts once.
    report.datasets[1].group = "STSBenchmark".to_owned();
    let gate = report.gate.clone().unwrap();
    let encoder = &report.profile.encoders[2];
    let other = &report.profile.encoders[0];
    let now = |own: &isomer_report::profile::EncoderProfile, d: usize| own.datasets[d].axes[0].moved.mean;
    let original = |d: usize| encoder.datasets[d].original;
    let expected = |of: &dyn Fn(usize) -> f64| (f64::midpoint(of(0), of(1)) + of(2)) / 2.0;
    let cases: [(RuleKind, f64); 4] = [
        (RuleKind::MaxDrop, expected(&|d| original(d) - now(encoder, d))),
        (
            RuleKind::MaxDropPercent,
            expected(&|d| (original(d) - now(encoder, d)) / original(d) * 100.0),
        ),
        (RuleKind::MinScore, expected(&|d| now(encoder, d))),
        (RuleKind::Margin, expected(&|d| now(encoder, d) - now(other, d))),
    ];
    for (kind, expected) in cases {
        let mut gate = gate.clone();
        gate.baseline = Some(other.encoder.clone());
        let rule = &mut gate.rules[0];
        rule.kind = kind;
        rule.of = "lexical".to_owned();
        rule.datasets.truncate(3);
        let found = report.mean_beside(&gate, &gate.rules[0], &gate.encoders[2].rules[0], &encoder.encoder);
        assert!(
            (found.unwrap() - expected).abs() < 1e-9,
            "{kind:?}: {found:?} {expected}"
        );
    }
}

#[test]
fn the_verdict_comes_first_and_the_judges_acceptance_stands_in_the_overview() {
    let report = report();
    let page = form(&report, "report.html");
    let place = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
    let parts = [
        "class=\"verdict fail\"",
        "id=\"encoders\"",
        "id=\"gate-title\"",
        "id=\"texts\"",
        "id=\"todo\"",
        "class=\"contents\"",
        "id=\"manifest\"",
    ];
    assert!(parts.is_sorted_by_key(|part| place(part)));
    let text = form(&report, "report.md");
    assert!(text.find("## Verdict: fail").unwrap() < text.find("## Profile").unwrap());
    // 5 transformations, 148 − 3 t of 150 each, six times; 12 of the fourth have no rating.
    let (accepted, rated) = report.judge.as_ref().unwrap().accepted().unwrap();
    assert_eq!((accepted, rated), (6 * (5 * 148 - 30), 5 * 900 - 12));
    let shown = format!("({accepted} of {rated})");
    assert!(
        report.headline.iter().any(|one| one.contains(&shown)),
        "{:?}",
        report.headline
    );
    assert!(page.contains("Rewrites that keep the meaning"));
    // A judge that does not distinguish the probes accepts nothing, and no share is shown.
    let mut blind = report.clone();
    blind.judge.as_mut().unwrap().inseparable = Some("it rates all alike".to_owned());
    isomer_report::complete(&mut blind);
    assert!(
        blind
            .headline
            .iter()
            .any(|one| one.contains("is not known: the judge stub:judge"))
    );
    let tile = form(&blind, "report.html");
    let tile = tile
        .split("Rewrites that keep the meaning")
        .nth(1)
        .unwrap()
        .split("</article>")
        .next()
        .unwrap();
    assert!(!tile.contains('%') && tile.contains("not known"), "{tile}");
    // Without a gate nothing looks like a verdict.
    let mut free = report.clone();
    free.gate = None;
    let page = form(&free, "report.html");
    assert!(page.contains("No limits were set") && !page.contains("class=\"verdict "));
    assert!(!form(&free, "report.md").contains("## Verdict"));
}

#[test]
fn of_few_encoders_the_changed_orders_are_shown_and_no_deviation_of_tau() {
    let report = report();
    let total = report.profile.scopes[0]
        .rank_stability
        .iter()
        .find(|one| one.quantity.name == "total")
        .unwrap();
    assert!(total.sd.is_some());
    let shown = total.reordered_text().unwrap();
    for name in ["report.html", "report.md"] {
        let page = form(&report, name);
        assert!(
            page.contains(&shown) && page.contains("SD over data sets"),
            "{name}: {shown}"
        );
    }
    let columns = &report.tables.iter().find(|one| one.id == "hteb-4").unwrap().columns;
    assert!(
        columns
            .iter()
            .any(|one| one.group == "Order changes" && one.name == "English"),
        "{columns:?}"
    );
}

/// The cards of encoders on the page.
fn cards(page: &str) -> Vec<&str> {
    let encoders = page
        .split("id=\"encoders\"")
        .nth(1)
        .unwrap()
        .split("</section>")
        .next()
        .unwrap();
    let cards = encoders.split("<article").skip(1);
    cards.map(|card| card.split("</article>").next().unwrap()).collect()
}

fn encoder_of<'a>(report: &'a Report, card: &str) -> Option<&'a str> {
    let mut ids = report.encoders.iter().map(|one| one.id.as_str());
    ids.find(|id| card.contains(&format!("<h3>{id}")))
}

#[test]
fn the_page_answers_for_each_encoder_worst_first() {
    let report = report();
    let gate = report.gate.as_ref().unwrap();
    let answers = gate.answers();
    let verdicts: Vec<&str> = answers.iter().map(|one| one.own.verdict.name()).collect();
    assert_eq!(verdicts, ["fail", "undecided", "pass", "pass"]);
    assert_eq!(answers[0].reasons, "total drops by 12.9 points (limit 9)");
    assert_eq!(
        answers[1].reasons,
        "total drops by 8.9 points (bounds 4.8 to 12.6, limit 9)"
    );
    let page = form(&report, "report.html");
    let shown = format!(
        "<strong>{} fails</strong>: {}.",
        answers[0].own.encoder, answers[0].reasons
    );
    assert!(page.contains(&shown), "{shown}");
    let shown: Vec<&str> = cards(&page)
        .iter()
        .filter_map(|card| encoder_of(&report, card))
        .collect();
    let judged: Vec<&str> = answers.iter().map(|one| one.own.encoder.as_str()).collect();
    assert_eq!(shown, judged);
    for form in ["report.md", "report.html"].map(|name| self::form(&report, name)) {
        assert!(form.contains(&answers[0].reasons));
    }
}

#[test]
fn a_score_stands_beside_the_baselines_and_the_baselines_card_is_last() {
    let mut report = report();
    let first = report.encoders[0].id.clone();
    report.encoders[0].baseline = true;
    let gate = report.gate.as_mut().unwrap();
    gate.encoders.retain(|own| own.encoder != first);
    gate.baseline = Some(first.clone());
    let page = form(&report, "report.html");
    let cards = cards(&page);
    let shown: Vec<&str> = cards.iter().filter_map(|card| encoder_of(&report, card)).collect();
    assert_eq!(shown.last(), Some(&first.as_str()));
    let difference = report.profile.encoders[2].original - report.profile.encoders[0].original;
    let card = cards[shown.iter().position(|id| *id == report.encoders[2].id).unwrap()];
    assert!(card.contains(&format!(">+{difference:.1}<")), "{difference} in {card}");
}

#[test]
fn every_fold_is_in_the_list_of_contents_and_is_closed() {
    let page = form(&report(), "report.html");
    let contents = page
        .split("class=\"contents\"")
        .nth(1)
        .unwrap()
        .split("</nav>")
        .next()
        .unwrap();
    let links: Vec<&str> = contents
        .split("href=\"#")
        .skip(1)
        .map(|link| link.split('"').next().unwrap())
        .collect();
    assert!(links.len() > 12, "{links:?}");
    assert_eq!(page.matches("<details class=\"fold\">").count(), links.len());
    for link in links {
        assert!(page.contains(&format!("<section id=\"{link}\"")), "{link}");
    }
}

#[test]
fn paths_have_short_names_for_readers_and_stay_ids_in_the_data() {
    let mut report = report();
    let ids: Vec<String> = report.encoders.iter().map(|one| one.id.clone()).collect();
    let paths: Vec<(String, String)> = ids.iter().map(|id| (id.clone(), format!("/ci/models/{id}"))).collect();
    // A path has no name of a catalogue in it, which would be replaced as well.
    let report_of_paths = isomer_report::renamed(&report, &paths).unwrap();
    report = report_of_paths;
    let path = format!("/ci/models/{}", ids[0]);
    assert!(form(&report, "report.json").contains(&path) && form(&report, "junit.xml").contains(&path));
    assert!(!isomer_report::terminal::render(&report).contains(&path));
    assert!(!form(&report, "report.md").contains("/ci/models"));
    let page = form(&report, "report.html");
    // The manifest names the path.
    assert_eq!(page.matches(&path.replace('/', "&#x2f;")).count(), 1);
}

#[test]
fn junit_counts_the_units_of_each_rule() {
    let xml = form(&report(), "junit.xml");
    assert!(
        xml.contains("over 6 data sets") && xml.contains("over 600 items") && xml.contains("3 seeds"),
        "{xml}"
    );
    assert!(!xml.contains("600 data sets"));
}

/// Charts show names in full.
#[test]
fn the_heat_map_clips_no_name() {
    let mut report = report();
    let label = "cross_translation(target_languages=de,fr,es,tr,ar)";
    for one in &mut report.suite.transformations {
        if one.label == "cross_translation" {
            one.label = label.to_owned();
        }
    }
    let encoder = "organisation/an-encoder-with-a-very-long-name-multilingual-v2.1";
    report.profile.encoders[0].encoder = encoder.to_owned();
    let page = form(&report, "report.html");
    let start = page.find("aria-labelledby=\"heat-title").unwrap();
    let chart = &page[start..start + page[start..].find("</svg>").unwrap()];
    assert!(!chart.contains('…'));
    let texts: String = chart
        .split("<text")
        .skip(1)
        .map(|one| one.split_once('>').unwrap().1.split("</text>").next().unwrap().trim())
        .collect();
    assert!(texts.contains(label) && texts.contains(encoder), "{texts}");
}
