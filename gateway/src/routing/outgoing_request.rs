//! A request on its way to replicas.

use std::sync::OnceLock;

use isomer_service_kit::Fault;
use parking_lot::Mutex;

use super::content::Texts;

/// A request that is sent to one replica after another until one answers.
///
/// Each attempt takes a copy, because another attempt may follow. Work in this process is done
/// once, so its only attempt takes the request itself, which may be large.
#[derive(Debug)]
pub(super) struct OutgoingRequest<R> {
    request: Mutex<Option<R>>,
    once: bool,
    texts: OnceLock<Vec<u64>>,
}

impl<R: Clone + Texts> OutgoingRequest<R> {
    /// A request with one attempt (`once`), or with several.
    pub(super) fn new(request: R, once: bool) -> Self {
        Self {
            request: Mutex::new(Some(request)),
            once,
            texts: OnceLock::new(),
        }
    }

    /// The hashes of its texts.
    pub(super) fn texts(&self) -> Vec<u64> {
        let of_request = || self.request.lock().as_ref().map(R::texts).unwrap_or_default();
        self.texts.get_or_init(of_request).clone()
    }

    /// The request for the next attempt.
    ///
    /// # Errors
    /// INTERNAL at a second attempt of work in this process.
    pub(super) fn take(&self) -> Result<R, Fault> {
        if self.once {
            // The request cannot be read once it has been taken.
            self.texts();
        }
        let mut request = self.request.lock();
        let taken = if self.once { request.take() } else { request.clone() };
        taken.ok_or_else(|| Fault::internal("a request of this process was to be sent twice"))
    }
}
