//! The dashboard and the alert rules use only metrics that exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use isomer_tests::workspace;

/// Rust files below a folder, excluding those of tests and builds.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "tests", ".git"].contains(&name.as_str()) {
            sources(&path, found);
        } else if name == "metric_names.rs" || name == "metrics.rs" {
            found.push(path);
        }
    }
}

/// Names that `metric_name!("who", "what", "unit")` makes.
fn made() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&workspace(), &mut files);
    let mut names = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        for call in text.split("metric_name!(").skip(1) {
            let arguments = call.split_once(')').unwrap().0;
            let parts: Vec<&str> = arguments.split(',').map(|part| part.trim().trim_matches('"')).collect();
            if let [who, what, unit] = parts.as_slice() {
                names.insert(format!("isomer_{who}_{what}_{unit}"));
            }
        }
    }
    names
}

/// Names of metrics in a text.
fn spoken(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
        .filter(|word| word.starts_with("isomer_"))
        .map(|word| word.trim_end_matches("_bucket").to_owned())
        .collect()
}

#[test]
fn dashboard_and_alerts_speak_of_metrics_that_exist() {
    let made = made();
    assert!(made.contains("isomer_server_requests_total"), "{made:?}");
    for file in ["dashboard.json", "alerts.yml"] {
        let text = fs::read_to_string(workspace().join("helm/isomer/files").join(file)).unwrap();
        let spoken = spoken(&text);
        assert!(spoken.len() > 5, "{file}: {spoken:?}");
        let unknown: Vec<&String> = spoken.difference(&made).collect();
        assert!(unknown.is_empty(), "{file} uses {unknown:?}");
    }
    let dashboard = fs::read(workspace().join("helm/isomer/files/dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_slice(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}
