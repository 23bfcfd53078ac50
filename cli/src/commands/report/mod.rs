//! `isomer report`: the files of a report from its `report.json`, and its attestation.

#[cfg(feature = "evidence")]
pub(super) mod attest;
#[cfg(feature = "evidence")]
mod export;
#[cfg(feature = "evidence")]
mod push;

use std::{io::Write, path::Path, process::ExitCode};

use isomer_eval::report::{self, Report};

use super::stdout_failure;
#[cfg(feature = "evidence")]
use crate::args::report::ReportCommand;
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
    let json =
        std::fs::read(file).map_err(|error| Failure::dependency(format!("{flag}: cannot read {name}: {error}")))?;
    let report = report::read(&json).map_err(|error| Failure::usage(format!("{flag}: {name}: {error}")))?;
    Ok((report, json))
}

/// Writes files into a folder, and says which.
fn write(global: &Global, files: Vec<(String, Vec<u8>)>, out: &Path) -> Result<ExitCode, Failure> {
    write_and(global, files, out, None)
}

/// [`write()`], and says something more, as a line or as the members of a document.
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

#[cfg(feature = "evidence")]
/// The file of one of several encoders. Ids may be paths or names with `/`.
fn file_of(kind: &str, encoder: &str, end: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let safe: String = encoder.chars().map(plain).collect();
    format!("{kind}-{}{end}", safe.trim_matches(['-', '.']))
}

#[cfg(feature = "evidence")]
/// One file for each encoder; its name names the encoder if there are several.
fn of_encoders(kind: &str, all: Vec<(String, Vec<u8>)>, end: &str) -> Vec<(String, Vec<u8>)> {
    let several = all.len() > 1;
    let mut files: Vec<(String, Vec<u8>)> = Vec::with_capacity(all.len());
    for (encoder, content) in all {
        let mut name = if several {
            file_of(kind, &encoder, end)
        } else {
            format!("{kind}{end}")
        };
        if files.iter().any(|(taken, _)| *taken == name) {
            name = file_of(kind, &format!("{encoder}-{}", files.len() + 1), end);
        }
        files.push((name, content));
    }
    files
}

#[cfg(all(test, feature = "evidence"))]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_encoder_stays_in_its_folder() {
        let name = |encoder| file_of("card", encoder, ".md");
        assert_eq!(name("all-MiniLM-L6-v2"), "card-all-MiniLM-L6-v2.md");
        assert_eq!(name("org/model"), "card-org-model.md");
        assert_eq!(name("../../etc/passwd"), "card-etc-passwd.md");
        assert_eq!(name("/models/é"), "card-models.md");
    }

    #[test]
    fn encoders_of_similar_ids_have_files_of_their_own() {
        let names = |ids: &[&str]| {
            let all = ids.iter().map(|id| ((*id).to_owned(), Vec::new())).collect();
            let files = of_encoders("card", all, ".md").into_iter();
            files.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["a/b"]), ["card.md"]);
        assert_eq!(
            names(&["a/b", "a-b", "a b"]),
            ["card-a-b.md", "card-a-b-2.md", "card-a-b-3.md"]
        );
    }
}
