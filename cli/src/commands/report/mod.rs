//! `isomer report`: the files of a report from its `report.json`, and its attestation.

pub(super) mod attest;

use std::{io::Write, path::Path, process::ExitCode};

use isomer_eval::report;

use super::stdout_failure;
use crate::{
    args::{
        Format, Global,
        report::{ReportArgs, ReportCommand},
    },
    exit::Failure,
};

pub(super) async fn run(global: &Global, args: &ReportArgs) -> Result<ExitCode, Failure> {
    match (&args.command, &args.input) {
        (Some(ReportCommand::Attest(args)), _) => attest::attest(global, args),
        (Some(ReportCommand::Verify(args)), _) => attest::verify_one(global, args).await,
        (None, Some(input)) => files(global, input, &args.out),
        (None, None) => Err(Failure::usage("--input: name the report.json of a check")),
    }
}

fn files(global: &Global, input: &Path, out: &Path) -> Result<ExitCode, Failure> {
    let name = input.display();
    let json =
        std::fs::read(input).map_err(|error| Failure::dependency(format!("--input: cannot read {name}: {error}")))?;
    let report = report::read(&json).map_err(|error| Failure::usage(format!("--input: {name}: {error}")))?;
    let files = report::files(&report).map_err(Failure::dependency)?;
    std::fs::create_dir_all(out)
        .map_err(|error| Failure::dependency(format!("--out: cannot make {}: {error}", out.display())))?;
    let mut written = Vec::with_capacity(files.len());
    for (file, content) in files {
        let path = out.join(file);
        std::fs::write(&path, content)
            .map_err(|error| Failure::dependency(format!("--out: cannot write {}: {error}", path.display())))?;
        written.push(path.display().to_string());
    }
    let text = match global.format {
        Format::Text => written.join("\n"),
        Format::Json => serde_json::json!({ "files": written }).to_string(),
    };
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}
