//! `isomer diff`: compares two encoders on the same items, each with its run: items that became
//! wrong, items that became right, the agreement of the result lists, and the encoder that loses
//! more under transformation.
//!
//! Only scores of the same texts are compared. If two runs differ in their data sets, texts,
//! transformations or seeds, an error names the differences, unless the caller asks for the common
//! part; then the result lists them.
//!
//! * `comparable`: the common parts of two runs. [`Right`]: the definition of a right item.
//! * `measure`: scores over data sets, with `flips` and the `agreement` of lists. `worst`: the
//!   items with the largest losses.
//! * `tables`: the sections of both pages. `markdown`, `html`: the output formats.

mod agreement;
mod chart;
pub(crate) mod comparable;
mod flips;
mod headline;
mod html;
mod markdown;
mod measure;
mod model;
mod right;
mod tables;
mod worst;

use std::collections::HashMap;

pub use agreement::overlaps;
pub(crate) use measure::language;
pub use model::{
    Change, DIFF_SCHEMA, DatasetDiff, Diff, DiffGroup, DiffOptions, DiffRow, DiffSide, Flips, ListAgreement,
    ThresholdOf, WorstItem,
};
pub use right::{Right, ScoredItems};

use self::{comparable::SharedParts, measure::DatasetMeasurements};
use crate::{
    Report, RunItems,
    items::{ItemsOfScore, ScoreKey},
    task::{LIST_DEPTH, TaskType},
};

/// The reason why two runs are not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// An encoder is not in the run.
    #[error("{side} has no encoder `{encoder}`; it has {known}")]
    NoEncoder {
        /// OLD or NEW.
        side: &'static str,
        encoder: String,
        /// The encoders of the run.
        known: String,
    },
    /// The items do not belong to the report.
    #[error("{side}: its items cannot be used: {why}")]
    Items {
        /// OLD or NEW.
        side: &'static str,
        why: String,
    },
    /// The scores are defined differently.
    #[error("the scores are of different metric profiles: OLD has {old}, NEW has {new}; run one of them again")]
    Metrics {
        /// Metric profile of the old run.
        old: String,
        /// Metric profile of the new run.
        new: String,
    },
    /// The runs differ.
    #[error(
        "the two runs do not have the same items:\n  {}\nThey share {remains}. Compare that alone with --shared",
        differences.join("\n  ")
    )]
    Differ {
        /// The differences, in sentences.
        differences: Vec<String>,
        /// The common parts.
        remains: String,
    },
    /// The runs share no data set.
    #[error("the two runs share no data set:\n  {}", differences.join("\n  "))]
    Nothing {
        /// The differences, in sentences.
        differences: Vec<String>,
    },
    /// An option is out of range.
    #[error("{option} is {given}; give {accepted}")]
    Option {
        /// Its name.
        option: &'static str,
        given: String,
        accepted: String,
    },
}

/// An encoder of a run.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    pub report: &'a Report,
    /// The items stored with it.
    pub items: &'a RunItems,
    /// Id of the encoder.
    pub encoder: &'a str,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            k: 10,
            persistence: crate::metric::overlap::PERSISTENCE,
            threshold: ThresholdOf::default(),
            worst: 10,
            shared: false,
            other_rewrites: false,
        }
    }
}

