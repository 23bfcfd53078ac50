//! A request on its way to the replicas.

use isomer_service_kit::Fault;
use parking_lot::Mutex;

/// A request that is sent to one replica after the other until one answers.
///
/// Each attempt takes a copy, because another may follow. Work in this process is done once, so its
/// only attempt takes the request itself: it may be large.
#[derive(Debug)]
pub(super) struct Outgoing<R> {
    request: Mutex<Option<R>>,
    once: bool,
}

impl<R: Clone> Outgoing<R> {
    /// A request with one attempt (`once`), or with several.
    pub(super) fn new(request: R, once: bool) -> Self {
        Self {
            request: Mutex::new(Some(request)),
            once,
        }
    }

    /// The request for the next attempt.
    ///
    /// # Errors
    /// INTERNAL at a second attempt of work in this process.
    pub(super) fn take(&self) -> Result<R, Fault> {
        let mut request = self.request.lock();
        let taken = if self.once { request.take() } else { request.clone() };
        taken.ok_or_else(|| Fault::internal("a request of this process was to be sent twice"))
    }
}
