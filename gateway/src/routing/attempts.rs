//! One request, as many attempts as it may take.

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

use super::{choose::choose, metrics, replica::Replica, router::Shared};

/// Wait before a provider that just failed is asked again, where there is no other.
const AGAIN: Duration = Duration::from_millis(50);

/// Whether another provider may do better. Encoding, counting and reranking change nothing, so that any of them may be repeated.
enum Outcome {
    /// The provider failed.
    Failed,
    /// The provider is well but has no place.
    Busy,
    /// The request's own fault, which every provider would find.
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

enum Ended {
    Retry(Fault),
    Final(Fault),
}

/// Sends a request until somebody answers, attempts or the budget run out, or the deadline is near.
pub(super) async fn send<T, F, Fut>(
    shared: &Shared,
    replicas: &[Arc<Replica>],
    deadline: Option<Instant>,
    call: F,
) -> Result<(T, Arc<Replica>), Fault>
where
    F: Fn(Arc<Replica>) -> Fut,
    Fut: Future<Output = Result<T, Fault>>,
{
    shared.budget().request(Instant::now());
    let mut tried: Vec<Arc<Replica>> = Vec::new();
    let mut last: Option<Fault> = None;
    for attempt in 1..=shared.config.attempts {
        let Some(replica) = pick(shared, replicas, &tried) else {
            break;
        };
        if tried.iter().any(|one| Arc::ptr_eq(one, &replica)) {
            // Jittered, so that callers who failed together do not come back together.
            let wait = AGAIN.mul_f64(f64::from(attempt) * chance().random_range(0.5..1.5));
            if deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
                break;
            }
            sleep(wait).await;
        }
        tried.push(Arc::clone(&replica));
        match hedged(shared, replicas, &mut tried, replica, deadline, &call).await {
            Ok(answer) => return Ok(answer),
            Err(Ended::Final(fault)) => return Err(fault),
            Err(Ended::Retry(fault)) => {
                let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                let again = attempt < shared.config.attempts && !late && shared.budget().take();
                last = Some(fault);
                if !again {
                    break;
                }
                ::metrics::counter!(metrics::RETRIES).increment(1);
            }
        }
    }
    Err(last.unwrap_or_else(|| nobody(replicas)))
}

#[allow(
    clippy::disallowed_methods,
    reason = "who is drawn changes no vector, and gateways that draw alike would all crowd the same provider"
)]
fn chance() -> impl Rng {
    rand::rng()
}

fn pick(shared: &Shared, replicas: &[Arc<Replica>], tried: &[Arc<Replica>]) -> Option<Arc<Replica>> {
    choose(
        replicas,
        tried,
        shared.config.slow_factor,
        Duration::from_secs(shared.config.warmup_seconds),
        Instant::now(),
        &mut chance(),
    )
}

fn nobody(replicas: &[Arc<Replica>]) -> Fault {
    let now = Instant::now();
    let states: Vec<String> = replicas
        .iter()
        .map(|replica| {
            let standing = replica.standing(now);
            match standing.why {
                Some(why) => format!("`{}` is {}: {why}", replica.provider, standing.state),
                None => format!("`{}` is {}", replica.provider, standing.state),
            }
        })
        .collect();
    let soonest = replicas.iter().filter_map(|replica| replica.opens_at(now)).min();
    let after = soonest.map_or(Duration::from_secs(1), |at| at.saturating_duration_since(now));
    Fault::unavailable(
        "NO_PROVIDER",
        format!("no provider can be asked now: {}", states.join("; ")),
    )
    .mend("`isomer providers list` shows how each does; start it, or correct its address")
    .retry_after(after.max(Duration::from_millis(100)))
}

/// One attempt, and after a while without an answer a second one beside it; the first answer wins, and the other call is dropped.
async fn hedged<T, F, Fut>(
    shared: &Shared,
    replicas: &[Arc<Replica>],
    tried: &mut Vec<Arc<Replica>>,
    replica: Arc<Replica>,
    deadline: Option<Instant>,
    call: &F,
) -> Result<(T, Arc<Replica>), Ended>
where
    F: Fn(Arc<Replica>) -> Fut,
    Fut: Future<Output = Result<T, Fault>>,
{
    let first = one(shared, replica, deadline, call);
    let Some(after) = shared.config.hedge_after_ms.filter(|_| replicas.len() > 1) else {
        return first.await;
    };
    pin_mut!(first);
    if let Either::Left((answer, _)) = select(first.as_mut(), sleep(Duration::from_millis(after)).boxed()).await {
        return answer;
    }
    let other = pick(shared, replicas, tried).filter(|other| !tried.iter().any(|one| Arc::ptr_eq(one, other)));
    let Some(other) = other.filter(|_| shared.budget().take()) else {
        return first.await;
    };
    ::metrics::counter!(metrics::HEDGES).increment(1);
    tried.push(Arc::clone(&other));
    let second = one(shared, other, deadline, call);
    pin_mut!(second);
    match select(first, second).await {
        Either::Left((Err(Ended::Retry(_)), second)) => second.await,
        Either::Right((Err(Ended::Retry(_)), first)) => first.await,
        Either::Left((ended, _)) | Either::Right((ended, _)) => ended,
    }
}

async fn one<T, F, Fut>(
    shared: &Shared,
    replica: Arc<Replica>,
    deadline: Option<Instant>,
    call: &F,
) -> Result<(T, Arc<Replica>), Ended>
where
    F: Fn(Arc<Replica>) -> Fut,
    Fut: Future<Output = Result<T, Fault>>,
{
    let attempt = replica.send();
    let limit = shared.config.attempt_timeout_ms;
    let too_long = async {
        match limit {
            0 => std::future::pending().await,
            limit => sleep(Duration::from_millis(limit)).await,
        }
    };
    let answer = tokio::select! {
        answer = call(Arc::clone(&replica)) => answer,
        () = attempt.taken_out() => {
            let message = format!("provider `{}` was taken out while it was asked: its health checks fail", replica.provider);
            Err(Fault::unavailable("PROVIDER_OUT", message))
        }
        () = too_long => {
            let message = format!("provider `{}` gave no answer within {limit} ms", replica.provider);
            Err(Fault::new(Code::DeadlineExceeded, "ATTEMPT_TIMEOUT", message))
        }
    };
    match answer {
        Ok(answer) => {
            attempt.answered();
            Ok((answer, replica))
        }
        // Too little time was given: that says nothing of the provider.
        Err(fault) if fault.code == Code::DeadlineExceeded && deadline.is_some_and(|end| Instant::now() >= end) => {
            Err(Ended::Final(fault))
        }
        Err(fault) => match outcome(&fault) {
            Outcome::Failed => {
                attempt.failed(&fault);
                Err(Ended::Retry(fault))
            }
            Outcome::Busy => {
                attempt.answered();
                Err(Ended::Retry(fault))
            }
            Outcome::Refused => {
                attempt.answered();
                Err(Ended::Final(fault))
            }
        },
    }
}
