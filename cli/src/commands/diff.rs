//! `isomer diff`: compares two encoders on the same items.

use std::{io::Write, process::ExitCode};

use isomer_eval::report::diff::{self, DiffOptions, Side, ThresholdOf};

use super::{
    kept_runs::{Runs, encoder, load, written},
    stdout_failure, writable_folder,
};
use crate::{
    args::{
        Format,
        diff::{DiffArgs, ThresholdArg},
    },
    connect::Session,
    exit::Failure,
};

pub(super) async fn run(session: &Session, args: DiffArgs) -> Result<ExitCode, Failure> {
    writable_folder(&args.out)?;
    let mut runs = Runs::new(session);
    let (old, old_items) = load("OLD", &args.old, &mut runs).await?;
    let (new, new_items) = load("NEW", &args.new, &mut runs).await?;
    let options = DiffOptions {
        k: args.k as usize,
        persistence: args.persistence,
        threshold: match args.threshold {
            ThresholdArg::Old => ThresholdOf::Old,
            ThresholdArg::Each => ThresholdOf::Each,
        },
        worst: args.worst,
        shared: args.shared,
        other_rewrites: args.other_rewrites,
    };
    let old = Side {
        report: &old,
        items: &old_items,
        encoder: encoder(("OLD", "--old-encoder"), args.old_encoder.as_deref(), &old)?,
    };
    let new = Side {
        report: &new,
        items: &new_items,
        encoder: encoder(("NEW", "--new-encoder"), args.new_encoder.as_deref(), &new)?,
    };
    let compared = diff::diff(old, new, options).map_err(|error| Failure::usage(error.to_string()))?;
    let files = diff::files(&compared).map_err(Failure::dependency)?;
    written(&args.out, &files)?;
    let mut stdout = std::io::stdout().lock();
    match session.global.format {
        Format::Json => {
            let json = files.iter().find(|(name, _)| *name == "diff.json");
            stdout.write_all(json.map(|(_, content)| content.as_slice()).unwrap_or_default())
        }
        Format::Text => {
            let page = args.out.join("diff.html");
            let shown = page.canonicalize().unwrap_or(page);
            let sentences = compared.headline.join("\n");
            writeln!(stdout, "{sentences}\ncomparison: {}", shown.display())
        }
    }
    .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}
