//! `isomer report`: the files of a report from its `report.json`.

use std::{io::Write, process::ExitCode};

use isomer_eval::report;

use super::stdout_failure;
use crate::{
    args::{Format, Global, ReportArgs},
    exit::Failure,
};

pub(super) fn run(global: &Global, args: &ReportArgs) -> Result<ExitCode, Failure> {
    let name = args.input.display();
    let json = std::fs::read(&args.input)
        .map_err(|error| Failure::dependency(format!("--input: cannot read {name}: {error}")))?;
    let report = report::read(&json).map_err(|error| Failure::usage(format!("--input: {name}: {error}")))?;
    let files = report::files(&report).map_err(Failure::dependency)?;
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Failure::dependency(format!("--out: cannot make {}: {error}", args.out.display())))?;
    let mut written = Vec::with_capacity(files.len());
    for (file, content) in files {
        let path = args.out.join(file);
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
