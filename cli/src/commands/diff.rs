//! `isomer diff`: two encoders on the same items.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use isomer_client::Channel;
use isomer_eval::report::{
    self, Report, RunItems,
    diff::{self, DiffOptions, Side, ThresholdOf},
};
use isomer_proto::eval::v1::{GetReportRequest, ReportFormat, run_service_client::RunServiceClient};

use super::stdout_failure;
use crate::{
    args::{
        Format, Global,
        diff::{DiffArgs, ThresholdArg},
    },
    connect::{self, Connection, MAX_MESSAGE_BYTES},
    exit::Failure,
};

pub(super) async fn run(global: &Global, args: DiffArgs) -> Result<ExitCode, Failure> {
    let mut runs = Runs { global, open: None };
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
    let told = |path: &Path, error: std::io::Error| {
        Failure::dependency(format!("--out: cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(&args.out).map_err(|error| told(&args.out, error))?;
    for (name, content) in &files {
        let path = args.out.join(name);
        std::fs::write(&path, content).map_err(|error| told(&path, error))?;
    }
    let mut stdout = std::io::stdout().lock();
    match global.format {
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

/// The encoder to compare: the one that was named, else the only one.
fn encoder<'a>((side, flag): (&str, &str), named: Option<&'a str>, report: &'a Report) -> Result<&'a str, Failure> {
    match (named, report.encoders.as_slice()) {
        (Some(named), _) => Ok(named),
        (None, [one]) => Ok(&one.id),
        (None, several) => {
            let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
            Err(Failure::usage(format!(
                "{side} has {} encoders; name one with {flag}: {}",
                several.len(),
                ids.join(", ")
            )))
        }
    }
}

/// Runs that are kept on this machine or by the server; connected to when one is first asked for.
struct Runs<'a> {
    global: &'a Global,
    open: Option<(Connection, RunServiceClient<Channel>)>,
}

impl Runs<'_> {
    async fn file(&mut self, id: &str, format: ReportFormat) -> Result<Vec<u8>, Failure> {
        let (_, client) = match self.open.take() {
            Some(open) => self.open.insert(open),
            None => {
                let connection = connect::connect(self.global).await?;
                let client =
                    RunServiceClient::new(connection.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
                self.open.insert((connection, client))
            }
        };
        let request = GetReportRequest {
            id: id.to_owned(),
            format: format.into(),
        };
        Ok(client.get_report(request).await?.into_inner().content)
    }
}

/// The report and the items of a side.
async fn load(side: &str, name: &str, runs: &mut Runs<'_>) -> Result<(Report, RunItems), Failure> {
    let invalid = |what: &str, error: String| Failure::usage(format!("{side}: {what} {error}"));
    let path = Path::new(name);
    let file: Option<PathBuf> = if path.is_dir() {
        Some(path.join("report.json"))
    } else {
        path.is_file().then(|| path.to_owned())
    };
    let Some(file) = file else {
        if name.contains(['/', '\\']) || Path::new(name).extension().is_some() {
            return Err(Failure::dependency(format!(
                "{side}: there is no file or folder {name}"
            )));
        }
        let told = format!("{side}: {name} is no file or folder here, and as a run");
        let json = runs
            .file(name, ReportFormat::Json)
            .await
            .map_err(|error| error.of_flag(&told))?;
        let report = report::read(&json).map_err(|error| invalid(&format!("the report of run {name}"), error))?;
        let items = kept(side, &report, runs).await?;
        return Ok((report, items));
    };
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| Failure::dependency(format!("{side}: cannot read {}: {error}", path.display())))
    };
    let shown = file.display().to_string();
    let report = report::read(&read(&file)?).map_err(|error| invalid(&shown, error))?;
    let beside = file.with_file_name("items.json");
    let items = if beside.is_file() {
        let shown = beside.display().to_string();
        report::read_items(&read(&beside)?).map_err(|error| invalid(&shown, error))?
    } else {
        kept(side, &report, runs).await?
    };
    Ok((report, items))
}

/// The items that are kept with the run of a report.
async fn kept(side: &str, report: &Report, runs: &mut Runs<'_>) -> Result<RunItems, Failure> {
    let id = &report.run.id;
    let place = match &runs.global.server {
        Some(server) => server.clone(),
        None => "this machine".to_owned(),
    };
    let json = runs.file(id, ReportFormat::Items).await.map_err(|error| {
        error.of_flag(&format!(
            "{side}: there is no items.json beside the report, and {place} does not give the items of its run {id}"
        ))
    })?;
    report::read_items(&json).map_err(|error| Failure::usage(format!("{side}: the items of run {id}: {error}")))
}
