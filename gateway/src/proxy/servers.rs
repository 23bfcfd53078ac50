//! Equivalent servers behind the gateway, and the choice of a healthy one for each call.
//!
//! The rules are those of encoders (`routing`): the less busy of two, health checks, breakers, a
//! retry budget. There is one difference: any response of a server, including an error, is the
//! answer. Another server is tried only if no answer arrived. For a call that may not be repeated,
//! it is tried only if nothing of the call was sent.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::to_bytes;
use bytes::Bytes;
use futures::{StreamExt, future::BoxFuture};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use isomer_access::Caller;
use isomer_adapters::out_of_time;
use isomer_proto::{common::v1::Usage, eval::v1::CreateRunRequest};
use isomer_service_kit::{CallDeadline, Fault, GrpcChannel, holder, telemetry::unsampled};
use isomer_usage::report::{self, CallBound, ReportingChannel};
use prost::Message as _;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tonic::{Code, Status, body::Body};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tower::{Service, ServiceExt};
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    billing::answer,
    routing::{
        Peer, PeerHealth, RoutingConfig, attempts,
        content::Content,
        health,
        policy::{Policy, SendOptions},
    },
    tenant,
};

/// A method that a request id makes repeatable: the second call returns the existing run.
const CREATE_RUN: &str = "/isomer.eval.v1.RunService/CreateRun";
/// Methods that must not be executed twice. All others only read, or are idempotent.
const ONCE: &[&str] = &[CREATE_RUN, "/isomer.eval.v1.RunService/DeleteRun"];
/// The hint if no server answers.
pub(super) const HINT: &str =
    "start that service, or correct its address or its TLS settings in the gateway's configuration";
/// The reason with which a server refuses a request for lack of capacity.
const OVERLOADED: &str = "OVERLOADED";

#[derive(Debug)]
struct Server {
    peer: Arc<Peer>,
    channel: GrpcChannel,
}

impl AsRef<Arc<Peer>> for Server {
    fn as_ref(&self) -> &Arc<Peer> {
        &self.peer
    }
}

/// Equivalent servers. A generated client uses them like a channel. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Servers {
    policy: Arc<Policy>,
    all: Arc<[Arc<Server>]>,
}

impl Servers {
    /// Remote servers, by their addresses. Each server's health is polled until it is dropped. Must
    /// be called inside a Tokio runtime.
    pub(crate) fn remote(routing: &RoutingConfig, servers: impl IntoIterator<Item = (String, GrpcChannel)>) -> Self {
        let made = Self::new(routing, servers);
        for server in made.all.iter() {
            tokio::spawn(watch(Arc::downgrade(server), routing.clone()).instrument(unsampled()));
        }
        made
    }

    /// The services of this process, which need no health checks.
    pub fn here(routing: &RoutingConfig, name: &str, channel: GrpcChannel) -> Self {
        Self::new(routing, [(name.to_owned(), channel)])
    }

    fn new(routing: &RoutingConfig, servers: impl IntoIterator<Item = (String, GrpcChannel)>) -> Self {
        // The duration of an answer says nothing about the server's health: one call reads a list,
        // the next has a language model write pages. So timeouts, hedging and the check for slow
        // servers are off.
        let config = RoutingConfig {
            attempt_timeout_ms: 0,
            hedge_after_ms: None,
            slow_factor: 0.0,
            ..routing.clone()
        };
        let servers = servers.into_iter().map(|(name, channel)| {
            Arc::new(Server {
                peer: Arc::new(Peer::new(name, config.breaker())),
                channel,
            })
        });
        Self {
            all: servers.collect(),
            policy: Arc::new(Policy::new(config)),
        }
    }

    /// The first server alone, for calls about state that only one server keeps.
    pub(crate) fn first(&self) -> Self {
        Self {
            all: self.all.iter().take(1).cloned().collect(),
            policy: Arc::clone(&self.policy),
        }
    }

    /// The health of each server, for display.
    pub(crate) fn server_health(&self) -> Vec<(String, PeerHealth)> {
        let now = Instant::now();
        let of = |server: &Arc<Server>| (server.peer.name.clone(), server.peer.health(now));
        self.all.iter().map(of).collect()
    }

