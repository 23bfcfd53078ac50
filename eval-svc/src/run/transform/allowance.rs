//! Requests of a run with limits. A request is delayed until its maximum usage fits, in addition to
//! past usage and requests in flight. So requests in flight cannot exceed the run's limits.
//!
//! Near a limit requests become smaller, and the last texts are sent individually, with as many
//! attempts as fit. If a text needs more attempts, the run ends.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{StreamExt, stream, stream::BoxStream};
use isomer_proto::transform::v1::{GenerationEstimate, GuardMode, Outcome, TransformResult, TransformSpec};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::responses::{ResponseEvent, TransformOrder, responses};
use crate::run::{
    RunContext, RunError,
    plan::{
        ceiling::{Amount, Ceiling},
        requests::{Chunk, estimate_items},
    },
    progress::RunProgress,
};

/// Safety factor on the estimated tokens of a prompt: an estimate assumes four bytes per token, and
/// texts in non-Latin scripts have about two.
const CAUTION: f64 = 2.0;

/// The amounts reserved for requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    amounts: Mutex<Vec<(u64, Amount)>>,
    next: AtomicU64,
    released: Notify,
}

/// A reservation, released when it is dropped.
#[derive(Debug)]
struct Reservation {
    id: u64,
    of: Arc<Reservations>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.of.amounts.lock().retain(|(id, _)| *id != self.id);
        self.of.released.notify_waiters();
    }
}

impl Reservations {
    /// The sum, and whether any request is in flight.
    fn sum(&self) -> (Amount, bool) {
        let amounts = self.amounts.lock();
        let sum = amounts
            .iter()
            .fold(Amount::default(), |sum, (_, amount)| sum.plus(*amount));
        (sum, !amounts.is_empty())
    }
}

/// The responses to requests of a run without limits in the same form: one stream for each request.
pub(crate) type Responses<'a> = BoxStream<'a, Result<ResponseEvent, RunError>>;

/// Requests that may be sent now.
struct AdmissionQueue<'a> {
    context: &'a RunContext,
    progress: &'a RunProgress,
    order: &'a TransformOrder,
    waiting: VecDeque<Chunk>,
    reserved: Arc<Reservations>,
}

/// Sends each request as soon as the limits permit it in addition to the `reserved` amounts. An
/// error ends the stream.
pub(crate) fn admitted<'a>(
    context: &'a RunContext,
    progress: &'a RunProgress,
    order: &'a TransformOrder,
    chunks: Vec<Chunk>,
    reserved: Arc<Reservations>,
) -> BoxStream<'a, Responses<'a>> {
    let queue = AdmissionQueue {
        context,
        progress,
        order,
        waiting: chunks.into(),
        reserved,
    };
    stream::unfold(Some(queue), |queue| async move {
        let mut queue = queue?;
        match queue.next().await {
            Ok(None) => None,
            Ok(Some(responses)) => Some((responses, Some(queue))),
            Err(error) => Some((stream::once(async { Err(error) }).boxed(), None)),
        }
    })
    .boxed()
}

