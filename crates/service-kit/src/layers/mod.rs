//! The layers around the handler of every request: a permit, a span in the caller's trace, a
//! deadline, the catching of panics, and metrics. They are the same on a socket and in memory.

mod answer;
pub(crate) mod coding;
mod detailed;
mod direct;
mod elements;
pub(crate) mod fuzz;
mod labels;
mod messages;
mod outgoing;
mod probes;
mod request_body;
mod settled;
mod span;
mod unread;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, response::Response};
use futures::FutureExt;
use http::{HeaderMap, header};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tracing::Instrument;

use self::{
    answer::{AnswerBody, Cut, Record},
    labels::Label,
    span::RequestSpan,
};
use crate::{
    Fault,
    auth::Auth,
    budget::Reservation,
    limits::Gate,
    metric_names,
    refusals::{Refusals, Shape},
    request_id,
    versions::{self, ClientVersion},
    wrap::Next,
};

pub(crate) use detailed::no_such_method;
pub use direct::DirectCalls;
pub(crate) use labels::Labels;
pub(crate) use outgoing::{Client, MessageStream, OutgoingAnswer};
pub(crate) use probes::{OnConnection, Probes};
pub(crate) use request_body::{Bounds, PROBE_MESSAGE, arriving};
pub(crate) use span::{OriginalRequest, OverTls, refused_call, refused_request};
pub(crate) use unread::read_the_rest;

/// How a request arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Network,
    Memory,
}

isomer_names::names!(Via { Network = "network", Memory = "memory" });

/// State that all requests of a server share.
#[derive(Debug, Clone)]
pub(crate) struct ServerContext {
    pub(crate) gate: Gate,
    /// Permits for health and reflection, which do not count towards the limit on requests.
    pub(crate) probes: Probes,
    pub(crate) timeout: Option<Duration>,
    /// The oldest client library that is served.
    pub(crate) oldest_client: ClientVersion,
    pub(crate) labels: Labels,
    pub(crate) via: Via,
    /// Authentication; off for calls in memory.
    pub(crate) auth: Auth,
    /// The formats in which failures are reported to callers.
    pub(crate) refusals: Refusals,
    /// Cancelled when the server begins to drain.
    pub(crate) closing: CancellationToken,
}

/// Resources that a request holds until its answer has ended. Nothing reads the fields: they
/// release their resources when dropped.
#[derive(Debug)]
struct RequestPermits {
    _gate: Option<OwnedSemaphorePermit>,
    _probe: Option<probes::Permit>,
}

pub(crate) async fn around(state: Arc<ServerContext>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let is_grpc = is_grpc(request.headers());
    let path = request.uri().path().to_owned();
    let respond = state.refusals.shape(&path, is_grpc);
    let label = if is_grpc {
        state.labels.grpc(&path)
    } else {
        Labels::http(&request)
    };
    let traced = RequestSpan::new(&label, &request, is_grpc, state.via);
    let span = traced.span().clone();
    let mut record = Record::start(label.clone(), state.via.name(), traced);
    let named = !is_grpc && !label.probe && state.via == Via::Network;
    let id = named.then(|| request_id::of(request.headers())).flatten();
    if let Some(id) = &id {
        span.in_scope(|| tracing::debug!(request_id = id.to_str().unwrap_or_default(), "arrived"));
    }

    let memory = request.extensions().get::<Reservation>().cloned();
    // Probes must be answered however busy the server is, and must not keep the server open when it
    // closes.
    let place = if label.probe {
        let connection = request.extensions().get::<OnConnection>();
        state
            .probes
            .enter(label.streams, connection)
            .map(|place| RequestPermits {
                _gate: None,
                _probe: Some(place),
            })
    } else {
        state.gate.enter().map(|place| RequestPermits {
            _gate: Some(place),
            _probe: None,
        })
    };
    let (response, cut, place) = match place {
        Ok(place) if label.probe => {
            let closing = state.closing.clone().cancelled_owned();
            let closing = closing
                .map(|()| Fault::unavailable("DRAINING", "the server is closing"))
                .boxed();
            let response = handle(&state.auth, None, &record, respond, request, next)
                .instrument(span)
                .await;
            (
                response,
                Cut {
                    deadline: None,
                    closing: Some(closing),
                },
                Some(place),
            )
        }
        Err(refusal) => {
            metrics::counter!(metric_names::REFUSED, "via" => state.via.name()).increment(1);
            (respond(refusal), Cut::default(), None)
        }
        Ok(place) => match state.read(&label, request.headers(), is_grpc) {
            Err(fault) => (respond(fault), Cut::default(), None),
            Ok(deadline) => {
                let response = handle(&state.auth, deadline.as_ref(), &record, respond, request, next)
                    .instrument(span)
                    .await;
                let deadline = deadline.filter(|_| is_grpc);
                let deadline = deadline.map(|end| (Box::pin(tokio::time::sleep_until(end.at)), end));
                (
                    response,
                    Cut {
                        deadline,
                        closing: None,
                    },
                    Some(place),
                )
            }
        },
    };
    let mut response = response;
    if let Some(id) = id {
        response.headers_mut().insert(request_id::HEADER, id);
    }
    if state.via == Via::Network {
        set_server_timing(&mut response, began.elapsed());
    }
    if is_grpc {
        detailed::complete(response.headers_mut(), &path);
        if state.via == Via::Network {
            versions::say(response.headers_mut(), state.oldest_client);
        }
    }
    if !is_grpc {
        record.http(response.status());
    } else if let Some(status) = Status::from_header_map(response.headers()) {
        record.grpc(status.code());
    }
    if label.streams {
        response.extensions_mut().insert(MessageStream);
    }
    response.map(|body| {
        Body::new(AnswerBody {
            body: Some(body),
            grpc: is_grpc.then_some(path),
            record,
            cut,
            place,
            memory,
        })
    })
}

