//! gRPC handlers for runs, which convert protos. The work is done in [`crate::run`].

mod convert;
#[cfg(feature = "fleet")]
pub(crate) mod fleet;
mod forecast;
mod gate;
mod history;
mod judge;
mod limits;
mod separation;

use std::time::Duration;

use futures::StreamExt;
use isomer_proto::eval::v1::{
    CancelRunRequest, CancelRunResponse, CreateRunRequest, CreateRunResponse, DeleteRunRequest, DeleteRunResponse,
    GetFleetRequest, GetFleetResponse, GetHistoryRequest, GetHistoryResponse, GetReportRequest, GetReportResponse,
    GetRunRequest, GetRunResponse, ListRunsRequest, ListRunsResponse, PlanRunRequest, PlanRunResponse, Run,
    WatchRunRequest, WatchRunResponse, run_service_server::RunService,
};
use isomer_service_kit::{CALLER, Fault, Tenant};
use prost::Message;
use tonic::{Request, Response, Status, codegen::BoxStream};

use crate::run::{Owner, RunManager};

/// Maximum size of a page in bytes, unless its first run alone is larger: a client's limit on
/// messages is often 4 MiB.
const PAGE_BYTES: usize = 3 << 20;
/// Default number of entries on a page.
const PAGE: u32 = 100;
/// Maximum number of entries on a page.
const MOST_PER_PAGE: u32 = 1000;

/// Serves `isomer.eval.v1.RunService`.
#[derive(Debug, Clone)]
pub(crate) struct RunHandler {
    runs: RunManager,
}

impl RunHandler {
    pub(crate) fn new(runs: RunManager) -> Self {
        Self { runs }
    }

    /// Runs work that awaits other services and computes or reads files in between, on a blocking
    /// thread. It continues if the caller disconnects.
    async fn away<T, F>(&self, work: impl FnOnce(RunManager) -> F + Send + 'static) -> Result<T, Status>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>>,
    {
        let runs = self.runs.clone();
        let runtime = tokio::runtime::Handle::current();
        let done = tokio::task::spawn_blocking(move || runtime.block_on(work(runs))).await;
        let done = done.map_err(|error| Fault::internal(format!("a task died: {error}")))?;
        done.map_err(Into::into)
    }
}

fn owner<T>(request: &Request<T>) -> Owner {
    Owner {
        name: caller(request),
        tenant: Tenant::of_request(request),
    }
}

fn caller<T>(request: &Request<T>) -> Option<String> {
    let value = request.metadata().get(CALLER)?;
    // An unreadable name owns no runs.
    Some(value.to_str().unwrap_or_default().to_owned())
}

fn id(id: String) -> Result<String, Fault> {
    if id.is_empty() {
        Err(Fault::invalid("id", "is empty; give a run's id"))
    } else {
        Ok(id)
    }
}

/// The first runs that fit on a page, and whether others are left.
fn fitting(runs: impl Iterator<Item = Run>) -> (Vec<Run>, bool) {
    let (mut fit, mut bytes) = (Vec::new(), 0);
    for run in runs {
        bytes += run.encoded_len();
        if bytes > PAGE_BYTES && !fit.is_empty() {
            return (fit, true);
        }
        fit.push(run);
    }
    (fit, false)
}

#[tonic::async_trait]
impl RunService for RunHandler {
    async fn create_run(&self, request: Request<CreateRunRequest>) -> Result<Response<CreateRunResponse>, Status> {
        let owner = owner(&request);
        let request = request.into_inner();
        let record = self
            .away(move |runs| async move {
                let asked = convert::request(request.spec)?;
                let request_id = Some(request.request_id).filter(|id| !id.is_empty());
                runs.create(asked, request_id, owner).await.map_err(Fault::from)
            })
            .await?;
        Ok(Response::new(CreateRunResponse {
            run: Some(convert::run(record)),
        }))
    }

