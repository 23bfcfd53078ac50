//! CycloneDX 1.6: the encoders of a report as machine-learning models, with their measurements.

use serde_json::{Value, json};

use super::{EncoderFigure, measured};
use crate::{DatasetInfo, EncoderInfo, GateReport, GateVerdict, Report};

/// A bill of materials (JSON, CycloneDX 1.6): each encoder with its weights, the data sets, and its
/// scores and their intervals.
pub fn bom(report: &Report) -> Value {
    let datasets: Vec<Value> = report.datasets.iter().enumerate().map(dataset).collect();
    let encoders = report.encoders.iter().map(|info| encoder(report, info));
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": format!("urn:uuid:{}", report.run.id),
        "version": 1,
        "metadata": {
            "timestamp": report.run.finished.to_string(),
            "tools": { "components": [
                { "type": "application", "name": "isomer", "version": report.isomer_version },
            ] },
        },
        "components": encoders.chain(datasets).collect::<Vec<Value>>(),
    })
}

/// Data sets with the same name may differ in split or language.
fn reference(number: usize) -> String {
    format!("dataset-{}", number + 1)
}

fn dataset((number, info): (usize, &DatasetInfo)) -> Value {
    let mut name = format!("{}/{}", info.name, info.split);
    if let Some(language) = &info.language {
        name.push('/');
        name.push_str(language);
    }
    let mut component = json!({
        "type": "data",
        "bom-ref": reference(number),
        "name": name,
        "description": format!("{}: {} rows, main score {}", info.task, info.items, info.main_score),
        "hashes": [{ "alg": "BLAKE3", "content": info.digest }],
        "data": [{ "type": "dataset", "name": name }],
    });
    if let Some(revision) = &info.revision {
        component["version"] = revision.clone().into();
    }
    component
}

fn encoder(report: &Report, info: &EncoderInfo) -> Value {
    let profile = report.profile.encoders.iter().find(|one| one.encoder == info.id);
    let metrics: Vec<Value> = profile.map(measured).unwrap_or_default().iter().map(metric).collect();
    let tested: Vec<Value> = (0..report.datasets.len())
        .map(|number| json!({ "ref": reference(number) }))
        .collect();
    let mut properties = vec![
        property("isomer:run", &report.run.id),
        property("isomer:suite", &report.suite.name),
        property("isomer:suite:blake3", &report.suite.digest),
        property("isomer:vectorSpace", &info.vector_space),
        property("isomer:pooling", &info.pooling),
    ];
    properties.extend(report.gate.iter().flat_map(|gate| gate_properties(gate, &info.id)));
    let mut component = json!({
        "type": "machine-learning-model",
        "bom-ref": format!("encoder-{}", info.id),
        "name": info.id,
        "version": info.revision,
        "modelCard": {
            "modelParameters": {
                "modelArchitecture": info.architecture,
                "datasets": tested,
                "inputs": [{ "format": "text" }],
                "outputs": [{ "format": format!("vector of {} numbers", info.dimensions) }],
            },
            "quantitativeAnalysis": { "performanceMetrics": metrics },
        },
        "properties": properties,
    });
    if info.weights_digest.len() == 64 {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": info.weights_digest }]);
    }
    component
}

fn property(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

fn gate_properties(gate: &GateReport, encoder: &str) -> Vec<Value> {
    let judged = gate.encoders.iter().find(|one| one.encoder == encoder);
    let said = judged.map_or("not judged", |judged| match judged.verdict {
        GateVerdict::Pass => "pass",
        GateVerdict::Undecided => "undecided",
        GateVerdict::Invalid => "invalid",
        GateVerdict::Fail => "fail",
    });
    let mut all = vec![property("isomer:gate", said)];
    for rule in &gate.rules {
        all.push(property("isomer:gate:rule", &rule.title));
    }
    all
}

/// A metric. CycloneDX writes its numbers as text.
fn metric(measured: &EncoderFigure<'_>) -> Value {
    let number = |value: f64| format!("{value:.4}");
    let (kind, drawn) = match (measured.moved, measured.interval) {
        (false, _) => ("main score x 100", None),
        (true, None) => ("change of the main score x 100", None),
        (true, Some((_, drawn))) => ("change of the main score x 100", Some(drawn)),
    };
    let mut metric = json!({
        "type": kind,
        "value": number(measured.value),
        "slice": match drawn {
            Some(drawn) => format!("{}; interval over {drawn}", measured.of),
            None => measured.of.clone(),
        },
    });
    if let Some((interval, _)) = measured.interval {
        metric["confidenceInterval"] = json!({
            "lowerBound": number(interval.low),
            "upperBound": number(interval.high),
        });
    }
    metric
}
