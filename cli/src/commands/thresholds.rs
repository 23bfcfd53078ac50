//! `isomer thresholds`: a threshold of an encoder's scores, and its rates under transformation.

use std::{io::Write, process::ExitCode};

use isomer_eval::report::{
    diff::Side,
    thresholds::{self, ThresholdOptions},
};

use super::{
    kept_runs::{Runs, encoder, load, written},
    stdout_failure, writable_folder,
};
use crate::{
    args::{Format, thresholds::ThresholdsArgs},
    connect::Session,
    exit::Failure,
};

pub(super) async fn run(session: &Session, args: ThresholdsArgs) -> Result<ExitCode, Failure> {
    writable_folder(&args.out)?;
    let mut runs = Runs::new(session);
    let (report, items) = load("RUN", &args.check, &mut runs).await?;
    let old = match &args.from {
        Some(name) => Some(load("OLD", name, &mut runs).await?),
        None => None,
    };
    let options = ThresholdOptions {
        target: args.target,
        k: args.k as usize,
        sts_cut: args.sts_cut,
        datasets: args.datasets,
        shared: args.shared,
    };
    let new = Side {
        report: &report,
        items: &items,
        encoder: encoder(("RUN", "--encoder"), args.encoder.as_deref(), &report)?,
    };
    let old = match &old {
        Some((report, items)) => Some(Side {
            report,
            items,
            encoder: encoder(("OLD", "--from-encoder"), args.from_encoder.as_deref(), report)?,
        }),
        None => None,
    };
    let found = thresholds::thresholds(new, old, options).map_err(|error| Failure::usage(error.to_string()))?;
    let files = thresholds::files(&found).map_err(Failure::dependency)?;
    written(&args.out, &files)?;
    let mut stdout = std::io::stdout().lock();
    match session.global.format {
        Format::Json => {
            let json = files.iter().find(|(name, _)| *name == "thresholds.json");
            stdout.write_all(json.map(|(_, content)| content.as_slice()).unwrap_or_default())
        }
        Format::Text => {
            let file = args.out.join("thresholds.json");
            let shown = file.canonicalize().unwrap_or(file);
            let without = found.without.iter().chain(&found.not_mapped);
            let without: String = without
                .map(|one| format!("without: {}: {}\n", one.name, one.why))
                .collect();
            let sentences = found.headline.join("\n");
            writeln!(stdout, "{sentences}\n{without}thresholds: {}", shown.display())
        }
    }
    .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}
