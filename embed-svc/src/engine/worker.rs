//! The threads that run batches. Each replica of a model has two; on the CPU it has two for
//! interactive and two for bulk batches. One thread launches a batch while the other waits for
//! results or returns them. So a replica runs batches without a gap. A GPU gets the next batch
//! before it has finished the last. On the CPU, threads that find no work left in a batch begin the
//! next.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use super::{PIECES, PieceResult, Priority, Shared, Unit};
use crate::{
    batch::{Outputs, Sequence},
    error::EmbedError,
};

/// Threads of a replica per kind of batch.
pub(super) const LANES: usize = 2;

/// Encodes a batch. If the device has too little memory, it encodes the batch in two halves. `free`
/// is called in between, because the pool's cached blocks have the wrong sizes for the halves.
fn in_halves(
    texts: &[&Sequence],
    free: impl Fn(),
    mut encode: impl FnMut(&[&Sequence]) -> Result<Outputs, EmbedError>,
) -> Result<Outputs, EmbedError> {
    match encode(texts) {
        Err(EmbedError::OutOfMemory { device }) if texts.len() > 1 => {
            tracing::warn!(device, texts = texts.len(), "out of memory: the batch is halved");
            free();
            let (first, second) = texts.split_at(texts.len() / 2);
            let mut outputs = encode(first)?;
            outputs.append(encode(second)?);
            Ok(outputs)
        }
        result => result,
    }
}

/// The batches that a thread takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Interactive,
    /// Bulk batches, which give way to interactive ones between layers.
    Bulk,
    /// Both kinds, computed one after another.
    Either,
}

impl Work {
    /// Number of kinds of batches that are launched independently of each other.
    pub(super) const KINDS: usize = 2;

    /// Index of its turn.
    fn place(self) -> usize {
        match self {
            Self::Interactive | Self::Either => 0,
            Self::Bulk => 1,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReplicaState {
    /// A batch is being launched. On the CPU this lasts until the batch's last run begins.
    launching: bool,
    /// Number of batches that are launched but not finished.
    running: usize,
}

/// A replica's turn to launch. It is released when dropped, so the other lane continues in any
/// case.
struct LaunchTurn<'a> {
    shared: &'a Shared,
    replica: usize,
    work: Work,
    tokens: usize,
    launching: bool,
}

impl LaunchTurn<'_> {
    /// The work is submitted to the device, so the other lane may launch more.
    fn launched(&mut self) {
        if std::mem::take(&mut self.launching) {
            self.shared.state.lock().turns[self.replica][self.work.place()].launching = false;
            self.shared.work.notify_all();
        }
    }
}

impl Drop for LaunchTurn<'_> {
    fn drop(&mut self) {
        self.launched();
        let mut state = self.shared.state.lock();
        state.turns[self.replica][self.work.place()].running -= 1;
        state.running_tokens -= self.tokens;
        drop(state);
        self.shared.work.notify_all();
    }
}

fn tokens_of(batch: &[Unit]) -> usize {
    batch
        .iter()
        .flat_map(|unit| &unit.texts)
        .map(|text| text.ids.len())
        .sum()
}

impl Shared {
    /// Runs a lane of a replica until the engine is dropped.
    pub(super) fn work(&self, replica: usize, work: Work) {
        while let Some(batch) = self.next_batch(replica, work) {
            let texts: Vec<&Sequence> = batch.iter().flat_map(|unit| &unit.texts).collect();
            let tokens = tokens_of(&batch);
            let mut launch_turn = LaunchTurn {
                shared: self,
                replica,
                work,
                tokens,
                launching: true,
            };
            let count = texts.len();
            let own = &self.replicas[replica];
            let interactive = work == Work::Interactive;
            let pool = if interactive { &own.interactive } else { &own.pool };
            let between = || match work {
                Work::Interactive => {}
                Work::Bulk => self.common.precedence.between_layers(),
                Work::Either => self.common.precedence.layer(),
            };
            let started = Instant::now();
            let mut launched = || launch_turn.launched();
            let encode = |texts: &[&Sequence], launched: &mut (dyn FnMut() + Send)| {
                pool.install(|| own.model.encode_launching(texts.iter().copied(), launched, &between))
            };
            // A panic here would be our bug, but it must not stop the queue.
            let result = catch_unwind(AssertUnwindSafe(|| {
                let _running = interactive.then(|| self.common.precedence.begin());
                in_halves(
                    &texts,
                    || own.model.device().trim(0),
                    |texts| encode(texts, &mut launched),
                )
            }));
            let ended = Instant::now();
            drop(launch_turn);
            self.account(replica, tokens, count, started, ended);
            let result = result.unwrap_or_else(|_| {
                let problem = format!("encoder `{}` panicked on a batch", self.id);
                Err(EmbedError::Internal(problem))
            });
            self.common.lost.note(&result);
            // The receiver of a reply is gone if the request was cancelled in the meantime.
            match result {
                Ok(mut outputs) => {
                    for unit in batch.into_iter().rev() {
                        let outputs = outputs.split_last(own.model.sizes(unit.texts.iter()));
                        let _ = unit.reply.send(Ok(PieceResult {
                            outputs,
                            started,
                            ended,
                        }));
                    }
                }
                Err(error) => {
                    for unit in batch {
                        let _ = unit.reply.send(Err(error.for_another()));
                    }
                }
            }
        }
    }