/// Time that an answer waited for other servers. It is stored in the extensions of a response whose
/// caller should learn it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamTime(pub Duration);

/// Reports the time to the head of an answer (W3C Server Timing, in milliseconds). `upstream` is
/// the time until other servers had answered, and `overhead` is the rest.
fn set_server_timing(response: &mut Response, whole: Duration) {
    let Some(UpstreamTime(upstream)) = response.extensions_mut().remove() else {
        return;
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let overhead = whole.saturating_sub(upstream);
    let value = format!("upstream;dur={:.3}, overhead;dur={:.3}", ms(upstream), ms(overhead));
    if let Ok(value) = value.parse() {
        response.headers_mut().insert("server-timing", value);
    }
}

impl ServerContext {
    /// Reads the options in the headers; an error if they cannot be honoured.
    fn read(&self, label: &Label, headers: &HeaderMap, is_grpc: bool) -> Result<Option<Deadline>, Fault> {
        // Callers in the same process have the same version.
        if is_grpc && self.via == Via::Network {
            versions::admit(headers, self.oldest_client)?;
        }
        deadline(self, label, headers, is_grpc)
    }
}

/// The instant by which a request must be answered.
struct Deadline {
    at: Instant,
    /// The total time limit.
    limit: Duration,
}

impl Deadline {
    /// The error of a request without an answer by then.
    fn fault(&self) -> Fault {
        let message = format!("no answer within {} ms", self.limit.as_millis());
        Fault::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message).hint("allow more time")
    }
}

fn deadline(
    state: &ServerContext,
    label: &Label,
    headers: &HeaderMap,
    is_grpc: bool,
) -> Result<Option<Deadline>, Fault> {
    let theirs = if is_grpc { grpc_timeout(headers)? } else { None };
    // A stream may last for hours; only its caller knows how long.
    let ours = state.timeout.filter(|_| !label.streams);
    let limit = match (ours, theirs) {
        (Some(ours), Some(theirs)) => ours.min(theirs),
        (ours, theirs) => match ours.or(theirs) {
            Some(limit) => limit,
            None => return Ok(None),
        },
    };
    // A deadline beyond the clock's range is ignored.
    Ok(Instant::now().checked_add(limit).map(|at| Deadline { at, limit }))
}

/// The deadline of a request. It is stored in the extensions of each request that has one, for
/// handlers that call other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallDeadline(pub Instant);

async fn handle(
    auth: &Auth,
    end: Option<&Deadline>,
    record: &Record,
    respond: Shape,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(end) = end {
        request.extensions_mut().insert(CallDeadline(end.at));
    }
    let memory = request.extensions().get::<Reservation>().cloned();
    let (streams, is_probe) = (record.may_stream(), record.is_probe());
    let work = async {
        let request = match auth.pass(request, respond).await {
            Ok(request) => request,
            Err(refusal) => return refusal,
        };
        let Some(memory) = memory else {
            return next.run(request).await;
        };
        let response = memory.clone().scope(next.run(request)).await;
        if streams {
            return response;
        }
        settled::settled(response, &memory, is_probe)
            .await
            .unwrap_or_else(respond)
    };
    let work = AssertUnwindSafe(work).catch_unwind();
    let outcome = match end {
        Some(end) => match tokio::time::timeout_at(end.at, work).await {
            Ok(outcome) => outcome,
            Err(_) => return respond(end.fault()),
        },
        None => work.await,
    };
    outcome.unwrap_or_else(|panic| respond(record.panicked(&*panic)))
}

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Whether this is a gRPC-Web request. A page in a browser can neither read trailers nor choose its
/// HTTP version.
pub(crate) fn is_grpc_web(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc-web"))
}

/// The caller's time limit (`grpc-timeout`: up to eight digits and a unit).
fn grpc_timeout(headers: &HeaderMap) -> Result<Option<Duration>, Fault> {
    let Some(value) = headers.get("grpc-timeout") else {
        return Ok(None);
    };
    let read = || {
        let (digits, unit) = value.to_str().ok()?.split_at_checked(value.len().checked_sub(1)?)?;
        if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let n: u64 = digits.parse().ok()?;
        match unit {
            "H" => Some(Duration::from_secs(n * 3600)),
            "M" => Some(Duration::from_secs(n * 60)),
            "S" => Some(Duration::from_secs(n)),
            "m" => Some(Duration::from_millis(n)),
            "u" => Some(Duration::from_micros(n)),
            "n" => Some(Duration::from_nanos(n)),
            _ => None,
        }
    };
    read().map(Some).ok_or_else(|| {
        Fault::invalid("grpc-timeout", format!("{value:?} is not a timeout"))
            .hint("send up to eight digits and a unit (H, M, S, m, u, n), e.g. 1500m")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(value: &str) -> Result<Option<Duration>, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", value.parse().unwrap());
        grpc_timeout(&headers)
    }

    #[test]
    fn grpc_timeouts_are_read_in_every_unit() {
        for (text, duration) in [
            ("2S", Duration::from_secs(2)),
            ("150m", Duration::from_millis(150)),
            ("7u", Duration::from_micros(7)),
            ("99999999n", Duration::from_nanos(99_999_999)),
            ("1M", Duration::from_secs(60)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
        ] {
            assert_eq!(read(text).unwrap(), Some(duration), "{text}");
        }
        assert_eq!(grpc_timeout(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn a_timeout_that_is_none_is_refused_with_its_form() {
        for text in ["123456789S", "S", "x", "", "+5S", "5 S", "5s"] {
            let fault = read(text).unwrap_err();
            assert_eq!(fault.field.as_deref(), Some("grpc-timeout"), "{text}");
        }
    }
}
