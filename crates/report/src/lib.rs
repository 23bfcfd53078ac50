//! Reports: one model, and all its output formats. Texts of datasets and generators are data: every
//! format escapes them.
//!
//! * `model`: the content of `report.json`; [`profile`]: the robustness profile in it; [`terms`]:
//!   its enumerations and counts.
//! * `html`, `markdown`, `junit`, [`terminal`]: its output formats; `tables`: the papers' tables;
//!   `charts`: charts of the page.
//! * `items`: the items of a run stored with its report; [`diff`]: two runs compared item by item;
//!   [`thresholds`]: thresholds of an encoder's scores; [`history`]: its releases over time;
//!   [`gains`]: the gain of augmentation; [`ratings`]: ratings of rewrites by people.
//! * [`renamed`]: a report with other names for its encoders.
//! * [`complete`]: computes the values that follow from the rest of a report.
//!
//! Everything is pure: no async, no network, no clock, no global random numbers. This crate neither
//! runs checks nor decides a gate.

mod answer;
mod cards;
mod charts;
mod complete;
pub mod diff;
mod drift;
mod encoding;
#[cfg(feature = "export")]
pub mod export;
pub mod findings;
mod format;
pub mod gains;
mod gate;
mod gate_view;
pub mod history;
mod html;
mod items;
mod judge;
mod judge_view;
mod junit;
mod languages;
mod markdown;
mod markdown_table;
mod model;
mod names;
mod noise_view;
mod overview;
mod paired;
pub mod profile;
pub mod ratings;
mod reference;
mod relation;
mod releases;
mod rename;
mod rule_mean;
mod schema;
mod search_view;
mod separation;
mod separation_view;
mod subsets;
mod subsets_view;
mod tables;
pub mod terminal;
pub mod terms;
mod text_table;
pub mod thresholds;
mod variant_view;

pub use answer::VerdictSummary;
pub use charts::{CHARTS, Chart};
pub use complete::complete;
pub use encoding::{PromptUse, TruncationRow, UnusedPrompt};
pub use format::percent;
pub use gate::{
    Attempts, EncoderVerdict, GateReport, GateRule, GateVerdict, RewriteShare, RoundReport, RuleVerdict,
    SequentialReport,
};
pub use items::{ITEMS_SCHEMA, ItemTexts, ItemsOfDataset, ItemsOfScore, JudgedRewrite, RunItems, read_items};
pub use judge::{DriftRating, JudgeReport, JudgedScale, RatingRow};
pub use languages::{DrawnTarget, LanguageReport, TargetScore};
pub use model::{
    CheckRow, DatasetInfo, DriftRow, EncoderInfo, ErrorRates, Example, GeneratorInfo, Picked, Report, RunInfo, SCHEMA,
    ScoreRow, SuiteInfo, TransformationInfo, VariantInfo,
};
pub use paired::{GATE_K, Outcome, PairedComparison, PairedQuantity, Texts as PairedTexts, paired_strata};
pub use relation::{LEAST_TEXTS, Relation, relate};
pub use rename::renamed;
pub use schema::json_schema;
pub use separation::{CopyCounts, EncoderSeparation, SeparationCoverage, SeparationReport, SeparationRow};
pub use subsets::SubsetReport;
pub use tables::{Cell, RowKind, Table, TableColumn, TableRow};
pub use text_table::{TableColumns, TextTable};

/// Data sets: the crate `isomer-datasets`.
use isomer_datasets as dataset;
/// Scores: the crate `isomer-scoring`.
use isomer_scoring::{evidence, metric, task};
/// Statistics: the crate `isomer-stats`.
use isomer_stats as stats;

/// Reads a `report.json`.
///
/// # Errors
/// If it is not of this version ([`SCHEMA`]) or some part of it is invalid; the error names the
/// part.
pub fn read(json: &[u8]) -> Result<Report, String> {
    versioned(json, "a report.json", SCHEMA)
}

/// Reads a file that names the version of its format.
fn versioned<T: serde::de::DeserializeOwned>(json: &[u8], what: &str, schema: &str) -> Result<T, String> {
    #[derive(serde::Deserialize)]
    struct Version {
        schema: String,
    }
    let version: Version = serde_json::from_slice(json).map_err(|error| format!("is not {what}: {error}"))?;
    if version.schema != schema {
        return Err(format!(
            "is of version {:?}; this Isomer reads {schema:?}",
            version.schema
        ));
    }
    serde_json::from_slice(json).map_err(|error| format!("does not match {schema}: {error}"))
}

/// All files of a report, with name and content.
///
/// # Errors
/// If a format cannot be rendered, which is an internal error; the message gives the reason.
pub fn files(report: &Report) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let mut json = serde_json::to_vec_pretty(report).map_err(|error| format!("report.json: {error}"))?;
    json.push(b'\n');
    Ok(vec![
        ("report.json", json),
        ("report.md", markdown::render(&names::short(report)).into_bytes()),
        ("report.html", html::render(report)?.into_bytes()),
        ("junit.xml", junit::render(report)?),
    ])
}
