//! `isomer report export`

use std::process::ExitCode;

use isomer_eval::report::export::{bom, model_card};

use super::{of_encoders, read, write};
use crate::{
    args::{
        Global,
        report::{ExportArgs, ExportForm},
    },
    exit::Failure,
};

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
                let ids = report.encoders.iter().map(|encoder| encoder.id.clone());
                let cards = ids.filter_map(|id| model_card(&report, &id).map(|card| (id, card.into_bytes())));
                files.extend(of_encoders("model-card", cards.collect(), ".md"));
            }
        }
    }
    write(global, files, &args.out)
}