    async fn plan_run(&self, request: Request<PlanRunRequest>) -> Result<Response<PlanRunResponse>, Status> {
        let owner = owner(&request);
        let PlanRunRequest { spec, power } = request.into_inner();
        // Only its caller needs a plan, so planning ends with the call.
        let asked = convert::request(spec)?;
        let forecast = self.runs.forecast(asked, power, owner).await.map_err(Fault::from)?;
        Ok(Response::new(PlanRunResponse {
            plan: Some(forecast::plan(forecast)),
        }))
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> Result<Response<GetRunResponse>, Status> {
        let viewer = caller(&request);
        let id = id(request.into_inner().id)?;
        let record = self.runs.get_for(&id, viewer.as_deref()).await.map_err(Fault::from)?;
        Ok(Response::new(GetRunResponse {
            run: Some(convert::run(record)),
        }))
    }

    async fn list_runs(&self, request: Request<ListRunsRequest>) -> Result<Response<ListRunsResponse>, Status> {
        let viewer = caller(&request);
        let request = request.into_inner();
        let size = if request.page_size == 0 {
            PAGE
        } else {
            request.page_size.min(MOST_PER_PAGE)
        } as usize;
        let before = Some(request.page_token).filter(|token| !token.is_empty());
        if let Some(token) = &before
            && uuid::Uuid::try_parse(token).is_err()
        {
            return Err(Fault::invalid("page_token", "is not a page token of ListRuns").into());
        }
        let listed = self.runs.list(size, before.as_deref(), viewer.as_deref()).await;
        let page = listed.map_err(Fault::from)?;
        let (runs, cut) = fitting(page.runs.into_iter().map(convert::run));
        let next_page_token = runs
            .last()
            .filter(|_| page.has_more || cut)
            .map(|last| last.id.clone())
            .unwrap_or_default();
        Ok(Response::new(ListRunsResponse { runs, next_page_token }))
    }

    async fn watch_run(
        &self,
        request: Request<WatchRunRequest>,
    ) -> Result<Response<BoxStream<WatchRunResponse>>, Status> {
        let viewer = caller(&request);
        let request = request.into_inner();
        let id = id(request.id)?;
        self.runs.get_for(&id, viewer.as_deref()).await.map_err(Fault::from)?;
        let events = self
            .runs
            .watch(&id, request.after_sequence)
            .await
            .map_err(Fault::from)?;
        Ok(Response::new(events.map(|event| Ok(convert::event(event))).boxed()))
    }

    async fn cancel_run(&self, request: Request<CancelRunRequest>) -> Result<Response<CancelRunResponse>, Status> {
        let viewer = caller(&request);
        let request = request.into_inner();
        let id = id(request.id)?;
        let record = self
            .away(move |runs| async move {
                runs.get_for(&id, viewer.as_deref()).await?;
                runs.cancel(&id, &request.reason).await.map_err(Fault::from)
            })
            .await?;
        Ok(Response::new(CancelRunResponse {
            run: Some(convert::run(record)),
        }))
    }

    async fn delete_run(&self, request: Request<DeleteRunRequest>) -> Result<Response<DeleteRunResponse>, Status> {
        let viewer = caller(&request);
        let id = id(request.into_inner().id)?;
        self.runs.get_for(&id, viewer.as_deref()).await.map_err(Fault::from)?;
        self.runs.delete(&id).await.map_err(Fault::from)?;
        Ok(Response::new(DeleteRunResponse {}))
    }

    async fn get_report(&self, request: Request<GetReportRequest>) -> Result<Response<GetReportResponse>, Status> {
        let viewer = caller(&request);
        let request = request.into_inner();
        let format = request.format();
        let id = id(request.id)?;
        self.runs.get_for(&id, viewer.as_deref()).await.map_err(Fault::from)?;
        let file = self.runs.report(&id, format).await.map_err(Fault::from)?;
        Ok(Response::new(GetReportResponse {
            content: file.content,
            media_type: file.media_type.to_owned(),
            file_name: file.file_name.to_owned(),
        }))
    }

    async fn get_fleet(&self, request: Request<GetFleetRequest>) -> Result<Response<GetFleetResponse>, Status> {
        #[cfg(feature = "fleet")]
        return Ok(Response::new(
            fleet::get(&self.runs, caller(&request).as_deref()).await?,
        ));
        // Without workers this process does the work itself.
        #[cfg(not(feature = "fleet"))]
        {
            drop(request);
            Ok(Response::new(GetFleetResponse::default()))
        }
    }

    async fn get_history(&self, request: Request<GetHistoryRequest>) -> Result<Response<GetHistoryResponse>, Status> {
        let viewer = caller(&request);
        let request = request.into_inner();
        let found = self.away(move |runs| async move {
            let options = history::options(&request);
            history::history(runs, &request.encoder_id, options, viewer.as_deref()).await
        });
        Ok(Response::new(found.await?))
    }
}

/// Seconds as a proto duration; the fraction of a nanosecond is dropped.
fn duration(seconds: f64) -> Option<prost_types::Duration> {
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    prost_types::Duration::try_from(duration).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_before_a_run_that_no_longer_fits() {
        let run = |id: usize, bytes: usize| Run {
            id: id.to_string(),
            error: "x".repeat(bytes),
            ..Run::default()
        };
        let ids = |runs: Vec<Run>| runs.into_iter().map(|run| run.id).collect::<Vec<_>>();
        let (fit, cut) = fitting((0..9).map(|id| run(id, 1 << 20)));
        assert_eq!((ids(fit), cut), (vec!["0".to_owned(), "1".to_owned()], true));
        let (fit, cut) = fitting((0..2).map(|id| run(id, 1 << 10)));
        assert_eq!((fit.len(), cut), (2, false));
        let (fit, cut) = fitting((0..2).map(|id| run(id, 9 << 20)));
        assert_eq!((ids(fit), cut), (vec!["0".to_owned()], true));
    }
}
