//! The history of an encoder over the runs that a caller may see.

use isomer_proto::eval::v1::{GetHistoryRequest, GetHistoryResponse, HistoryQuantity, HistoryReference};
use isomer_report::{
    self as report, Report,
    history::{self, HistoryError, HistoryOptions, LeftOutRun},
};
use isomer_service_kit::Fault;

use crate::run::{ReportFormat, RunError, RunManager, RunState};

/// Maximum number of reports that a history reads.
const MOST_RUNS: usize = 500;
/// Runs per page.
const PAGE: usize = 100;

/// The options of a request; missing ones have the command's defaults.
pub(super) fn options(request: &GetHistoryRequest) -> HistoryOptions {
    let default = HistoryOptions::default();
    HistoryOptions {
        of: match request.of() {
            HistoryQuantity::Unspecified | HistoryQuantity::Total => history::HistoryQuantity::Total,
            HistoryQuantity::Original => history::HistoryQuantity::Original,
        },
        margin: request.margin.unwrap_or(default.margin),
        alpha: request.alpha.unwrap_or(default.alpha),
        against_first: request.against() == HistoryReference::First,
        earlier: request.earlier,
        suite: Some(request.suite_digest.clone()).filter(|digest| !digest.is_empty()),
    }
}

/// The history of an encoder over the stored runs of this viewer.
pub(super) async fn history(
    runs: RunManager,
    encoder: &str,
    options: HistoryOptions,
    viewer: Option<&str>,
) -> Result<GetHistoryResponse, Fault> {
    if encoder.is_empty() {
        return Err(Fault::invalid("encoder_id", "is empty; give the id of an encoder"));
    }
    let (reports, without) = reports(&runs, encoder, viewer).await?;
    let mut found = history::history(encoder, &reports, options).map_err(fault)?;
    found.left_out.extend(without);
    let mut response = GetHistoryResponse::default();
    for (name, content) in history::files(&found).map_err(Fault::internal)? {
        match name {
            "history.json" => response.json = content,
            "history.md" => response.markdown = content,
            _ => response.html = content,
        }
    }
    Ok(response)
}

/// The reports of runs that may have the encoder, and its runs without a report.
async fn reports(
    runs: &RunManager,
    encoder: &str,
    viewer: Option<&str>,
) -> Result<(Vec<Report>, Vec<LeftOutRun>), Fault> {
    let (mut reports, mut without, mut read) = (Vec::new(), Vec::new(), 0);
    let mut before: Option<String> = None;
    loop {
        let page = runs.list(PAGE, before.as_deref(), viewer).await.map_err(Fault::from)?;
        before = page.runs.last().map(|last| last.id.clone());
        for record in page.runs {
            // A run that names no encoder used the suite's or the default; its report names the
            // encoder.
            let named = record.request.encoders.as_slice();
            let is_own = |own: &String| {
                // The name of a variant begins with that of its encoder.
                let rest = encoder.strip_prefix(own.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
            };
            if !named.is_empty() && !named.iter().any(is_own) {
                continue;
            }
            let why = match record.state {
                RunState::Succeeded => {
                    if read == MOST_RUNS {
                        return Err(too_many());
                    }
                    read += 1;
                    reports.extend(report_of(runs, &record.id).await?);
                    continue;
                }
                RunState::Failed => "it failed, and has no report",
                RunState::Cancelled => "it was cancelled, and has no report",
                RunState::Pending | RunState::Running | RunState::Unspecified => "it has not ended",
            };
            without.push(LeftOutRun {
                run: record.id,
                why: why.to_owned(),
            });
        }
        if !page.has_more {
            return Ok((reports, without));
        }
    }
}

/// The part of a run's report that a history uses; `None` if the run was deleted in the meantime.
async fn report_of(runs: &RunManager, id: &str) -> Result<Option<Report>, Fault> {
    let file = match runs.report(id, ReportFormat::Json).await {
        Err(RunError::Unknown(_)) => return Ok(None),
        other => other.map_err(Fault::from)?,
    };
    let mut own = report::read(&file.content)
        .map_err(|error| Fault::precondition("UNREADABLE_REPORT", format!("the report of run {id} {error}")))?;
    history::keep(&mut own);
    Ok(Some(own))
}

fn too_many() -> Fault {
    Fault::new(
        tonic::Code::ResourceExhausted,
        "TOO_MANY_RUNS",
        format!("more than {MOST_RUNS} kept runs may have this encoder"),
    )
    .hint("forget the oldest (DeleteRun), and say in `earlier` how many releases they tested")
}

fn fault(error: HistoryError) -> Fault {
    let message = error.to_string();
    match error {
        HistoryError::NoEncoder { .. } => Fault::not_found("NO_HISTORY", message).field("encoder_id"),
        HistoryError::NoSuite { .. } => Fault::not_found("NO_HISTORY", message).field("suite_digest"),
        HistoryError::Option { option, .. } => Fault::invalid(option, message),
        HistoryError::Test(_) => Fault::precondition("UNTESTABLE", message),
    }
}
