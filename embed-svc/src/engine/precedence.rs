//! Interactive batches take precedence over bulk batches, even over those that have begun.
//!
//! On the CPU, separate threads compute the two kinds. While an interactive batch is computed, the
//! threads of bulk batches pause at the start of their next layer, so a query waits for at most one
//! layer. A paused thread continues as soon as an interactive batch has ended, even if others are
//! being computed. So bulk work advances by one layer per interactive batch, and is never starved.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::{Condvar, Mutex};

/// Events in order; tests observe them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An interactive batch begins.
    Began,
    /// An interactive batch has ended.
    Ended,
    /// A batch begins a layer on one of its threads. Interactive batches with separate threads do
    /// not report this.
    Layer,
}

/// The precedence of interactive batches on the processors that these engines share. Clones share
/// it.
#[derive(Clone, Default)]
pub struct Precedence(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Interactive batches in progress; read without the lock.
    running: AtomicUsize,
    state: Mutex<State>,
    ended: Condvar,
    observer: Option<Box<dyn Fn(Event) + Send + Sync>>,
}

#[derive(Default)]
struct State {
    running: usize,
    /// Interactive batches that have ended.
    ended: u64,
    /// Number of waiting threads.
    paused: usize,
}

impl fmt::Debug for Precedence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.0.running.load(Ordering::Relaxed);
        f.debug_struct("Precedence")
            .field("running", &running)
            .finish_non_exhaustive()
    }
}

impl Precedence {
    /// Calls `observer` for every event, on the thread of the event.
    pub fn observed(observer: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            observer: Some(Box::new(observer)),
            ..Inner::default()
        }))
    }

    /// Number of paused threads of bulk batches.
    pub fn paused(&self) -> usize {
        self.0.state.lock().paused
    }

    /// Begins an interactive batch, which ends when the result is dropped.
    pub(super) fn begin(&self) -> InteractiveBatch<'_> {
        let mut state = self.0.state.lock();
        state.running += 1;
        self.0.running.store(state.running, Ordering::Release);
        drop(state);
        self.0.emit(Event::Began);
        InteractiveBatch(&self.0)
    }

    /// Called by a thread of a bulk batch between two layers. If an interactive batch is being
    /// computed, it waits for the end of one.
    pub(super) fn between_layers(&self) {
        if self.0.running.load(Ordering::Acquire) > 0 {
            let mut state = self.0.state.lock();
            let ended = state.ended;
            state.paused += 1;
            while state.running > 0 && state.ended == ended {
                self.0.ended.wait(&mut state);
            }
            state.paused -= 1;
        }
        self.layer();
    }

    /// Reports that a batch begins a layer.
    pub(super) fn layer(&self) {
        self.0.emit(Event::Layer);
    }
}

impl Inner {
    fn emit(&self, event: Event) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}

/// An interactive batch in progress.
pub(super) struct InteractiveBatch<'a>(&'a Inner);

impl Drop for InteractiveBatch<'_> {
    fn drop(&mut self) {
        self.0.emit(Event::Ended);
        let mut state = self.0.state.lock();
        state.running -= 1;
        state.ended += 1;
        self.0.running.store(state.running, Ordering::Release);
        drop(state);
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    /// A bulk thread that reports the start of each layer.
    fn bulk(precedence: &Precedence, layers: usize) -> mpsc::Receiver<usize> {
        let (begins, begun) = mpsc::channel();
        let precedence = precedence.clone();
        thread::spawn(move || {
            for layer in 0..layers {
                precedence.between_layers();
                begins.send(layer).unwrap();
            }
        });
        begun
    }

    fn until_paused(precedence: &Precedence) {
        while precedence.paused() == 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn bulk_work_begins_no_layer_while_an_interactive_batch_is_computed_and_all_without() {
        let precedence = Precedence::default();
        assert_eq!(bulk(&precedence, 5).iter().count(), 5);
        let running = precedence.begin();
        let begun = bulk(&precedence, 5);
        until_paused(&precedence);
        assert!(begun.try_recv().is_err());
        drop(running);
        assert_eq!(begun.iter().count(), 5);
        assert_eq!(precedence.paused(), 0);
    }

    #[test]
    fn interactive_batches_without_a_gap_let_bulk_work_advance_by_a_layer_each() {
        let precedence = Precedence::default();
        let mut running = precedence.begin();
        let begun = bulk(&precedence, 4);
        for layer in 0..4 {
            until_paused(&precedence);
            assert!(begun.try_recv().is_err(), "layer {layer}");
            // The next batch begins before this one ends.
            let next = precedence.begin();
            drop(std::mem::replace(&mut running, next));
            assert_eq!(begun.recv_timeout(Duration::from_secs(20)), Ok(layer));
        }
        drop(running);
    }
}
