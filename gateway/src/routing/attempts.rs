//! Sends one request in several attempts.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{Either, select},
    pin_mut,
};
use isomer_service_kit::Fault;
use rand::Rng;
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::{
    choose::choose,
    metrics,
    peer::{Attempt, Peer},
    policy::{Policy, SendOptions},
    request_in_flight::RequestInFlight,
};
use crate::timing;

/// Backoff before a peer that just failed is tried again because no other peer exists.
const AGAIN: Duration = Duration::from_millis(50);

/// The reason of an attempt that timed out.
const TIMEOUT: &str = "ATTEMPT_TIMEOUT";

/// An answer and the peer that gave it. The peer counts as busy until the attempt is dropped.
pub(crate) type AttemptAnswer<T, R> = (T, Arc<R>, Attempt);

/// Whether another peer may succeed.
enum Outcome {
    /// The peer failed.
    Failed,
    /// The peer is healthy but has no free capacity.
    Busy,
    /// The request itself is invalid: every peer would refuse it.
    Refused,
}

fn outcome(fault: &Fault) -> Outcome {
    match fault.code {
        Code::Unavailable
        | Code::Internal
        | Code::Unknown
        | Code::DataLoss
        | Code::Aborted
        | Code::DeadlineExceeded
        | Code::Cancelled => Outcome::Failed,
        Code::ResourceExhausted => Outcome::Busy,
        _ => Outcome::Refused,
    }
}

/// Whether every peer would refuse the request.
pub(super) fn is_refusal(fault: &Fault) -> bool {
    matches!(outcome(fault), Outcome::Refused)
}

enum AttemptFailure {
    Retry(Fault),
    Final(Fault),
}

/// Sends a request until a peer answers, the attempts or the retry budget run out, or the deadline
/// is near.
pub(crate) async fn send<T, R, F, Fut>(
    policy: &Policy,
    order: SendOptions<'_, R>,
    call: F,
) -> Result<AttemptAnswer<T, R>, Fault>
where
    R: AsRef<Arc<Peer>>,
    F: Fn(Arc<R>) -> Fut,
    Fut: Future<Output = Result<T, Fault>>,
{
    let deadline = order.deadline;
    let sending = RequestInFlight::new(policy, order);
    let order = &sending.order;
    policy.budget().request(Instant::now());
    let mut tried: Vec<Arc<R>> = Vec::new();
    let mut last: Option<Fault> = None;
    for attempt in 1..=policy.config.attempts {
        let Some(replica) = pick(policy, order.replicas, &tried) else {
            break;
        };
        if tried.iter().any(|one| Arc::ptr_eq(one, &replica)) {
            // The same work in the same process would fail in the same way, and cost as much again.
            if R::as_ref(&replica).is_here() {
                break;
            }
            // Jitter keeps callers that failed together from retrying together.
            let wait = AGAIN.mul_f64(f64::from(attempt) * chance().random_range(0.5..1.5));
            if deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
                break;
            }
            sleep(wait).await;
        }
        tried.push(Arc::clone(&replica));
        match hedged(&sending, &mut tried, replica, &call).await {
            Ok(answer) => {
                sending.answered_by(R::as_ref(&answer.1));
                return Ok(answer);
            }
            Err(AttemptFailure::Final(fault)) => return Err(fault),
            Err(AttemptFailure::Retry(fault)) => {
                let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                let wanted = attempt < policy.config.attempts && !late && !sending.is_hopeless(&tried);
                let again = wanted && (order.again)() && policy.budget().take();
                last = Some(fault);
                if !again {
                    break;
                }
                ::metrics::counter!(metrics::RETRIES).increment(1);
            }
        }
    }
    Err(last.unwrap_or_else(|| nobody(order)))
}

#[allow(
    clippy::disallowed_methods,
    reason = "the choice changes no vector, and gateways that draw alike would all crowd the same provider"
)]
fn chance() -> impl Rng {
    rand::rng()
}

fn pick<R: AsRef<Arc<Peer>>>(policy: &Policy, replicas: &[Arc<R>], tried: &[Arc<R>]) -> Option<Arc<R>> {
    choose(
        replicas,
        tried,
        policy.config.slow_factor,
        Duration::from_secs(policy.config.warmup_seconds),
        Instant::now(),
        &mut chance(),
    )
}

fn nobody<R: AsRef<Arc<Peer>>>(order: &SendOptions<'_, R>) -> Fault {
    let now = Instant::now();
    let peers: Vec<&Peer> = order.replicas.iter().map(|replica| &**R::as_ref(replica)).collect();
    let states: Vec<String> = peers
        .iter()
        .map(|peer| {
            let health = peer.health(now);
            match health.why {
                Some(why) => format!("`{}` is {}: {why}", peer.name, health.state),
                None => format!("`{}` is {}", peer.name, health.state),
            }
        })
        .collect();
    let soonest = peers.iter().filter_map(|peer| peer.opens_at(now)).min();
    let after = soonest.map_or(Duration::from_secs(1), |at| at.saturating_duration_since(now));
    Fault::unavailable(
        "NO_PROVIDER",
        format!("no {} is available now: {}", order.kind, states.join("; ")),
    )
    .hint(order.hint)
    .retry_after(after.max(Duration::from_millis(100)))
}