    /// Waits for work and for the replica's turn; `None` if the engine was dropped. A replica that
    /// is still computing gets another batch only if enough tokens wait, because batches taken too
    /// early would be small.
    fn next_batch(&self, replica: usize, work: Work) -> Option<Vec<Unit>> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            let turn = state.turns[replica][work.place()];
            let piece = self.limits.batch_tokens.div_ceil(PIECES);
            let enough = self.replicas[replica].model.worth_overlapping(piece);
            let waiting = match work {
                Work::Interactive => state.queue.tokens_of(Priority::Interactive),
                Work::Bulk => state.queue.tokens_of(Priority::Batch),
                Work::Either => state.queue.tokens(),
            };
            let ahead = waiting >= enough;
            if !turn.launching && (turn.running == 0 || ahead) {
                let now = Instant::now();
                // Dropping a unit drops its sender, which the receiver treats as a passed deadline.
                let wanted =
                    |unit: &Unit| !unit.reply.is_closed() && unit.deadline.is_none_or(|deadline| now < deadline);
                let budget = self.limits.batch_tokens;
                let batch = match work {
                    Work::Interactive => state.queue.take_of(Priority::Interactive, budget, wanted),
                    Work::Bulk => state.queue.take_of(Priority::Batch, budget, wanted),
                    Work::Either => state.queue.take(budget, wanted),
                };
                self.gauge(&state);
                if !batch.is_empty() {
                    let turn = &mut state.turns[replica][work.place()];
                    turn.launching = true;
                    turn.running += 1;
                    if state.running_tokens == 0 {
                        state.running_since = Some(now);
                    }
                    state.running_tokens += tokens_of(&batch);
                    return Some(batch);
                }
            }
            self.work.wait(&mut state);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn account(&self, replica: usize, tokens: usize, texts: usize, started: Instant, ended: Instant) {
        let mut state = self.state.lock();
        // Batches overlap, so a batch is timed from the end of the previous one.
        let since = state.ended.filter(|last| *last > started).unwrap_or(started);
        state.ended = Some(state.ended.map_or(ended, |last| last.max(ended)));
        let rate = tokens as f64 / ended.saturating_duration_since(since).as_secs_f64().max(1e-6);
        state.rate = if state.rate == 0.0 {
            rate
        } else {
            0.8 * state.rate + 0.2 * rate
        };
        state.batches[replica] += 1;
        drop(state);
        let device = self.replicas[replica].model.device();
        if let Some(bytes) = device.reserved() {
            metrics::gauge!(crate::metric_names::RESERVED, "device" => device.name()).set(bytes as f64);
        }
        let took = ended - started;
        let id = || self.id.clone();
        metrics::counter!(crate::metric_names::TEXTS, "encoder" => id()).increment(texts as u64);
        metrics::counter!(crate::metric_names::TOKENS, "encoder" => id()).increment(tokens as u64);
        metrics::histogram!(crate::metric_names::BATCH_TOKENS, "encoder" => id()).record(tokens as f64);
        metrics::histogram!(crate::metric_names::BATCH_SECONDS, "encoder" => id()).record(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn no_memory() -> EmbedError {
        EmbedError::OutOfMemory {
            device: "cuda:0".into(),
        }
    }

    #[test]
    fn a_batch_that_is_too_large_is_halved_once_and_then_refused() {
        let texts: Vec<Sequence> = (0..5u32).map(|id| vec![id].into()).collect();
        let texts: Vec<&Sequence> = texts.iter().collect();
        for (most, expected) in [(5, Some(vec![5])), (3, Some(vec![5, 2, 3])), (2, None)] {
            let mut sizes = Vec::new();
            let result = in_halves(
                &texts,
                || (),
                |texts| {
                    sizes.push(texts.len());
                    let values = || {
                        texts
                            .iter()
                            .map(|text| f32::from(u8::try_from(text.ids[0]).unwrap()))
                            .collect()
                    };
                    if texts.len() > most {
                        Err(no_memory())
                    } else {
                        Ok(Outputs {
                            text_vectors: values(),
                            ..Outputs::default()
                        })
                    }
                },
            );
            match expected {
                Some(expected) => {
                    assert_eq!(result.unwrap().text_vectors, [0.0, 1.0, 2.0, 3.0, 4.0]);
                    assert_eq!(sizes, expected);
                }
                None => assert!(matches!(result, Err(EmbedError::OutOfMemory { .. }))),
            }
        }
        let one = in_halves(&texts[..1], || (), |_| Err(no_memory()));
        assert!(
            matches!(one, Err(EmbedError::OutOfMemory { .. })),
            "a single text cannot be halved"
        );
    }

    #[test]
    fn other_failures_are_not_tried_again() {
        let texts: Vec<Sequence> = vec![vec![1].into(), vec![2].into()];
        let texts: Vec<&Sequence> = texts.iter().collect();
        let mut calls = 0;
        let result = in_halves(
            &texts,
            || (),
            |_| {
                calls += 1;
                Err(EmbedError::Internal("lost".into()))
            },
        );
        assert!(matches!(result, Err(EmbedError::Internal(_))));
        assert_eq!(calls, 1);
    }
}
