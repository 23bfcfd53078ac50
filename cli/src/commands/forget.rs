//! `isomer forget`: removes a text and the texts derived from it from every store.

use std::{io::Write, process::ExitCode};

use indicatif::{HumanBytes, HumanCount};
use isomer_all_in_one::ErasureReport;
use isomer_retention::{
    Amount,
    erasure::{MARKER, Mode, Texts},
};
use isomer_service_kit::config::Validate;

use super::stdout_failure;
use crate::{
    args::{Format, forget::ForgetArgs},
    connect::Session,
    exit::Failure,
    table,
};

pub(super) async fn run(session: &Session, args: ForgetArgs) -> Result<ExitCode, Failure> {
    if session.global.server.is_some() {
        return Err(Failure::usage(
            "--server: the stores are used directly, not through a gateway; leave --server out, and run it with the configuration of \
             the servers (--config)",
        ));
    }
    let config = &session.config;
    config.validate().map_err(|error| Failure::usage(error.to_string()))?;
    let mut given = Vec::new();
    for path in &args.text_file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("--text-file: {}: {error}", path.display())))?;
        given.push(text);
    }
    let texts = Texts::new(given)
        .map_err(|error| Failure::usage(format!("--text-file: {error}; give the whole text as it was sent")))?;
    let mode = if args.plan { Mode::Plan } else { Mode::Remove };
    let forgotten = Box::pin(isomer_all_in_one::forget(config, texts.clone(), mode)).await?;
    let shown = match session.global.format {
        Format::Json => serde_json::to_string(&forgotten).unwrap_or_default(),
        Format::Text => in_words(&forgotten),
    };
    writeln!(std::io::stdout(), "{shown}").map_err(|error| stdout_failure(&error))?;
    if forgotten.runs.active.is_empty() {
        if mode == Mode::Remove {
            let left = Box::pin(isomer_all_in_one::forget(config, texts, Mode::Plan)).await?;
            return nothing_left(&left);
        }
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::dependency(format!(
        "{} runs have not ended and may write the text again: cancel them or wait for their end, and run this once more: {}",
        forgotten.runs.active.len(),
        forgotten.runs.active.join(", ")
    )))
}

/// Fails if a second search found the texts. Vectors name no text, so they do not count.
fn nothing_left(left: &ErasureReport) -> Result<ExitCode, Failure> {
    let store = left
        .store
        .iter()
        .flat_map(|store| [store.texts, store.units, store.scores]);
    let files = store.chain([left.generated]).map(|amount| amount.objects).sum::<u64>();
    let runs: Vec<&str> = left.runs.runs.iter().map(|run| run.run.as_str()).collect();
    if files + left.runs.measurements == 0 && runs.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::dependency(format!(
        "a text is still stored, in {} files and in {} runs ({}): stop servers and workers that write it again, and run \
         this once more",
        files + left.runs.measurements,
        runs.len(),
        runs.join(", ")
    )))
}

fn in_words(forgotten: &ErasureReport) -> String {
    let mut rows = table::new();
    let verb = if forgotten.plan { "would be removed" } else { "removed" };
    rows.set_header(["where", verb, "size"]);
    let mut row = |what: &str, amount: Amount| {
        let (count, size) = (
            HumanCount(amount.objects).to_string(),
            HumanBytes(amount.bytes).to_string(),
        );
        rows.add_row([what.to_owned(), count, size]);
    };
    row("generated texts on this machine", forgotten.generated);
    row("files of vectors on this machine (all)", forgotten.vectors);
    if let Some(store) = &forgotten.store {
        row("generated texts in the store", store.texts);
        row("requests and answers of workers in the store", store.units);
        row("vectors in the store (all)", store.vectors);
        row("scores in the store", store.scores);
    }
    let mut lines = vec![rows.to_string()];
    lines.push(format!(
        "{} texts were looked for: those given, and what was made of them",
        forgotten.texts
    ));
    if let Some(queued) = forgotten.queued {
        lines.push(format!("{queued} units of the queue"));
    }
    if forgotten.runs.measurements > 0 {
        lines.push(format!("{} files of measurements", forgotten.runs.measurements));
    }
    for run in &forgotten.runs.runs {
        let verb = if forgotten.plan { "would be" } else { "is" };
        lines.push(format!(
            "run {}: {MARKER} {verb} in place of the texts, {} times ({})",
            run.run,
            run.places,
            run.files.join(", ")
        ));
        if let Some(before) = &run.report_before {
            let after = match &run.report_after {
                Some(after) => format!("its report {verb} sha256:{after}"),
                None => format!("its report cannot be read by this version and {verb} removed"),
            };
            lines.push(format!("  {after}; attestations of sha256:{before} no longer verify"));
        }
    }
    if forgotten.plan {
        lines.push("nothing was removed; without --plan it is".to_owned());
    } else {
        lines.push("restart servers and workers: they may hold vectors and waiting texts in memory".to_owned());
    }
    lines.join("\n")
}
