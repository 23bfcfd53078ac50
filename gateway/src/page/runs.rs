//! Lists eval-svc's runs and fetches their reports.

use isomer_access::Caller;
use isomer_proto::eval::v1::{
    GetFleetRequest, GetFleetResponse, GetReportRequest, ListRunsRequest, ReportFormat, Run,
    run_service_client::RunServiceClient,
};
use isomer_service_kit::{CALLER, CallDeadline, Fault};
use tokio::time::Instant;
use tonic::{Code, Request, metadata::MetadataValue};

use super::Pages;
use crate::{proxy::Servers, runs::viewer};

/// How many runs are shown, the newest first.
const SHOWN: u32 = 50;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

pub(super) fn client(pages: &Pages) -> Result<RunServiceClient<Servers>, Fault> {
    let channel = pages.upstream_servers.runs().ok_or_else(|| {
        Fault::not_found("NO_RUNS", "this gateway has no evaluation service")
            .hint("name one in its configuration: eval.address")
    })?;
    Ok(RunServiceClient::new(channel).max_decoding_message_size(pages.max_message_bytes))
}

/// Adds the name of the caller whose runs are shown.
pub(super) fn name<T>(request: &mut Request<T>, caller: Option<&Caller>) {
    if let Some(principal) = viewer(caller) {
        let value = principal.parse().unwrap_or(MetadataValue::from_static("unknown"));
        request.metadata_mut().insert(CALLER, value);
    }
}

/// The newest runs, or the reason why they cannot be listed.
pub(super) async fn list(pages: &Pages, caller: Option<&Caller>) -> Result<Vec<Run>, Fault> {
    let mut request = Request::new(ListRunsRequest {
        page_size: SHOWN,
        page_token: String::new(),
    });
    request.extensions_mut().insert(CallDeadline(Instant::now() + PATIENCE));
    name(&mut request, caller);
    let answer = client(pages)?
        .list_runs(request)
        .await
        .map_err(|status| Fault::from_status(&status))?;
    Ok(answer.into_inner().runs)
}

/// The workers that process runs, their lanes, and the reasons why runs wait; or the reason why
/// these cannot be shown.
pub(super) async fn fleet(pages: &Pages, caller: Option<&Caller>) -> Result<GetFleetResponse, Fault> {
    if pages.upstream_servers.runs().is_none() {
        return Ok(GetFleetResponse::default());
    }
    let mut request = Request::new(GetFleetRequest {});
    request.extensions_mut().insert(CallDeadline(Instant::now() + PATIENCE));
    name(&mut request, caller);
    match client(pages)?.get_fleet(request).await {
        Ok(answer) => Ok(answer.into_inner()),
        // The server has an earlier version.
        Err(status) if status.code() == Code::Unimplemented => Ok(GetFleetResponse::default()),
        Err(status) => Err(Fault::from_status(&status)),
    }
}

/// One format of a report, by its file name.
pub(super) async fn report(
    pages: &Pages,
    caller: Option<&Caller>,
    id: &str,
    file: &str,
) -> Result<(Vec<u8>, String), Fault> {
    let format = match file {
        "report.html" => ReportFormat::Html,
        "report.json" => ReportFormat::Json,
        "report.md" => ReportFormat::Markdown,
        "junit.xml" => ReportFormat::Junit,
        "items.json" => ReportFormat::Items,
        other => {
            return Err(
                Fault::not_found("NO_SUCH_PATH", format!("a report has no file `{other}`"))
                    .hint("one of report.html, report.json, report.md, junit.xml, items.json"),
            );
        }
    };
    let mut request = Request::new(GetReportRequest {
        id: id.to_owned(),
        format: format.into(),
    });
    name(&mut request, caller);
    let answer = client(pages)?
        .get_report(request)
        .await
        .map_err(|status| Fault::from_status(&status))?
        .into_inner();
    Ok((answer.content, answer.media_type))
}
