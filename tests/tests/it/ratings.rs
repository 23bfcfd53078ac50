//! `isomer ratings`: from a report's files to a sheet, and from a filled sheet to a bound.

use std::collections::BTreeMap;

use isomer_tests::{
    home::Home,
    process::{finish, isomer},
};
use serde_json::{Value, json};

const REWRITES: usize = 120;

/// A report with a judge, with items of which every tenth rewrite is rated low.
fn run(home: &Home) -> String {
    let text = std::fs::read_to_string("../eval-svc/fixtures/report/report.json").unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let scores = report["scores"].as_array().unwrap().iter().map(|row| {
        let mut own = json!({"unit": row["unit"].as_str().unwrap_or_default(), "evidence": null});
        for key in ["encoder", "dataset", "transformation", "seed"] {
            own[key] = row[key].clone();
        }
        own
    });
    let judged = (0..REWRITES).map(|n| {
        json!({
            "transformation": "paraphrase", "original": n, "rewrite": REWRITES + n, "drift": {},
            "ratings": {"similarity": if n % 10 == 0 { 1.0 } else { 4.5 }},
        })
    });
    let texts = (0..2 * REWRITES).map(|n| format!("text {n}"));
    let items = json!({
        "schema": "isomer.items/1", "run": report["run"]["id"], "isomer_version": "0", "datasets": [],
        "texts": texts.collect::<Vec<_>>(), "scores": scores.collect::<Vec<_>>(), "judged": judged.collect::<Vec<_>>(),
    });
    let folder = home.path().join("report");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("report.json"), &text).unwrap();
    std::fs::write(folder.join("items.json"), items.to_string()).unwrap();
    folder.display().to_string()
}

#[test]
fn a_filled_sheet_bounds_the_share_of_faithful_rewrites() {
    let home = Home::empty();
    let folder = run(&home);
    let place = |name: &str| home.path().join(name).display().to_string();
    let ratings = |arguments: &[&str]| finish(isomer(&home).arg("ratings").args(arguments));
    let (code, stdout, stderr) = ratings(&["sheet", &folder, "--raters", "1", "--out", &place("sheet.csv")]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("25 of 108") && stdout.contains("5 of 12"), "{stdout}");
    let sheet = std::fs::read_to_string(place("sheet.csv")).unwrap();
    assert_eq!(sheet.lines().count(), 31);
    // The raters agree with the judge but for one rewrite of thirty.
    let mut seen = BTreeMap::new();
    let filled = sheet.lines().enumerate().map(|(line, row)| {
        if line == 0 {
            return row.to_owned();
        }
        let number: usize = row
            .split("text ")
            .nth(2)
            .unwrap()
            .trim_end_matches(',')
            .parse()
            .unwrap();
        let low = (number - REWRITES).is_multiple_of(10);
        *seen.entry(low).or_insert(0) += 1;
        let rating = if low && seen[&low] > 1 { 1 } else { 4 };
        format!("{}{rating}", row)
    });
    std::fs::write(place("filled.csv"), filled.collect::<Vec<_>>().join("\n")).unwrap();
    assert_eq!(seen, BTreeMap::from([(false, 25), (true, 5)]));
    let out = place("out");
    let filled = place("filled.csv");
    let report = ["report", &folder, "--ratings", &filled, "--out", &out];
    let (code, stdout, stderr) = ratings(&[&report[..], &["--format", "json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let share = &found["rows"][0]["share"];
    assert_eq!(
        share["accepted"],
        json!({"rewrites": 108, "drawn": 25, "faithful": 25, "unrated": 0})
    );
    assert_eq!(
        share["not_accepted"],
        json!({"rewrites": 12, "drawn": 5, "faithful": 1, "unrated": 0})
    );
    let (low, estimate) = (share["low"].as_f64().unwrap(), share["estimate"].as_f64().unwrap());
    assert!((estimate - (108.0 + 12.0 / 5.0) / 120.0).abs() < 1e-12);
    assert!(low > 0.8 && low < estimate, "{low}");
    let (code, stdout, _) = ratings(&report);
    assert!(code == 0 && stdout.contains("of 120 rewrites are faithful"), "{stdout}");
    for name in ["ratings.json", "ratings.md", "ratings.html"] {
        assert!(
            home.path().join("out").join(name).metadata().unwrap().len() > 500,
            "{name}"
        );
    }

    for (arguments, told) in [
        (
            vec!["report", &folder, "--ratings", "no/file", "--out", &out],
            "--ratings",
        ),
        (
            vec![
                "report",
                &folder,
                "--ratings",
                &filled,
                "--scale",
                "fluency",
                "--out",
                &out,
            ],
            "fluency",
        ),
        (vec!["report", "no/run", "--ratings", &filled, "--out", &out], "RUN"),
        (vec!["sheet", &folder, "--rewrites", "1"], "--rewrites"),
    ] {
        let (code, _, stderr) = ratings(&arguments);
        assert!(code == 2 && stderr.contains(told), "{arguments:?}: {code} {stderr}");
    }
}
