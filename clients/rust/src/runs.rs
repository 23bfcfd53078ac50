//! Robustness checks as long-running work.

use std::path::Path;

use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use isomer_proto::eval::v1::{
    CancelRunRequest, CreateRunRequest, DeleteRunRequest, GetFleetRequest, GetFleetResponse, GetHistoryRequest,
    GetHistoryResponse, GetReportRequest, GetRunRequest, ListRunsRequest, PlanRunRequest, ReportFormat, Run, RunPlan,
    RunSpec, SuiteRef, WatchRunRequest, WatchRunResponse, run_service_client::RunServiceClient, suite_ref,
    watch_run_response::Event,
};
use tokio::time::timeout_at;
use tonic::Streaming;
use uuid::Uuid;

use crate::{
    Error,
    call::{Calls, opened, unary},
    pages::pages,
};

const WATCH: &str = "/isomer.eval.v1.RunService/WatchRun";

/// RunService: [`Client::runs`](crate::Client::runs).
#[derive(Debug, Clone)]
pub struct Runs(pub(crate) Calls);

/// A report of a run in one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The file.
    pub content: Vec<u8>,
    /// Media type of the content.
    pub media_type: String,
    /// Suggested file name.
    pub file_name: String,
}

/// Specification of a run: a suite that ships with Isomer by its name, or the file of one
/// (`….toml`), which is sent as its text; and the encoders. Set gate, judge and so on in what it
/// returns.
///
/// # Errors
/// [`Error::InvalidArgument`] where the file cannot be read.
pub fn run_spec<T: Into<String>>(suite: &str, encoders: impl IntoIterator<Item = T>) -> Result<RunSpec, Error> {
    let path = Path::new(suite);
    let suite = if path.extension().is_some_and(|extension| extension == "toml") {
        let bad = |error: std::io::Error| {
            Error::invalid(
                "suite",
                format!("cannot be read: {error}"),
                "give a suite's name, or a file that is there",
            )
        };
        let whole = std::path::absolute(path).map_err(bad)?;
        let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        SuiteRef {
            source: Some(suite_ref::Source::Toml(std::fs::read_to_string(path).map_err(bad)?)),
            file_name: part(whole.file_name()),
            base_dir: part(whole.parent().map(Path::as_os_str)),
        }
    } else {
        SuiteRef {
            source: Some(suite_ref::Source::Builtin(suite.to_owned())),
            ..SuiteRef::default()
        }
    };
    Ok(RunSpec {
        suite: Some(suite),
        encoder_ids: encoders.into_iter().map(Into::into).collect(),
        ..RunSpec::default()
    })
}

/// The run of an answer.
fn some(run: Option<Run>) -> Result<Run, Error> {
    run.ok_or_else(|| Error::bad_answer("the server answered without a run"))
}

