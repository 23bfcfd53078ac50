//! Forwards CreateRun unchanged and reads the run from the answer, so that the run can be charged.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::Request,
    response::Response,
    routing::any,
};
use http::request::Parts;
use http_body::{Body as _, Frame};
use isomer_access::Caller;
use isomer_proto::eval::v1::{CancelRunRequest, CreateRunRequest, CreateRunResponse, Run};
use isomer_service_kit::Fault;
use prost::Message;
use tonic::Status;
use tracing::Instrument;

use super::{Follower, ended};
use crate::{
    billing::answer,
    proxy::{self, Upstream},
};

const PATH: &str = "/isomer.eval.v1.RunService/CreateRun";
/// Backoff between attempts to record the payer of a run while the database is unavailable.
const AGAIN: Duration = Duration::from_secs(1);

/// Routes RunService behind the gateway and charges its runs.
pub(crate) fn route(upstream: Upstream, follower: Follower) -> Router {
    let create = {
        let upstream = upstream.clone();
        any(move |request: Request| create(upstream.clone(), follower.clone(), request))
    };
    proxy::route(upstream).route(PATH, create)
}

async fn create(upstream: Upstream, follower: Follower, request: Request) -> Response {
    let caller = request
        .extensions()
        .get::<Caller>()
        .filter(|caller| caller.is_counted());
    let Some(caller) = caller.cloned() else {
        return proxy::forward(upstream, request).await;
    };
    let (mut parts, body) = request.into_parts();
    // The run could not be read from a compressed answer.
    parts.headers.remove("grpc-accept-encoding");
    // The server's limits have already bounded its size.
    let body = match to_bytes(body, usize::MAX).await {
        Ok(body) => body,
        Err(error) => {
            let fault = Fault::invalid("spec", format!("was not received completely: {error}"));
            return Status::from(fault.hint("send the request again")).into_http();
        }
    };
    let gone = DisconnectFlag(Arc::default());
    let left = Arc::clone(&gone.0);
    // Runs in a separate task. Otherwise a client that disconnects at the right moment would get a
    // run without a payer.
    let made = tokio::spawn(make(upstream, follower, caller, (parts, body), left).in_current_span()).await;
    drop(gone);
    made.unwrap_or_else(|error| Status::from(Fault::internal(format!("a task died: {error}"))).into_http())
}

/// When dropped, records that the client has disconnected.
struct DisconnectFlag(Arc<AtomicBool>);

impl Drop for DisconnectFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

async fn make(
    upstream: Upstream,
    follower: Follower,
    caller: Caller,
    (parts, body): (Parts, Bytes),
    left: Arc<AtomicBool>,
) -> Response {
    let named = answer::frame(&body)
        .and_then(|message| CreateRunRequest::decode(message).ok())
        .is_none_or(|request| !request.request_id.is_empty());
    let request = Request::from_parts(parts, Body::from(body));
    let (head, body) = proxy::forward(upstream, request).await.into_parts();
    let (frames, data) = match frames(body).await {
        Ok(read) => read,
        Err(error) => {
            let fault = Fault::unavailable("UPSTREAM_UNAVAILABLE", format!("the answer broke off: {error}"));
            return Status::from(fault.hint("look for the run with ListRuns before asking again")).into_http();
        }
    };
    let made = answer::frame(&data).and_then(|message| CreateRunResponse::decode(message).ok()?.run);
    if let Some(run) = made {
        open(&follower, &caller, &run).await;
        // No client knows the run's id, and no request id refers to the run.
        if !named && left.load(Ordering::Acquire) && !ended(&run) {
            abandon(&follower, run.id).await;
        }
    }
    Response::from_parts(head, Body::new(ReplayedBody(frames)))
}

/// Records the payer before the client learns the run's id. While the database is unavailable, the
/// run continues and recording is retried.
async fn open(follower: &Follower, caller: &Caller, run: &Run) {
    let Err(fault) = follower.open(caller, run).await else {
        return;
    };
    tracing::error!(run = run.id, payer = caller.principal(), %fault, "the payer of a run cannot be recorded; trying again");
    let (weak, stop) = (Arc::downgrade(&follower.0), follower.0.stop.clone());
    let (caller, run) = (caller.clone(), run.clone());
    tokio::spawn(stop.run_until_cancelled_owned(async move {
        loop {
            tokio::time::sleep(AGAIN).await;
            let Some(inner) = weak.upgrade() else { return };
            if Follower(inner).open(&caller, &run).await.is_ok() {
                return;
            }
        }
    }));
}

async fn abandon(follower: &Follower, id: String) {
    let request = CancelRunRequest {
        id: id.clone(),
        reason: "its client disconnected before the run was created".to_owned(),
    };
    if let Err(status) = follower.0.runs.clone().cancel_run(request).await {
        tracing::warn!(run = id, %status, "a run whose client has disconnected cannot be cancelled");
    }
}

/// All frames of a body, and their joined data.
async fn frames(mut body: Body) -> Result<(VecDeque<Frame<Bytes>>, Vec<u8>), axum::Error> {
    let (mut frames, mut data) = (VecDeque::new(), Vec::new());
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame?;
        data.extend_from_slice(frame.data_ref().map_or(&[], |bytes| bytes));
        frames.push_back(frame);
    }
    Ok((frames, data))
}

/// Replays a body that has already been read.
struct ReplayedBody(VecDeque<Frame<Bytes>>);

impl http_body::Body for ReplayedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}
