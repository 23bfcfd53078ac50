//! `isomer history`: the releases of an encoder over the checks that are kept.

use std::{io::Write, process::ExitCode};

use isomer_eval::report::{
    Report,
    history::{self, HistoryOptions, HistoryQuantity, LeftOutRun},
};
use isomer_proto::eval::v1::RunState;

use super::{
    kept_runs::{Runs, load_report, written},
    stdout_failure,
};
use crate::{
    args::{
        Format, Global,
        history::{AgainstArg, HistoryArgs, QuantityArg},
    },
    exit::Failure,
};

pub(super) async fn run(global: &Global, args: HistoryArgs) -> Result<ExitCode, Failure> {
    let mut runs = Runs::new(global);
    let (reports, without) = reports(&args, &mut runs).await?;
    let options = HistoryOptions {
        of: match args.of {
            QuantityArg::Original => HistoryQuantity::Original,
            QuantityArg::Total => HistoryQuantity::Total,
        },
        margin: args.margin,
        alpha: args.alpha,
        against_first: args.against == AgainstArg::First,
        earlier: args.earlier,
        suite: args.suite_digest,
    };
    let found = history::history(&args.encoder, &reports, options);
    let mut found = found.map_err(|error| Failure::usage(error.to_string()))?;
    found.left_out.extend(without);
    let files = history::files(&found).map_err(Failure::dependency)?;
    written(&args.out, &files)?;
    let mut stdout = std::io::stdout().lock();
    match global.format {
        Format::Json => {
            let json = files.iter().find(|(name, _)| *name == "history.json");
            stdout.write_all(json.map(|(_, content)| content.as_slice()).unwrap_or_default())
        }
        Format::Text => {
            let page = args.out.join("history.html");
            let shown = page.canonicalize().unwrap_or(page);
            let told = found.headline.iter().chain(&found.notes);
            let told: Vec<&str> = told.map(String::as_str).collect();
            let left_out = found.left_out.iter();
            let left_out: String = left_out
                .map(|one| format!("left out: {}: {}\n", one.run, one.why))
                .collect();
            writeln!(stdout, "{}\n{left_out}history: {}", told.join("\n"), shown.display())
        }
    }
    .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// The reports of the checks that were named, or of every kept run that has the encoder; and kept
/// runs of it without a report.
async fn reports(args: &HistoryArgs, runs: &mut Runs<'_>) -> Result<(Vec<Report>, Vec<LeftOutRun>), Failure> {
    let (mut reports, mut without) = (Vec::new(), Vec::new());
    for name in &args.checks {
        reports.push(load_report("RUN", name, runs).await?);
    }
    if !args.checks.is_empty() {
        return Ok((reports, without));
    }
    for run in runs.all().await? {
        let encoders = run
            .spec
            .as_ref()
            .map(|spec| spec.encoder_ids.as_slice())
            .unwrap_or_default();
        // A run that names no encoder took the suite's or the default; its report says which.
        if !encoders.is_empty() && !encoders.contains(&args.encoder) {
            continue;
        }
        let why = match run.state() {
            RunState::Succeeded => {
                reports.push(runs.report(&run.id).await?);
                continue;
            }
            RunState::Failed => "it failed, and has no report",
            RunState::Cancelled => "it was cancelled, and has no report",
            _ => "it has not ended",
        };
        without.push(LeftOutRun {
            run: run.id,
            why: why.to_owned(),
        });
    }
    Ok((reports, without))
}