/// Makes one attempt, and a second one in parallel if the first has no answer after a while. The
/// first answer wins, and the other call is dropped.
async fn hedged<T, R, F, Fut>(
    sending: &RequestInFlight<'_, R>,
    tried: &mut Vec<Arc<R>>,
    replica: Arc<R>,
    call: &F,
) -> Result<AttemptAnswer<T, R>, AttemptFailure>
where
    R: AsRef<Arc<Peer>>,
    F: Fn(Arc<R>) -> Fut,
    Fut: Future<Output = Result<T, Fault>>,
{
    let RequestInFlight { policy, order, .. } = sending;
    let first = one(sending, replica, call);
    let Some(after) = policy.config.hedge_after_ms.filter(|_| order.replicas.len() > 1) else {
        return first.await;
    };
    pin_mut!(first);
    if let Either::Left((answer, _)) = select(first.as_mut(), sleep(Duration::from_millis(after)).boxed()).await {
        return answer;
    }
    let other = pick(policy, order.replicas, tried).filter(|other| !tried.iter().any(|one| Arc::ptr_eq(one, other)));
    let Some(other) = other.filter(|_| policy.budget().take()) else {
        return first.await;
    };
    ::metrics::counter!(metrics::HEDGES).increment(1);
    tried.push(Arc::clone(&other));
    let second = one(sending, other, call);
    pin_mut!(second);
    match select(first, second).await {
        Either::Left((Err(AttemptFailure::Retry(_)), second)) => second.await,
        Either::Right((Err(AttemptFailure::Retry(_)), first)) => first.await,
        Either::Left((ended, _)) | Either::Right((ended, _)) => ended,
    }
}

/// Resolves when a peer with waiting requests has been ejected for silence while another peer is
/// healthy. If no peer is healthy, it keeps waiting: if all are silent at once, they or this
/// machine are more likely busy than gone. It also keeps waiting for a peer that becomes healthy
/// again in the meantime.
async fn silent<R: AsRef<Arc<Peer>>>(replicas: &[Arc<R>], one: &Arc<R>) {
    let peer = R::as_ref(one);
    loop {
        peer.silenced().await;
        while peer.is_out() {
            let now = Instant::now();
            let mut others = replicas.iter().filter(|other| !Arc::ptr_eq(other, one));
            if others.any(|other| R::as_ref(other).available(now)) {
                return;
            }
            sleep(AGAIN).await;
        }
    }
}

async fn one<T, R, F, Fut>(
    sending: &RequestInFlight<'_, R>,
    replica: Arc<R>,
    call: &F,
) -> Result<AttemptAnswer<T, R>, AttemptFailure>
where
    R: AsRef<Arc<Peer>>,
    F: Fn(Arc<R>) -> Fut,
    Fut: Future<Output = Result<T, Fault>>,
{
    let RequestInFlight { policy, order, .. } = sending;
    let peer = R::as_ref(&replica);
    let (kind, name) = (order.kind, &peer.name);
    let mut attempt = peer.send();
    let answered_before = peer.answers();
    // Work in this process has no time limit except the caller's own deadline.
    let limit = if peer.is_here() {
        0
    } else {
        policy.config.attempt_timeout_ms
    };
    let too_long = async {
        match limit {
            0 => std::future::pending().await,
            limit => sleep(Duration::from_millis(limit)).await,
        }
    };
    let waiting = timing::wait();
    let answer = tokio::select! {
        answer = call(Arc::clone(&replica)) => answer,
        () = silent(order.replicas, &replica) => {
            let message = format!("{kind} `{name}` no longer answers: it was ejected during the request");
            Err(Fault::unavailable("PROVIDER_OUT", message))
        }
        () = too_long => {
            let message = format!("{kind} `{name}` did not answer within {limit} ms");
            Err(Fault::new(Code::DeadlineExceeded, TIMEOUT, message))
        }
    };
    drop(waiting);
    match answer {
        Ok(answer) => {
            attempt.passed(order.content);
            Ok((answer, replica, attempt))
        }
        // The caller gave too little time, which says nothing about the provider.
        Err(fault)
            if fault.code == Code::DeadlineExceeded && order.deadline.is_some_and(|end| Instant::now() >= end) =>
        {
            Err(AttemptFailure::Final(fault))
        }
        // The provider answered other requests meanwhile. So it is busy, and this request was
        // waiting in its queue.
        Err(fault) if fault.reason == TIMEOUT && peer.answers() > answered_before => Err(AttemptFailure::Retry(fault)),
        Err(fault) => match outcome(&fault) {
            Outcome::Failed => Err(AttemptFailure::Retry(sending.failed(&replica, attempt, fault).await)),
            Outcome::Busy => {
                attempt.answered();
                Err(AttemptFailure::Retry(fault))
            }
            Outcome::Refused => {
                attempt.answered();
                Err(AttemptFailure::Final(fault))
            }
        },
    }
}
