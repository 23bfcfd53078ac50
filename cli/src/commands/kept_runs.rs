//! Reports with their items, from files or from the store of runs.

use std::path::{Path, PathBuf};

use isomer_client::Channel;
use isomer_eval::report::{self, Report, RunItems};
use isomer_proto::eval::v1::{GetReportRequest, ReportFormat, run_service_client::RunServiceClient};

use crate::{
    connect::{Connection, MAX_MESSAGE_BYTES, Session},
    exit::Failure,
};

/// The selected encoder: the named one, else the only one.
pub(super) fn encoder<'a>(
    (side, flag): (&str, &str),
    named: Option<&'a str>,
    report: &'a Report,
) -> Result<&'a str, Failure> {
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

/// Writes files into the folder of `--out`.
pub(super) fn written(out: &Path, files: &[(&'static str, Vec<u8>)]) -> Result<(), Failure> {
    let io_failure = |path: &Path, error: std::io::Error| {
        Failure::dependency(format!("--out: cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(out).map_err(|error| io_failure(out, error))?;
    for (name, content) in files {
        let path = out.join(name);
        std::fs::write(&path, content).map_err(|error| io_failure(&path, error))?;
    }
    Ok(())
}

/// Runs stored on this machine or by the server; connects on first use.
pub(super) struct Runs<'a> {
    session: &'a Session,
    open: Option<(Connection, RunServiceClient<Channel>)>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(session: &'a Session) -> Self {
        Self { session, open: None }
    }

    /// The service that stores them.
    pub(super) async fn client(&mut self) -> Result<&mut RunServiceClient<Channel>, Failure> {
        let (_, client) = match self.open.take() {
            Some(open) => self.open.insert(open),
            None => {
                let connection = self.session.connect().await?;
                let client =
                    RunServiceClient::new(connection.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
                self.open.insert((connection, client))
            }
        };
        Ok(client)
    }

    pub(super) async fn report(&mut self, id: &str) -> Result<Report, Failure> {
        let json = self.file(id, ReportFormat::Json).await?;
        report::read(&json).map_err(|error| Failure::usage(format!("the report of run {id} {error}")))
    }

    async fn file(&mut self, id: &str, format: ReportFormat) -> Result<Vec<u8>, Failure> {
        let client = self.client().await?;
        let request = GetReportRequest {
            id: id.to_owned(),
            format: format.into(),
        };
        Ok(client.get_report(request).await?.into_inner().content)
    }
}

/// The report and the items of a side.
pub(super) async fn load(side: &str, name: &str, runs: &mut Runs<'_>) -> Result<(Report, RunItems), Failure> {
    let invalid = |what: &str, error: String| Failure::usage(format!("{side}: {what} {error}"));
    let path = Path::new(name);
    let file: Option<PathBuf> = if path.is_dir() {
        Some(path.join("report.json"))
    } else {
        path.is_file().then(|| path.to_owned())
    };
    let Some(file) = file else {
        if name.contains(['/', '\\']) || Path::new(name).extension().is_some() {
            return Err(Failure::usage(format!("{side}: {name}: no such file or folder")));
        }
        let json = runs
            .file(name, ReportFormat::Json)
            .await
            .map_err(|error| no_run(side, name, error))?;
        let report = report::read(&json).map_err(|error| invalid(&format!("the report of run {name}"), error))?;
        let items = kept(side, &report, runs).await?;
        return Ok((report, items));
    };
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| Failure::unreadable(format!("{side}: cannot read {}: {error}", path.display()), &error))
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

/// The failure to find a name that is neither a path nor a run.
fn no_run(side: &str, name: &str, error: Failure) -> Failure {
    error.of_flag(&format!("{side}: no file or folder {name}, and as a run"))
}

/// The report in a folder or file, or of a run.
pub(super) async fn load_report(side: &str, name: &str, runs: &mut Runs<'_>) -> Result<Report, Failure> {
    let path = Path::new(name);
    let file = if path.is_dir() {
        path.join("report.json")
    } else {
        path.to_owned()
    };
    if !file.is_file() && !name.contains(['/', '\\']) && path.extension().is_none() {
        return runs.report(name).await.map_err(|error| no_run(side, name, error));
    }
    let json = std::fs::read(&file)
        .map_err(|error| Failure::unreadable(format!("{side}: cannot read {}: {error}", file.display()), &error))?;
    report::read(&json).map_err(|error| Failure::usage(format!("{side}: {} {error}", file.display())))
}

/// The items stored with the run of a report.
async fn kept(side: &str, report: &Report, runs: &mut Runs<'_>) -> Result<RunItems, Failure> {
    let id = &report.run.id;
    let place = match &runs.session.global.server {
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
