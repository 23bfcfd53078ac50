//! `isomer history`: the releases of an encoder over the stored checks.

use std::{io::Write, process::ExitCode};

use isomer_eval::report::history::{self, HistoryOptions, HistoryQuantity};
use isomer_proto::eval::v1::{GetHistoryRequest, HistoryQuantity as Quantity, HistoryReference};

use super::{
    kept_runs::{Runs, load_report, written},
    stdout_failure, writable_folder,
};
use crate::{
    args::{Format, history::HistoryArgs},
    connect::Session,
    exit::Failure,
};

/// All formats, with name and content.
type Files = Vec<(&'static str, Vec<u8>)>;

pub(super) async fn run(session: &Session, args: HistoryArgs) -> Result<ExitCode, Failure> {
    writable_folder(&args.out)?;
    let mut runs = Runs::new(session);
    let files = if args.checks.is_empty() {
        kept(&args, &mut runs).await?
    } else {
        named(&args, &mut runs).await?
    };
    written(&args.out, &files)?;
    let json = files.iter().find(|(name, _)| *name == "history.json");
    let json = json.map(|(_, content)| content.as_slice()).unwrap_or_default();
    let mut stdout = std::io::stdout().lock();
    match session.global.format {
        Format::Json => stdout.write_all(json),
        Format::Text => {
            let found: history::History = serde_json::from_slice(json)
                .map_err(|error| Failure::dependency(format!("the history cannot be read: {error}")))?;
            let page = args.out.join("history.html");
            let shown = page.canonicalize().unwrap_or(page);
            let lines = found.headline.iter().chain(&found.notes);
            let lines: Vec<&str> = lines.map(String::as_str).collect();
            let left_out = found.left_out.iter();
            let left_out: String = left_out
                .map(|one| format!("left out: {}: {}\n", one.run, one.why))
                .collect();
            writeln!(stdout, "{}\n{left_out}history: {}", lines.join("\n"), shown.display())
        }
    }
    .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// The history over the checks that were named.
async fn named(args: &HistoryArgs, runs: &mut Runs<'_>) -> Result<Files, Failure> {
    let mut reports = Vec::new();
    for name in &args.checks {
        let mut report = load_report("RUN", name, runs).await?;
        history::keep(&mut report);
        reports.push(report);
    }
    let options = HistoryOptions {
        of: match args.of {
            Quantity::Original => HistoryQuantity::Original,
            Quantity::Total | Quantity::Unspecified => HistoryQuantity::Total,
        },
        margin: args.margin,
        alpha: args.alpha,
        against_first: args.against == HistoryReference::First,
        earlier: args.earlier,
        suite: args.suite_digest.clone(),
    };
    let found = history::history(&args.encoder, &reports, options);
    let found = found.map_err(|error| Failure::usage(error.to_string()))?;
    history::files(&found).map_err(Failure::dependency)
}

/// The history over every stored run, wherever runs are stored.
async fn kept(args: &HistoryArgs, runs: &mut Runs<'_>) -> Result<Files, Failure> {
    let request = GetHistoryRequest {
        encoder_id: args.encoder.clone(),
        suite_digest: args.suite_digest.clone().unwrap_or_default(),
        of: args.of.into(),
        against: args.against.into(),
        margin: Some(args.margin),
        alpha: Some(args.alpha),
        earlier: args.earlier,
    };
    let found = runs.client().await?.get_history(request).await?.into_inner();
    Ok(vec![
        ("history.json", found.json),
        ("history.md", found.markdown),
        ("history.html", found.html),
    ])
}
