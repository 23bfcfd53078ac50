//! `isomer report`: the files of a report from its `report.json`, and its attestation.

#[cfg(feature = "evidence")]
pub(super) mod attest;
#[cfg(feature = "evidence")]
mod encoder_files;
#[cfg(feature = "evidence")]
mod export;
#[cfg(feature = "evidence")]
mod push;

use std::{io::Write, path::Path, process::ExitCode};

use isomer_eval::report::{self, Report};

use super::stdout_failure;
#[cfg(feature = "evidence")]
use crate::args::evidence::ReportCommand;
use crate::{
    args::{Format, Global, report::ReportArgs},
    connect::Session,
    exit::Failure,
};

pub(super) async fn run(session: &Session, args: &ReportArgs) -> Result<ExitCode, Failure> {
    #[cfg(feature = "evidence")]
    if let Some(command) = &args.command {
        return match command {
            ReportCommand::Attest(args) => match &args.push {
                Some(reference) => Box::pin(push::push(session, args, reference)).await,
                None => attest::attest(&session.global, args),
            },
            ReportCommand::Export(args) => export::export(&session.global, args),
            ReportCommand::Verify(args) => attest::verify_one(session, args).await,
        };
    }
    match &args.input {
        Some(input) => files(&session.global, input, &args.out),
        None => Err(Failure::usage("--input: name the report.json of a check")),
    }
}

fn files(global: &Global, input: &Path, out: &Path) -> Result<ExitCode, Failure> {
    let (report, _) = read(input, "--input")?;
    let files = report::files(&report).map_err(Failure::dependency)?;
    let files = files.into_iter().map(|(name, content)| (name.to_owned(), content));
    write(global, files.collect(), out)
}

/// Reads a report, and its bytes.
fn read(file: &Path, flag: &str) -> Result<(Report, Vec<u8>), Failure> {
    let name = file.display();
    let json = std::fs::read(file)
        .map_err(|error| Failure::unreadable(format!("{flag}: cannot read {name}: {error}"), &error))?;
    let report = report::read(&json).map_err(|error| Failure::usage(format!("{flag}: {name}: {error}")))?;
    Ok((report, json))
}

/// Writes files into a folder, and reports their names.
fn write(global: &Global, files: Vec<(String, Vec<u8>)>, out: &Path) -> Result<ExitCode, Failure> {
    write_and(global, files, out, None)
}

/// Like [`write()`], with an additional message, as a line or as members of a document.
fn write_and(
    global: &Global,
    files: Vec<(String, Vec<u8>)>,
    out: &Path,
    more: Option<(String, serde_json::Value)>,
) -> Result<ExitCode, Failure> {
    std::fs::create_dir_all(out)
        .map_err(|error| Failure::dependency(format!("--out: cannot make {}: {error}", out.display())))?;
    let mut written = Vec::with_capacity(files.len());
    for (file, content) in files {
        let path = out.join(file);
        std::fs::write(&path, content)
            .map_err(|error| Failure::dependency(format!("--out: cannot write {}: {error}", path.display())))?;
        written.push(path.display().to_string());
    }
    let (line, mut document) = more.unwrap_or_else(|| (String::new(), serde_json::json!({})));
    let text = match global.format {
        Format::Text => {
            written.extend(Some(line).filter(|line| !line.is_empty()));
            written.join("\n")
        }
        Format::Json => {
            document["files"] = written.into();
            document.to_string()
        }
    };
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}
