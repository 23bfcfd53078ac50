//! `metrics.md`: the lists of metrics in the code.

use std::{collections::BTreeMap, fmt::Write};

use super::{cell, compare, head, read};

const LISTS: &[(&str, &str)] = &[
    ("Every server", "crates/service-kit/src/metric_names.rs"),
    ("Gateway: routing", "gateway/src/routing/metrics.rs"),
    ("Gateway: missing variants", "gateway/src/proxy/missing_variants.rs"),
    ("Gateway: providers", "gateway/registry/src/metric_names.rs"),
    ("Gateway: access", "gateway/access/src/metric_names.rs"),
    ("Encoders", "embed-svc/src/metric_names.rs"),
    ("Transformations", "transform-svc/src/metric_names.rs"),
    ("Evaluation", "eval-svc/src/metric_names.rs"),
    ("Workers and limits of a fleet", "extras/fleet/src/metric_names.rs"),
];

/// Names and documentation by constant.
fn constants(source: &str) -> BTreeMap<String, (String, String)> {
    let (mut found, mut meaning) = (BTreeMap::new(), String::new());
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            meaning += text;
            continue;
        }
        if let Some((constant, call)) = line.split_once(": &str = metric_name!(") {
            let constant = constant.rsplit(' ').next().unwrap().to_owned();
            let parts = call
                .trim_end_matches(");")
                .split(',')
                .map(|part| part.trim().trim_matches('"'));
            let name = format!("isomer_{}", parts.collect::<Vec<_>>().join("_"));
            found.insert(constant, (name, meaning.clone()));
        }
        meaning.clear();
    }
    found
}

#[test]
fn the_page_of_metrics_is_up_to_date() {
    let mut page = head("Metrics");
    page += "\n`GET /metrics` of every server answers in Prometheus' text form. [Telemetry](../telemetry.md) has a complete example.\n";
    let mut total = 0;
    for (title, file) in LISTS {
        let source = read(file);
        let constants = constants(&source);
        write!(page, "\n## {title}\n\n| metric | kind | meaning |\n|---|---|---|\n").unwrap();
        let list = source
            .split_once("pub const ALL")
            .or_else(|| source.split_once("pub(crate) const ALL"))
            .unwrap()
            .1;
        let mut listed = 0;
        for entry in list.split("Metric::").skip(1) {
            let Some((kind, rest)) = entry.split_once('(') else {
                continue;
            };
            let constant = rest.trim_start().split(',').next().unwrap();
            let Some((name, meaning)) = constants.get(constant) else {
                continue;
            };
            writeln!(page, "| `{name}` | {kind} | {} |", cell(meaning)).unwrap();
            listed += 1;
        }
        assert_eq!(
            listed,
            constants.len(),
            "{file}: a metric is in one of constants and list only"
        );
        total += listed;
    }
    assert!(total > 20, "{total}");
    compare("metrics.md", &page);
}