impl<'a> AdmissionQueue<'a> {
    /// The responses to the next request, once the limits permit it.
    async fn next(&mut self) -> Result<Option<Responses<'a>>, RunError> {
        let Some(mut chunk) = self.waiting.pop_front() else {
            return Ok(None);
        };
        loop {
            let most = self.most(&self.order.spec, &chunk, CAUTION).await?;
            loop {
                // Registered before the check, so that no release in between is missed.
                let reserved = Arc::clone(&self.reserved);
                let released = reserved.released.notified();
                if let Ok(reservation) = self.reserve(most) {
                    return Ok(Some(self.send(chunk, self.order.spec.clone(), reservation)));
                }
                if !self.reserved.sum().1 {
                    break;
                }
                released.await;
            }
            if chunk.len() == 1 {
                return self.last(chunk).await.map(Some);
            }
            let rest = chunk.split_off(chunk.len() / 2);
            self.waiting.push_front(rest);
        }
    }

    fn reserve(&self, most: Amount) -> Result<Reservation, RunError> {
        let (reserved, _) = self.reserved.sum();
        self.order.ceiling.admit(&self.progress.counters(), reserved, most)?;
        let id = self.reserved.next.fetch_add(1, Ordering::Relaxed);
        self.reserved.amounts.lock().push((id, most));
        Ok(Reservation {
            id,
            of: Arc::clone(&self.reserved),
        })
    }

    fn send(&self, chunk: Chunk, spec: TransformSpec, reservation: Reservation) -> Responses<'a> {
        let (order, work) = (self.order, &self.context.work);
        let events = responses(work, &order.producer, spec, chunk, order.what.clone());
        // The consumer counts a response before it polls for the next, and so before the
        // reservation is released.
        events
            .inspect(move |_| {
                let _reservation = &reservation;
            })
            .boxed()
    }

    /// Sends a text that the limits do not permit with all its attempts; the attempts are reduced
    /// to the permitted number. No other request is in flight.
    async fn last(&mut self, chunk: Chunk) -> Result<Responses<'a>, RunError> {
        let all = self.order.spec.max_attempts.unwrap_or(1);
        let mut refused = None;
        for attempts in (1..=all).rev() {
            let spec = TransformSpec {
                max_attempts: Some(attempts),
                ..self.order.spec.clone()
            };
            let most = self.most(&spec, &chunk, 1.0).await?;
            let reservation = match self.reserve(most) {
                Ok(reservation) => reservation,
                Err(error) => {
                    refused = Some(error);
                    continue;
                }
            };
            let sent = self.send(chunk.clone(), spec, reservation);
            if attempts == all {
                return Ok(sent);
            }
            let (context, progress, order) = (self.context, self.progress, self.order);
            let checked = sent.then(move |event| {
                let chunk = chunk.clone();
                async move {
                    let unfinished = match &event {
                        Ok(ResponseEvent::Text(_, result)) if !is_final(&order.spec, result) => true,
                        Ok(_) | Err(_) => false,
                    };
                    let refused = match unfinished {
                        true => needs_more(context, progress, order, &chunk).await,
                        false => None,
                    };
                    stream::iter([Some(event), refused.map(Err)].into_iter().flatten())
                }
            });
            return Ok(checked.flatten().boxed());
        }
        Err(refused.unwrap_or_else(|| RunError::LimitReached {
            field: "generator_calls",
            taken: "no attempt at a text".to_owned(),
            limit: "0".to_owned(),
        }))
    }

    async fn most(&self, spec: &TransformSpec, chunk: &Chunk, caution: f64) -> Result<Amount, RunError> {
        let forecast = estimate(self.context, self.order, spec, chunk).await?;
        Ok(most(&self.order.ceiling, &forecast, caution))
    }
}

/// The maximum usage of an estimate.
fn most(ceiling: &Ceiling, forecast: &GenerationEstimate, caution: f64) -> Amount {
    let more = (caution - 1.0) * forecast.most_prompt_tokens as f64;
    Amount {
        calls: forecast.most_calls,
        cost: forecast.most_cost.unwrap_or_default() + ceiling.price(more, 0.0),
    }
}

/// Whether more attempts would change nothing.
fn is_final(spec: &TransformSpec, result: &TransformResult) -> bool {
    let made = matches!(result.outcome(), Outcome::Ok | Outcome::Recovered);
    made && (spec.guards() != GuardMode::Retry || result.guards.is_empty())
}

/// The reason why a text with reduced attempts cannot be completed. `None` if it is complete,
/// because the caches then contain every call that it needs.
async fn needs_more(
    context: &RunContext,
    progress: &RunProgress,
    order: &TransformOrder,
    chunk: &Chunk,
) -> Option<RunError> {
    let forecast = match estimate(context, order, &order.spec, chunk).await {
        Ok(forecast) => forecast,
        Err(error) => return Some(error),
    };
    if forecast.most_calls == 0 {
        return None;
    }
    // Its first attempt may not have been counted yet.
    let refused = order.ceiling.admit(
        &progress.counters(),
        Amount::default(),
        most(&order.ceiling, &forecast, 1.0),
    );
    refused.err().or_else(|| {
        Some(RunError::LimitReached {
            field: "generator_calls",
            taken: format!(
                "so much that a text cannot have the {} calls it needs",
                forecast.most_calls
            ),
            limit: "what is left".to_owned(),
        })
    })
}

async fn estimate(
    context: &RunContext,
    order: &TransformOrder,
    spec: &TransformSpec,
    chunk: &Chunk,
) -> Result<GenerationEstimate, RunError> {
    let items = chunk.iter().map(|(_, item)| item.clone()).collect();
    estimate_items(context, spec, items, &order.what).await
}
