//! `isomer ratings`: ratings of rewrites by people.

use std::{
    io::{Read, Write},
    path::Path,
    process::ExitCode,
};

use isomer_eval::{
    judging::Scale,
    report::ratings::{self, JudgedRun, RatingOptions, SheetOptions},
};
use isomer_proto::ProtoEnum;
use serde_json::json;

use super::{
    kept_runs::{Runs, load, written},
    stdout_failure, writable_folder, write_failure,
};
use crate::{
    args::{
        Format,
        ratings::{RatedRunArgs, RatingsCommand, RatingsReportArgs, SheetArgs},
    },
    connect::Session,
    exit::Failure,
};

pub(super) async fn run(session: &Session, command: RatingsCommand) -> Result<ExitCode, Failure> {
    match command {
        RatingsCommand::Sheet(args) => Box::pin(sheet(session, &args)).await,
        RatingsCommand::Report(args) => Box::pin(report(session, &args)).await,
    }
}

fn scale(args: &RatedRunArgs) -> Result<Scale, Failure> {
    args.scale
        .among(Scale::ALL, Scale::name)
        .ok_or_else(|| Failure::usage("--scale: give similarity, quality or fluency"))
}

async fn sheet(session: &Session, args: &SheetArgs) -> Result<ExitCode, Failure> {
    let (report, items) = load("RUN", &args.run.check, &mut Runs::new(session)).await?;
    let run = JudgedRun {
        report: &report,
        items: &items,
    };
    let options = SheetOptions {
        scale: scale(&args.run)?,
        accept: args.run.accept,
        rewrites: args.rewrites,
        raters: args.raters,
    };
    let made = ratings::sheet(run, &options).map_err(|error| Failure::usage(error.to_string()))?;
    let mut stdout = std::io::stdout().lock();
    if args.out.as_os_str() == "-" {
        stdout.write_all(&made.csv).map_err(|error| stdout_failure(&error))?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = args.out.display().to_string();
    std::fs::write(&args.out, &made.csv).map_err(|error| write_failure(&shown, &error))?;
    let ([accepted, others], [all_accepted, all_others]) = (made.drawn, made.rewrites);
    match session.global.format {
        Format::Json => {
            let document = json!({
                "sheet": shown,
                "accept": made.accept,
                "accepted_by_the_judge": {"drawn": accepted, "rewrites": all_accepted},
                "not_accepted": {"drawn": others, "rewrites": all_others},
            });
            writeln!(stdout, "{document:#}")
        }
        Format::Text => writeln!(
            stdout,
            "{shown}: {accepted} of {all_accepted} rewrites that the judge accepts (a rating of at least {}), {others} of {all_others} \
             others\nnext: isomer ratings report {} --ratings {shown}",
            made.accept, args.run.check
        ),
    }
    .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

async fn report(session: &Session, args: &RatingsReportArgs) -> Result<ExitCode, Failure> {
    writable_folder(&args.out)?;
    let csv = read(&args.ratings)?;
    let (report, items) = load("RUN", &args.run.check, &mut Runs::new(session)).await?;
    let run = JudgedRun {
        report: &report,
        items: &items,
    };
    let options = RatingOptions {
        scale: scale(&args.run)?,
        accept: args.run.accept,
        confidence: args.confidence,
        drawn_elsewhere: args.drawn_elsewhere,
    };
    let found = ratings::ratings(run, &csv, &options).map_err(|error| Failure::usage(error.to_string()))?;
    let files = ratings::files(&found).map_err(Failure::dependency)?;
    written(&args.out, &files)?;
    let mut stdout = std::io::stdout().lock();
    match session.global.format {
        Format::Json => {
            let json = files.iter().find(|(name, _)| *name == "ratings.json");
            stdout.write_all(json.map(|(_, content)| content.as_slice()).unwrap_or_default())
        }
        Format::Text => {
            let file = args.out.join("ratings.html");
            let shown = file.canonicalize().unwrap_or(file);
            let notes: String = found.notes.iter().map(|note| format!("note: {note}\n")).collect();
            writeln!(
                stdout,
                "{}\n{notes}ratings: {}",
                found.headline.join("\n"),
                shown.display()
            )
        }
    }
    .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_end(&mut content).map(|_| content),
        false => std::fs::read(file),
    };
    read.map_err(|error| Failure::unreadable(format!("--ratings: cannot read {}: {error}", file.display()), &error))
}
