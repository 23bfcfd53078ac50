//! Reports: one model, four forms. Texts of datasets and generators are data: every form escapes them.

mod charts;
pub mod findings;
mod format;
mod gate;
mod gate_view;
mod html;
mod junit;
mod markdown;
mod model;

pub use gate::{EncoderVerdict, GateReport, GateRule, GateVerdict, RoundReport, RuleVerdict, SequentialReport};
pub use model::{
    CheckRow, DatasetInfo, EncoderInfo, Example, GeneratorInfo, Report, RunInfo, SCHEMA, ScoreRow, SuiteInfo,
    TransformationInfo,
};

/// Every file of a report: name and content.
///
/// # Errors
/// When a form cannot be rendered: a fault of ours, in words.
pub fn files(report: &Report) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let mut json = serde_json::to_vec_pretty(report).map_err(|error| format!("report.json: {error}"))?;
    json.push(b'\n');
    Ok(vec![
        ("report.json", json),
        ("report.md", markdown::render(report).into_bytes()),
        ("report.html", html::render(report)?.into_bytes()),
        ("junit.xml", junit::render(report)?),
    ])
}
