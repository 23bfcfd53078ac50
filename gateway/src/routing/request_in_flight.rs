//! Attributes the failures of a request to a peer or to the request itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use isomer_adapters::answered;
use isomer_service_kit::Fault;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{
    peer::{Attempt, Peer},
    policy::{Policy, SendOptions},
};

/// Longest wait for another answer of a peer that is about to be ejected.
const VOUCHING: Duration = Duration::from_secs(5);

pub(super) struct RequestInFlight<'a, R> {
    pub(super) policy: &'a Policy,
    pub(super) order: SendOptions<'a, R>,
    /// Whether a failure counted against a peer.
    counted: AtomicBool,
    /// Peers whose failures were attributed to the request.
    excused: Mutex<Vec<Arc<Peer>>>,
}

impl<'a, R: AsRef<Arc<Peer>>> RequestInFlight<'a, R> {
    pub(super) fn new(policy: &'a Policy, order: SendOptions<'a, R>) -> Self {
        Self {
            policy,
            order,
            counted: AtomicBool::new(false),
            excused: Mutex::default(),
        }
    }

    /// Records that the request was answered, so the peers that failed it are at fault after all.
    pub(super) fn answered_by(&self, peer: &Arc<Peer>) {
        let mut excused = std::mem::take(&mut *self.excused.lock());
        excused.retain(|one| !Arc::ptr_eq(one, peer));
        excused.iter().for_each(|one| one.blame());
    }

    /// Whether each peer had failed this request before it was sent this time. Sending it again
    /// would use up the retries of other requests.
    pub(super) fn is_hopeless(&self, tried: &[Arc<R>]) -> bool {
        let counted = self.counted.load(Ordering::Relaxed);
        let untried = |one: &Arc<R>| !tried.iter().any(|other| Arc::ptr_eq(one, other));
        !counted && !self.excused.lock().is_empty() && !self.order.replicas.iter().any(untried)
    }

    /// Records a failure of a peer. Returns the fault for the caller. It names the texts if the
    /// peer answers other requests.
    pub(super) async fn failed(&self, replica: &Arc<R>, mut attempt: Attempt, fault: Fault) -> Fault {
        let (peer, content) = (R::as_ref(replica), self.order.content);
        let texts = (peer.is_here() || answered(&fault)).then(|| (content.texts)());
        // Several bad texts in a row look like a broken peer. A broken peer also fails for another
        // text.
        if let Some(texts) = texts.as_deref().filter(|texts| !texts.is_empty())
            && attempt.would_eject(texts)
            && timeout(VOUCHING, (self.order.vouch)(Arc::clone(replica)))
                .await
                .unwrap_or(false)
        {
            attempt.vouched();
        }
        if attempt.failed(&fault, texts.as_deref()) {
            self.counted.store(true, Ordering::Relaxed);
        } else {
            self.excused.lock().push(Arc::clone(peer));
        }
        match texts {
            Some(texts) if !texts.is_empty() && peer.answers_others() => of_texts(fault, content.field, texts.len()),
            _ => fault,
        }
    }
}

/// The failure of a request at a peer that answers other requests.
fn of_texts(fault: Fault, field: &str, texts: usize) -> Fault {
    let message = format!("{}; it answers other requests", fault.message);
    let hint = match texts {
        1 => "the model may not be able to encode this text: change it or leave it out",
        _ => "one of the texts may be at fault: send halves of them to find it, and change it or leave it out",
    };
    Fault { message, ..fault }.field(field).hint(hint)
}
