//! `isomer check` on texts with noise: no generator is called, and the doses are read from scores.

use std::fs;

use isomer_tests::{
    home::Home,
    process::{finish, isomer, isomer_in_shell},
};
use serde_json::Value;

const MODEL: &str = "paraphrase-MiniLM-L3-v2";
const DOSES: [f64; 6] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4];

fn check(home: &Home, suite: &str) -> (i32, Value, String) {
    let mut command = isomer(home);
    command.args(["check", "--format", "json", "--model", MODEL, "--suite", suite, "--out"]);
    command.arg(home.path().join("report"));
    let (code, stdout, stderr) = finish(&mut command);
    (code, serde_json::from_str(&stdout).unwrap_or_default(), stderr)
}

fn suite(home: &Home, transformations: &str, gate: &str) -> String {
    let file = home.path().join("noise.toml");
    let text = format!(
        "name = \"mine\"\ntransformations = [{transformations}]\nseeds = [1337]\n[gate]\n{gate}\n[[dataset]]\ntask = \"sts\"\nbuiltin = \
         \"quick/sts\"\n[[dataset]]\ntask = \"retrieval\"\nbuiltin = \"quick/retrieval\"\n"
    );
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Main score x 100 on the original or on one transformation, over both data sets.
fn score(report: &Value, transformation: Option<&str>) -> f64 {
    let rows = report["scores"].as_array().unwrap().iter();
    let own = rows.filter(|row| row["transformation"].as_str() == transformation);
    let scores: Vec<f64> = own.map(|row| row["main_score"].as_f64().unwrap() * 100.0).collect();
    assert_eq!(scores.len(), 2, "{transformation:?}");
    scores.iter().sum::<f64>() / 2.0
}

#[test]
fn each_dose_of_a_channel_is_scored_and_the_dose_at_half_of_the_effect_lies_in_its_interval() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    // A dose of 1 % changes few texts, which no limit on unchanged texts counts.
    let gate = "[[gate.rule]]\nmax_drop = 90\nof = \"noise\"\nbasis = \"point\"\n[[gate.rule]]\nmax_drop = 90\n\
                of = \"noise(keyboard 1 %)\"\nbasis = \"point\"";
    let channels = "{ name = \"noise\", channel = \"keyboard\" }, { name = \"noise\", channel = \"case\", dose = 0.4 }";
    let (code, report, stderr) = check(&home, &suite(&home, channels, gate));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(report["generators"], Value::Array(Vec::new()));
    let curves = report["profile"]["encoders"][0]["doses"].as_array().unwrap();
    let [keyboard, case] = curves.as_slice() else {
        panic!("{curves:?}");
    };
    let original = score(&report, None);
    let points = keyboard["points"].as_array().unwrap();
    let mut before = 0.0;
    for (dose, point) in DOSES.into_iter().zip(points) {
        let label = format!("noise(keyboard {:.0} %)", dose * 100.0);
        let (drop, fitted) = (point["drop"].as_f64().unwrap(), point["fitted"].as_f64().unwrap());
        assert!(
            (drop - (original - score(&report, Some(&label)))).abs() < 1e-9,
            "{label}"
        );
        assert_eq!(point["dose"], dose);
        assert!(fitted >= before, "the curve falls at {label}");
        before = fitted;
    }
    assert!(before > 20.0, "40 % of the letters are wrong: {before} points");
    let of_half = |key: &str| keyboard["half"][key].as_f64().unwrap();
    let (low, dose, high) = (of_half("low"), of_half("dose"), of_half("high"));
    assert!(low < dose && dose < high && high - low > 0.01, "{dose} [{low}, {high}]");
    // The tokeniser of this encoder folds case, so that every text has the same tokens.
    assert_eq!(case["points"][0]["drop"], 0.0);
    assert!(case["no_half"].as_str().unwrap().contains("at least 3 doses"));
    let page = fs::read_to_string(home.path().join("report/report.html")).unwrap();
    assert!(page.contains("id=\"doses-title\"") && page.contains("Half of the effect"));
    assert!(
        !page.contains("<td>noise(keyboard 2 %)</td>"),
        "a dose has no row of its own"
    );
    let text = fs::read_to_string(home.path().join("report/report.md")).unwrap();
    assert!(text.contains("## Noise") && text.contains("| keyboard |"), "{text}");
}

#[test]
fn texts_that_cannot_have_the_noise_count_as_unchanged_and_make_a_rule_invalid() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let gate = "[[gate.rule]]\nmax_drop = 5\nof = \"noise\"\nbasis = \"point\"";
    let accents = "{ name = \"noise\", channel = \"diacritics\" }";
    let (code, report, stderr) = check(&home, &suite(&home, accents, gate));
    assert_eq!(code, 4, "{stderr}");
    let rule = &report["gate"]["encoders"][0]["rules"][0];
    assert_eq!(rule["verdict"], "invalid");
    assert!(rule["note"].to_string().contains("max_unchanged"), "{rule}");
    let notes = report["notes"].to_string();
    assert_eq!(notes.matches("noise(diacritics): 100 %").count(), 1, "{notes}");
}

#[test]
fn a_wrong_parameter_is_refused_before_anything_is_encoded() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    for (transformation, part) in [
        (
            "{ name = \"noise\", channel = \"keybord\" }",
            "did you mean `keyboard`?",
        ),
        ("{ name = \"noise\", dose = 0.3 }", "0.2, 0.4"),
        ("{ name = \"noise\", dose = 0 }", "transformations[0].dose"),
        ("{ name = \"noise\", doses = 0.1 }", "did you mean `dose`?"),
        ("{ name = \"noise\", prompt = \"paraphrase-b\" }", "has no prompt"),
    ] {
        let (code, _, stderr) = check(&home, &suite(&home, transformation, ""));
        assert_eq!(code, 2, "{transformation}: {stderr}");
        assert!(stderr.contains(part), "{transformation}: {stderr}");
    }
    let total = suite(
        &home,
        "{ name = \"noise\", channel = \"ocr\" }",
        "[[gate.rule]]\nmax_drop = 5",
    );
    let (code, _, stderr) = check(&home, &total);
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("no axis of the run counts towards a total; name noise"),
        "{stderr}"
    );
}

#[test]
fn the_last_line_names_the_report_whatever_the_verdict() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let gate = "[[gate.rule]]\nmax_drop = 5\nof = \"noise\"\nbasis = \"point\"";
    let suite = suite(&home, "{ name = \"noise\", channel = \"diacritics\" }", gate);
    // Both streams are combined, as in a terminal.
    let mut command = isomer_in_shell(&home, "exec 2>&1; exec \"$0\" \"$@\"");
    command.args(["check", "--model", MODEL, "--suite", &suite, "--out"]);
    command.arg(home.path().join("report"));
    let (code, text, _) = finish(&mut command);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("the gate is invalid"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("report: ") && last.ends_with("report/report.html"),
        "{last}"
    );
}
