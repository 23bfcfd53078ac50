//! Hugging Face: a model card's `model-index`, and a section with the measurements.

use std::fmt::Write;

use serde_json::{Value, json};

use super::intervals;
use crate::{DatasetInfo, EncoderInfo, GateVerdict, Report, profile::DatasetProfile};

/// The card of an encoder: `model-index` first, then a section in Markdown. `None` if the report
/// has no such encoder.
pub fn model_card(report: &Report, encoder: &str) -> Option<String> {
    let info = report.encoders.iter().find(|one| one.id == encoder)?;
    let profile = report.profile.encoders.iter().find(|one| one.encoder == encoder)?;
    let results: Vec<Value> = profile
        .datasets
        .iter()
        .filter_map(|measured| {
            let dataset = report.datasets.iter().find(|one| one.name == measured.dataset)?;
            Some(result(dataset, measured))
        })
        .collect();
    // JSON is YAML, so third-party texts need no quoting by us.
    let index = json!([{ "name": info.id, "results": results }]);
    let mut card = format!("---\nmodel-index: {index}\n---\n\n");
    section(report, info, &profile.datasets, &mut card);
    Some(card)
}

/// The data set on the hub, if it came from there.
fn place(dataset: &DatasetInfo) -> &str {
    let hub = dataset
        .source
        .strip_prefix("hub:")
        .and_then(|id| id.split([' ', '@']).next());
    hub.unwrap_or(&dataset.name)
}

fn result(dataset: &DatasetInfo, measured: &DatasetProfile) -> Value {
    let kind = &dataset.main_score;
    let mut metrics = vec![json!({ "type": kind, "name": "original texts", "value": measured.original })];
    let moved = measured.total.iter().map(|moved| ("total".to_owned(), moved));
    let axes = measured
        .axes
        .iter()
        .map(|axis| (axis.axis.name().to_owned(), &axis.moved));
    for (of, moved) in moved.chain(axes) {
        metrics.push(json!({
            "type": kind,
            "name": format!("transformed texts, {of}"),
            "value": moved.mean,
        }));
    }
    let mut place = json!({ "type": place(dataset), "name": dataset.name, "split": dataset.split });
    if let Some(language) = &dataset.language {
        place["config"] = language.clone().into();
    }
    if let Some(revision) = &dataset.revision {
        place["revision"] = revision.clone().into();
    }
    json!({
        "task": { "type": dataset.task.name(), "name": dataset.task.name() },
        "dataset": place,
        "metrics": metrics,
    })
}

fn section(report: &Report, info: &EncoderInfo, datasets: &[DatasetProfile], card: &mut String) {
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let seeds = report.suite.seeds.len();
    let _ = write!(
        card,
        "## Robustness\n\nScores x 100 when the words change and the meaning does not: suite `{}`, {} data sets, {seeds} seeds, Isomer {}, \
         weights SHA-256 `{}`.\n\n",
        cell(&report.suite.name),
        report.datasets.len(),
        report.isomer_version,
        info.weights_digest,
    );
    card.push_str("| data set | original | transformed | change | 95 % interval of the change, over items |\n|---|---:|---:|---:|---:|\n");
    for measured in datasets {
        let (mean, delta, interval) = match &measured.total {
            None => ("–".to_owned(), "–".to_owned(), "–".to_owned()),
            Some(moved) => {
                let items = intervals(moved).find(|(one, drawn)| *drawn == "items" && one.level == 0.95);
                let interval = items.map_or("–".to_owned(), |(one, _)| {
                    format!("{:.1} to {:.1}", one.low, one.high)
                });
                (format!("{:.1}", moved.mean), format!("{:+.1}", moved.delta), interval)
            }
        };
        let _ = writeln!(
            card,
            "| {} | {:.1} | {mean} | {delta} | {interval} |",
            cell(&measured.dataset),
            measured.original
        );
    }
    if let Some(judged) = report
        .gate
        .iter()
        .flat_map(|gate| &gate.encoders)
        .find(|judged| judged.encoder == info.id)
    {
        let said = match judged.verdict {
            GateVerdict::Pass => "every rule is kept",
            GateVerdict::Undecided => "undecided",
            GateVerdict::Invalid => "invalid: the scores cannot answer the question",
            GateVerdict::Fail => "a rule is broken",
        };
        let rules = report.gate.iter().flat_map(|gate| &gate.rules);
        let rules: Vec<String> = rules.map(|rule| cell(&rule.title)).collect();
        let _ = write!(card, "\nGate ({}): {said}.\n", rules.join("; "));
    }
}
