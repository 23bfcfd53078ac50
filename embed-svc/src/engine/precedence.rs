//! Interactive batches go before bulk ones, also before those that have begun.
//!
//! On the CPU both are computed by threads of their own. While an interactive batch is computed,
//! the threads of bulk batches pause when they come to the next layer, so that a query waits for
//! one layer of them at most. A paused thread goes on when an interactive batch has ended, whatever
//! else is computed by then: so bulk work advances by a layer for each interactive batch, and is
//! never starved.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::{Condvar, Mutex};

/// What happens, in order; tests follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An interactive batch begins.
    Began,
    /// An interactive batch has ended.
    Ended,
    /// A batch that is not an interactive one on threads of its own begins a layer, on one of its
    /// threads.
    Layer,
}

/// The precedence of interactive batches on the processors that these engines share. Clones share
/// it.
#[derive(Clone, Default)]
pub struct Precedence(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Interactive batches that are computed now; read without the lock.
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
    /// Threads that wait.
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
    /// With a call for everything that happens, on the thread on which it happens.
    pub fn observed(observer: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            observer: Some(Box::new(observer)),
            ..Inner::default()
        }))
    }

    /// Threads of bulk batches that are paused now.
    pub fn paused(&self) -> usize {
        self.0.state.lock().paused
    }

    /// An interactive batch begins; it ends when the result is dropped.
    pub(super) fn begin(&self) -> Running<'_> {
        let mut state = self.0.state.lock();
        state.running += 1;
        self.0.running.store(state.running, Ordering::Release);
        drop(state);
        self.0.tell(Event::Began);
        Running(&self.0)
    }

    /// Called by a thread of a bulk batch between two layers: waits for the end of an interactive
    /// batch if one is computed.
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

    /// A batch begins a layer.
    pub(super) fn layer(&self) {
        self.0.tell(Event::Layer);
    }
}

impl Inner {
    fn tell(&self, event: Event) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }
}

/// An interactive batch that is computed.
pub(super) struct Running<'a>(&'a Inner);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.tell(Event::Ended);
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

    /// A bulk thread that tells of each layer that it begins.
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
            // The next one has begun before this one ends.
            let next = precedence.begin();
            drop(std::mem::replace(&mut running, next));
            assert_eq!(begun.recv_timeout(Duration::from_secs(20)), Ok(layer));
        }
        drop(running);
    }
}