impl Runs {
    /// Starts a run. It has a request id of its own, so that a repeated request makes no second
    /// run.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn create(&self, spec: RunSpec) -> Result<Run, Error> {
        self.create_with_id(spec, Uuid::new_v4().to_string()).await
    }

    /// Starts a run, or gives the one that was started with that request id.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn create_with_id(&self, spec: RunSpec, request_id: impl Into<String>) -> Result<Run, Error> {
        let request = CreateRunRequest {
            spec: Some(spec),
            request_id: request_id.into(),
        };
        let answer = unary!(
            self.0,
            RunServiceClient.create_run,
            "/isomer.eval.v1.RunService/CreateRun",
            request
        );
        some(answer?.run)
    }

    /// The expected usage of a run, and how probably its rules decide.
    ///
    /// # Errors
    /// If the server refuses the run.
    pub async fn plan(&self, spec: RunSpec) -> Result<RunPlan, Error> {
        self.planned(spec, None).await
    }

    /// The same, with the rows for a wanted probability of a pass ([`RunPlan::design`]), e.g. 0.8.
    ///
    /// # Errors
    /// If the server refuses the run.
    pub async fn plan_for(&self, spec: RunSpec, power: f64) -> Result<RunPlan, Error> {
        self.planned(spec, Some(power)).await
    }

    async fn planned(&self, spec: RunSpec, power: Option<f64>) -> Result<RunPlan, Error> {
        let spec = Some(spec);
        let answer = unary!(
            self.0,
            RunServiceClient.plan_run,
            "/isomer.eval.v1.RunService/PlanRun",
            PlanRunRequest { spec, power }
        );
        Ok(answer?.plan.unwrap_or_default())
    }

    /// A run as it is now.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn get(&self, id: &str) -> Result<Run, Error> {
        let answer = unary!(
            self.0,
            RunServiceClient.get_run,
            "/isomer.eval.v1.RunService/GetRun",
            GetRunRequest { id: id.to_owned() }
        );
        some(answer?.run)
    }

    /// Runs, newest first.
    pub fn list(&self) -> BoxStream<'static, Result<Run, Error>> {
        let calls = self.0.clone();
        pages(move |page_token| {
            let calls = calls.clone();
            async move {
                let request = ListRunsRequest {
                    page_token,
                    ..ListRunsRequest::default()
                };
                let answer = unary!(
                    calls,
                    RunServiceClient.list_runs,
                    "/isomer.eval.v1.RunService/ListRuns",
                    request
                );
                answer.map(|answer| (answer.runs, answer.next_page_token))
            }
        })
    }

    /// The run's events after a sequence number (0: from its start), until it ends. A connection
    /// that breaks is made again where it stood.
    pub fn watch(&self, id: &str, after: u64) -> BoxStream<'static, Result<WatchRunResponse, Error>> {
        let watch = Watch {
            calls: self.0.clone(),
            id: id.to_owned(),
            after,
            events: None,
            attempt: 1,
            ended: false,
        };
        stream::try_unfold(watch, |mut watch| async move {
            Ok(watch.next().await?.map(|event| (event, watch)))
        })
        .boxed()
    }

    /// The run as it ended. `progress` is called with each event on the way.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn wait(&self, id: &str, mut progress: impl FnMut(&WatchRunResponse)) -> Result<Run, Error> {
        let mut events = self.watch(id, 0);
        while let Some(event) = events.try_next().await? {
            match event.event {
                Some(Event::Ended(run)) => return Ok(run),
                _ => progress(&event),
            }
        }
        self.get(id).await
    }

    /// Stops a run. Finished work stays stored.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<Run, Error> {
        let request = CancelRunRequest {
            id: id.to_owned(),
            reason: reason.to_owned(),
        };
        let answer = unary!(
            self.0,
            RunServiceClient.cancel_run,
            "/isomer.eval.v1.RunService/CancelRun",
            request
        );
        some(answer?.run)
    }

    /// Forgets a run that has ended, its report included.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        unary!(
            self.0,
            RunServiceClient.delete_run,
            "/isomer.eval.v1.RunService/DeleteRun",
            DeleteRunRequest { id: id.to_owned() }
        )
        .map(drop)
    }

    /// The workers that do the work of runs, and what active runs wait for.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn fleet(&self) -> Result<GetFleetResponse, Error> {
        unary!(
            self.0,
            RunServiceClient.get_fleet,
            "/isomer.eval.v1.RunService/GetFleet",
            GetFleetRequest {}
        )
    }

    /// The releases of an encoder over the runs that are kept, in each form.
    ///
    /// # Errors
    /// If the server refuses the request, or no stored run has the encoder.
    pub async fn history(&self, request: GetHistoryRequest) -> Result<GetHistoryResponse, Error> {
        unary!(
            self.0,
            RunServiceClient.get_history,
            "/isomer.eval.v1.RunService/GetHistory",
            request
        )
    }

    /// The report of a run that succeeded, in one form.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn report(&self, id: &str, format: ReportFormat) -> Result<Report, Error> {
        let request = GetReportRequest {
            id: id.to_owned(),
            format: format.into(),
        };
        let answer = unary!(
            self.0,
            RunServiceClient.get_report,
            "/isomer.eval.v1.RunService/GetReport",
            request
        )?;
        Ok(Report {
            content: answer.content,
            media_type: answer.media_type,
            file_name: answer.file_name,
        })
    }
}

/// Events of a run, over as many connections as it takes.
struct Watch {
    calls: Calls,
    id: String,
    after: u64,
    events: Option<Streaming<WatchRunResponse>>,
    attempt: u32,
    ended: bool,
}

impl Watch {
    async fn next(&mut self) -> Result<Option<WatchRunResponse>, Error> {
        if self.ended {
            return Ok(None);
        }
        loop {
            let until = self.calls.until();
            let received = match until {
                Some(until) => timeout_at(until, self.receive())
                    .await
                    .unwrap_or_else(|_| Err(Error::deadline(WATCH, 1))),
                None => self.receive().await,
            };
            match received {
                Ok(None) => return Ok(None),
                Ok(Some(event)) => {
                    self.attempt = 1;
                    self.after = event.sequence;
                    self.ended = matches!(event.event, Some(Event::Ended(_)));
                    return Ok(Some(event));
                }
                Err(error) => {
                    self.events = None;
                    self.calls.pause(error, WATCH, self.attempt, until).await?;
                    self.attempt += 1;
                }
            }
        }
    }

    async fn receive(&mut self) -> Result<Option<WatchRunResponse>, Error> {
        let mut events = match self.events.take() {
            Some(events) => events,
            None => {
                let request = WatchRunRequest {
                    id: self.id.clone(),
                    after_sequence: self.after,
                };
                opened!(
                    self.calls,
                    RunServiceClient.watch_run,
                    "/isomer.eval.v1.RunService/WatchRun",
                    request
                )?
            }
        };
        let attempt = self.attempt;
        let event = events
            .message()
            .await
            .map_err(|status| Error::from_status(&status, WATCH, attempt))?;
        self.events = Some(events);
        Ok(event)
    }
}
