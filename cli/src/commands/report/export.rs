//! `isomer report export`

use std::process::ExitCode;

use isomer_eval::report::{
    EncoderInfo, Report,
    export::{bom, eval_results, model_card},
};

use super::{encoder_files::of_encoders, read, write};
use crate::{
    args::{
        Global,
        evidence::{ExportArgs, ExportForm},
    },
    exit::Failure,
    progress::Display,
};

/// Scores of the unchanged texts, for the hub. A data set without a task there is reported.
fn results(global: &Global, args: &ExportArgs, report: &Report) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let display = Display::new(global.quiet);
    let mut all = Vec::new();
    for (number, encoder) in published(report).enumerate() {
        let Some(found) = eval_results(report, &encoder.id, args.source_url.as_deref()) else {
            continue;
        };
        // The list is the same for each encoder.
        for (dataset, why) in found.left_out.iter().filter(|_| number == 0) {
            display.message(&format!("eval-results: {dataset} is left out: {why}"));
        }
        if !found.entries.is_empty() {
            let yaml = serde_norway::to_string(&found.entries);
            let yaml = yaml.map_err(|error| Failure::dependency(error.to_string()))?;
            all.push((encoder.id.clone(), yaml.into_bytes()));
        }
    }
    if all.is_empty() {
        return Err(Failure::usage(
            "--form eval-results: no data set of this report is a task of the hub, whole and at the task's commit; check with data sets of \
             mteb by name (`isomer datasets`) and without --limit",
        ));
    }
    Ok(of_encoders("eval-results", all, ".yaml"))
}

/// Encoders as their services have them. A variant of one is not the model that is published.
fn published(report: &Report) -> impl Iterator<Item = &EncoderInfo> {
    report.encoders.iter().filter(|encoder| encoder.variant.is_none())
}

pub(super) fn export(global: &Global, args: &ExportArgs) -> Result<ExitCode, Failure> {
    let (report, _) = read(&args.report, "--report")?;
    let mut files = Vec::new();
    for form in &args.forms {
        match form {
            ExportForm::Cyclonedx => {
                let bom = serde_json::to_vec_pretty(&bom(&report));
                let bom = bom.map_err(|error| Failure::dependency(error.to_string()))?;
                files.push(("bom.cdx.json".to_owned(), bom));
            }
            ExportForm::ModelCard => {
                let ids = published(&report).map(|encoder| encoder.id.clone());
                let cards = ids.filter_map(|id| model_card(&report, &id).map(|card| (id, card.into_bytes())));
                files.extend(of_encoders("model-card", cards.collect(), ".md"));
            }
            ExportForm::EvalResults => files.extend(results(global, args, &report)?),
        }
    }
    write(global, files, &args.out)
}