    /// Sends a call with one request message. The server's limits have already bounded the
    /// message's size.
    ///
    /// # Errors
    /// If no server answered. An error that a server returned is an answer.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Result<Response<Body>, Fault> {
        let (mut parts, body) = request.into_parts();
        let body = axum::body::Body::new(body);
        let bytes = to_bytes(body, usize::MAX).await.map_err(|error| {
            Fault::invalid("request", format!("was not received completely: {error}")).hint("send it again")
        })?;
        let deadline = parts.extensions.get::<CallDeadline>().map(|deadline| deadline.0);
        let (bytes, identified) = match parts.uri.path() {
            CREATE_RUN => identify(bytes),
            _ => (bytes, false),
        };
        let once = ONCE.contains(&parts.uri.path()) && !identified;
        let sent = Arc::new(AtomicBool::new(false));
        let order = SendOptions {
            kind: "server",
            hint: HINT,
            replicas: &self.all,
            deadline,
            again: &|| !(once && sent.load(Ordering::Acquire)),
            // An error in a server's answer is that server's answer, not a failure of the server.
            content: Content::OPAQUE,
            vouch: &|_| Box::pin(std::future::ready(false)),
        };
        let alone = self.all.len() == 1;
        // The upstream server is asked to report its usage only if this call is counted. A client's
        // own header is removed.
        parts.headers.remove(report::HEADER);
        let tenant = tenant::of_call(parts.extensions.get::<Caller>(), &parts.headers);
        tenant.write(&mut parts.headers);
        // Callers hold nothing in the store; only runs of this process do.
        parts.headers.remove(holder::HOLDER);
        let counted = isomer_usage::current().and_then(|_| answer::reader(parts.uri.path()));
        let used = counted.map(|read| {
            // Usage cannot be read from a compressed answer.
            parts.headers.remove("grpc-accept-encoding");
            (read, CallBound::begin(answer::estimate(&bytes)))
        });
        let (parts, provisional) = (&parts, used.as_ref().map(|(_, call)| call));
        let call = |server: Arc<Server>| {
            let message = Message {
                bytes: Some(bytes.clone()),
                sent: Arc::clone(&sent),
            };
            let mut request = Request::from_parts(parts.clone(), Body::new(message));
            if let Some(left) = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                let mut timed = tonic::Request::new(());
                timed.set_timeout(left);
                request.headers_mut().extend(timed.into_parts().0.into_headers());
            }
            if let Some(call) = provisional {
                request.extensions_mut().insert(call.clone());
            }
            async move {
                let answer = match provisional {
                    None => server.channel.clone().oneshot(request).await,
                    Some(_) => match ReportingChannel(server.channel.clone()).oneshot(request).await {
                        Ok(answer) => begun(answer).await,
                        Err(status) => Err(status),
                    },
                };
                if let (Err(status), Some(deadline)) = (&answer, deadline) {
                    out_of_time(status, deadline).await;
                }
                heard(answer, alone)
            }
        };
        let work = attempts::send(&self.policy, order, call);
        let answered = match deadline {
            None => work.await,
            Some(deadline) => timeout_at(deadline, work).await.unwrap_or_else(|_| Err(late())),
        };
        let (answer, _, attempt) = match answered {
            Ok(answered) => answered,
            Err(fault) => {
                // No server began the call, unless the deadline was too short. In that case the
                // estimate stands.
                if let Some((_, call)) = used.filter(|_| fault.code != Code::DeadlineExceeded) {
                    call.end(&Usage::default());
                }
                return Err(fault);
            }
        };
        let mut answer = answer;
        let reported = answer.headers_mut().remove(report::HEADER).is_some();
        let answer = match used.filter(|_| !reported) {
            Some((read, call)) => answer.map(|body| answer::counted(body, read, call)),
            None => answer,
        };
        // A server counts as busy until its stream ends.
        Ok(answer.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let _busy = &attempt;
                frame
            }))
        }))
    }
}

/// Adds a request id to a request for a run, and returns whether the request has one now. If a run
/// with that id exists, replicas that share runs, and a restarted server, return it instead of
/// creating a second run.
fn identify(bytes: Bytes) -> (Bytes, bool) {
    // The body is one uncompressed message: a flag, its length, the message.
    let Some((&[0, a, b, c, d], message)) = bytes.split_first_chunk::<5>() else {
        return (bytes, false);
    };
    if u32::from_be_bytes([a, b, c, d]) as usize != message.len() {
        return (bytes, false);
    }
    let Ok(request) = CreateRunRequest::decode(message) else {
        return (bytes, false);
    };
    if !request.request_id.is_empty() {
        return (bytes, true);
    }
    // Concatenated messages are merged, so fields that this version does not know are kept.
    let id = CreateRunRequest {
        request_id: Uuid::now_v7().to_string(),
        ..CreateRunRequest::default()
    };
    let identified = [message, &id.encode_to_vec()].concat();
    let Ok(length) = u32::try_from(identified.len()) else {
        return (bytes, false);
    };
    let frame = [&[0], &length.to_be_bytes()[..], &identified].concat();
    (frame.into(), true)
}