/// Compares two encoders.
///
/// # Errors
/// If an encoder is not in its run, the items do not belong to the report, the runs do not have the
/// same items, or an option is out of range.
pub fn diff(old: Side<'_>, new: Side<'_>, options: DiffOptions) -> Result<Diff, DiffError> {
    check(options)?;
    for (name, side) in [("OLD", old), ("NEW", new)] {
        side_fits(name, side)?;
    }
    let rows = [old, new].map(|side| comparable::rows(side.report, side.encoder));
    let shared = comparable::shared(
        old.report,
        new.report,
        &rows,
        options.shared,
        Some(options.other_rewrites),
    )?;
    let items = [old, new].map(|side| side.items.of_encoder(side.encoder));
    let inputs = ComparisonInputs {
        sides: [old, new],
        rows: &rows,
        items: &items,
        shared: &shared,
        options,
    };
    let measured = DatasetMeasurements::new(&inputs)?;
    let (of_all, languages) = (measured.rows_of_all(), measured.groups());
    let datasets = measured.datasets();
    let mut diff = Diff {
        schema: DIFF_SCHEMA.to_owned(),
        headline: Vec::new(),
        old: side_of(old),
        new: side_of(new),
        options,
        rows: of_all,
        languages,
        datasets,
        seeds: shared.seeds,
        left_out: shared.differences,
        other_rewrites: shared.other_rewrites,
        isomer_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    diff.headline = headline::sentences(&diff);
    Ok(diff)
}

/// Every file of a comparison: name and content.
///
/// # Errors
/// If a format cannot be rendered, which is an internal error; the message gives the reason.
pub fn files(diff: &Diff) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let mut json = serde_json::to_vec_pretty(diff).map_err(|error| format!("diff.json: {error}"))?;
    json.push(b'\n');
    Ok(vec![
        ("diff.json", json),
        ("diff.md", markdown::render(diff).into_bytes()),
        ("diff.html", html::render(diff)?.into_bytes()),
    ])
}

/// JSON Schema (draft 2020-12) of `diff.json`; `eval-svc/schema/diff-1.json` is a copy of it.
pub fn json_schema() -> serde_json::Value {
    crate::schema::of::<Diff>("Isomer comparison of two encoders", "urn:isomer:diff:1", DIFF_SCHEMA)
}

/// The comparison with its options.
struct ComparisonInputs<'a> {
    sides: [Side<'a>; 2],
    rows: &'a [comparable::Rows<'a>; 2],
    items: &'a [HashMap<ScoreKey<'a>, &'a ItemsOfScore>; 2],
    shared: &'a SharedParts,
    options: DiffOptions,
}

impl<'a> ComparisonInputs<'a> {
    /// The item-level data of an encoder's score.
    fn scored(&self, side: usize, task: TaskType, key: ScoreKey<'_>) -> Option<ScoredItems<'a>> {
        let items: &'a ItemsOfScore = self.items[side].get(&key).copied()?;
        Some(ScoredItems {
            task,
            main_key: self.rows[side].get(&key).map(|row| row.main_score_key.as_str())?,
            evidence: items.evidence.as_ref(),
            lists: items.lists.as_ref(),
        })
    }
}

fn check(options: DiffOptions) -> Result<(), DiffError> {
    let refused = |option, given: String, accepted: String| {
        Err(DiffError::Option {
            option,
            given,
            accepted,
        })
    };
    if !(1..=LIST_DEPTH).contains(&options.k) {
        return refused(
            "k",
            options.k.to_string(),
            format!("1 to {LIST_DEPTH}, the number of documents kept per query"),
        );
    }
    let p = options.persistence;
    if !(p > 0.0 && p < 1.0) {
        return refused(
            "persistence",
            p.to_string(),
            "a number between 0 and 1, both exclusive".to_owned(),
        );
    }
    Ok(())
}

pub(crate) fn side_fits(name: &'static str, side: Side<'_>) -> Result<(), DiffError> {
    let mut encoders = side.report.encoders.iter();
    if !encoders.any(|one| one.id == side.encoder) {
        let known: Vec<&str> = side.report.encoders.iter().map(|one| one.id.as_str()).collect();
        return Err(DiffError::NoEncoder {
            side: name,
            encoder: side.encoder.to_owned(),
            known: known.join(", "),
        });
    }
    match side.items.mismatch(side.report) {
        Some(why) => Err(DiffError::Items { side: name, why }),
        None => Ok(()),
    }
}

fn side_of(side: Side<'_>) -> DiffSide {
    let Side { report, encoder, .. } = side;
    let info = report.encoders.iter().find(|one| one.id == encoder);
    let of = |field: fn(&crate::EncoderInfo) -> &String| info.map(field).cloned().unwrap_or_default();
    DiffSide {
        run: report.run.id.clone(),
        finished: report.run.finished,
        encoder: encoder.to_owned(),
        revision: of(|info| &info.revision),
        weights_digest: of(|info| &info.weights_digest),
        vector_space: of(|info| &info.vector_space),
        generators: report.generators.iter().map(|one| one.id.clone()).collect(),
        suite: report.suite.name.clone(),
        suite_digest: report.suite.digest.clone(),
    }
}