/// Waits for the first frame of an answer whose head was sent early, so that another server can be
/// tried if nothing follows.
async fn begun(answer: Response<Body>) -> Result<Response<Body>, Status> {
    if !report::is_reported(answer.headers()) {
        return Ok(answer);
    }
    let (mut parts, mut body) = answer.into_parts();
    let first = std::future::poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut body), cx)).await;
    let broken = |why: &str| Status::unavailable(format!("the answer broke off: {why}"));
    let first = first.ok_or_else(|| broken("it is empty"))?;
    let first = first.map_err(|status| broken(status.message()))?;
    match first.into_data() {
        Ok(data) => {
            let first = futures::stream::iter([Ok(Frame::data(data))]);
            let rest = futures::stream::poll_fn(move |cx| http_body::Body::poll_frame(Pin::new(&mut body), cx));
            Ok(Response::from_parts(
                parts,
                Body::new(StreamBody::new(first.chain(rest))),
            ))
        }
        Err(frame) => {
            parts.headers.extend(frame.into_trailers().unwrap_or_default());
            Ok(Response::from_parts(parts, Body::empty()))
        }
    }
}

/// Decides whether a response counts as the answer. Every response of a gRPC server does, except
/// that it is overloaded while another server may have capacity.
fn heard(answer: Result<Response<Body>, Status>, alone: bool) -> Result<Response<Body>, Fault> {
    let answer = answer.map_err(|status| Fault::from_status(&status))?;
    if answer.status() != StatusCode::OK {
        // An intermediate proxy answered, for instance because its upstream is gone.
        return Err(Fault::unavailable("NOT_GRPC", format!("answered {}", answer.status())));
    }
    let exhausted = Status::from_header_map(answer.headers()).filter(|status| status.code() == Code::ResourceExhausted);
    match exhausted.map(|status| Fault::from_status(&status)) {
        Some(fault) if !alone && fault.reason == OVERLOADED => Err(fault),
        _ => Ok(answer),
    }
}

fn late() -> Fault {
    Fault::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "no answer in time").hint("allow more time")
}

/// A message that can be sent in several attempts, and that records whether sending has begun.
struct Message {
    bytes: Option<Bytes>,
    sent: Arc<AtomicBool>,
}

impl http_body::Body for Message {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.sent.store(true, Ordering::Release);
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }
}

impl Service<Request<Body>> for Servers {
    type Response = Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let servers = self.clone();
        Box::pin(async move { servers.ask(request).await.map_err(Status::from) })
    }
}

/// Polls a server's health until the server is dropped.
async fn watch(server: Weak<Server>, config: RoutingConfig) {
    let mut ticks = interval(Duration::from_millis(config.health_interval_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let patience = Duration::from_millis(config.health_timeout_ms);
    loop {
        ticks.tick().await;
        let Some(server) = server.upgrade() else { return };
        health::ask(&server.peer, patience, serves(&server.channel)).await;
    }
}

/// Whether the server as a whole reports SERVING.
async fn serves(channel: &GrpcChannel) -> Result<(), Fault> {
    let check = HealthCheckRequest::default();
    match HealthClient::new(channel.clone()).check(check).await {
        Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => Ok(()),
        Ok(answer) => {
            let status = answer.get_ref().status().as_str_name();
            Err(Fault::unavailable(
                "NOT_SERVING",
                format!("the server reports {status}"),
            ))
        }
        // A server without the health service counts as healthy, since it answered.
        Err(status) if status.code() == Code::Unimplemented => Ok(()),
        Err(status) => Err(Fault::from_status(&status)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_proto::eval::v1::RunSpec;

    use super::*;

    fn frame(message: &[u8]) -> Bytes {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0], &length[..], message].concat().into()
    }

    #[test]
    fn a_request_for_a_run_gets_an_id_and_keeps_the_one_it_has_and_all_its_fields() {
        let mut request = CreateRunRequest {
            spec: Some(RunSpec {
                generator_id: "big".to_owned(),
                ..RunSpec::default()
            }),
            request_id: String::new(),
        };
        // Contains a field that this version does not know: number 99, varint 7.
        let newer = [request.encode_to_vec(), vec![0x98, 0x06, 0x07]].concat();
        let (sent, identified) = identify(frame(&newer));
        assert!(identified);
        assert!(sent[5..].starts_with(&newer), "what was sent stays");
        assert_eq!(
            u32::from_be_bytes(sent[1..5].try_into().unwrap()) as usize,
            sent.len() - 5
        );
        let read = CreateRunRequest::decode(&sent[5..]).unwrap();
        assert_eq!(read.spec, request.spec);
        assert!(Uuid::try_parse(&read.request_id).is_ok(), "{}", read.request_id);

        request.request_id = "mine".to_owned();
        let own = frame(&request.encode_to_vec());
        assert_eq!(identify(own.clone()), (own, true));
    }

    #[test]
    fn a_request_that_cannot_be_read_stays_as_it_is_and_is_not_repeated() {
        let compressed: Bytes = [&[1, 0, 0, 0, 3][..], b"abc"].concat().into();
        let cut: Bytes = vec![0, 0, 0, 0, 9, 1].into();
        for bytes in [compressed, cut, Bytes::new(), frame(&[0xff])] {
            assert_eq!(identify(bytes.clone()), (bytes, false));
        }
    }
}
